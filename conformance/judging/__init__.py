"""How each kind of claim is judged on what a target returned."""
