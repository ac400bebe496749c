"""Grades implementations of the Transformer forward pass against claims written in YAML."""

__version__ = "0.1.0"
