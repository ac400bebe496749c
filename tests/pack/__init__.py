"""The files of a pack: their YAML, their form, and the schemas that editors use."""
