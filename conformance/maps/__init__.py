"""Maps: how a `torch.nn.Module` that exists already is built, filled and called. `adapters/module_map/` acts on them."""
