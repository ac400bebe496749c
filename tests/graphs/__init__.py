"""ONNX graphs, right and wrong, built when a test needs them; none is stored."""
