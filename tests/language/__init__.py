"""The language: what its expressions mean, and what the check on load finds."""
