"""Trust in the program: the forward pass that stands in YAML, against what nobody here wrote.

The program gives every expected value of the suite, so it must not be its own witness. These tests read it in float64
and compare it with PyTorch, with `transformers`, with ONNX's reference, and with formulas and numbers in print.
"""
