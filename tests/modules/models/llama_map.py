"""A map with more to say than its tables: it turns the gains into what the module stores by itself."""

from module_map import ModuleMap


class WithGains(ModuleMap):
    def fill(self, module, params, config):
        moved = {name: value - 1 if "norm" in name else value for name, value in params.items()}
        super().fill(module, moved, config)
