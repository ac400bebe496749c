"""ONNX files: what a graph does, read off its structure; nothing here runs a graph.

The file is untrusted. `reading` looks at it in a process with limits (`child`), weights are left
where they are, and the facts travel to the rest of the suite as plain data (`facts`).
"""
