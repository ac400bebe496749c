"""ONNX files made, and checked before anyone ships them: of the program itself, and of PyTorch modules."""
