"""A pack of YAML: its files, their form, and what they say in memory."""
