"""What the adapters share, found by a relative import as in the course's folder."""

import torch


def filled(module: torch.nn.Module, weights: dict[str, torch.Tensor]) -> torch.nn.Module:
    """The module with these weights, every one of them used."""
    module.load_state_dict(weights)
    return module
