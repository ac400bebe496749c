"""The pack's mistakes: what each changes, that no two are one, and that the zoo makes them as named."""
