"""Finding the blocks of a model: the places where its representation passes from layer to layer."""

from collections.abc import Sequence

from torch import nn

from ..errors import ModelError


def find_blocks(model: nn.Module, layers: Sequence[str] | None = None) -> list[tuple[str, nn.Module]]:
    """The model's blocks in order, with their module paths.

    Found as the `nn.ModuleList` of alike modules that holds the most parameters: the stack of transformer blocks in
    every common code base. `layers` names them instead: module paths, or the path of the list that holds them.

    >>> from torch import nn
    >>> [name for name, _ in find_blocks(nn.ModuleDict({"h": nn.ModuleList([nn.Linear(2, 2) for _ in range(2)])}))]
    ['h.0', 'h.1']
    """
    modules = dict(model.named_modules())
    if layers is not None:
        return _named(modules, [layers] if isinstance(layers, str) else list(layers))
    stacks = []
    for name, module in modules.items():
        if isinstance(module, nn.ModuleList) and len(module) and len({type(member) for member in module}) == 1:
            size = sum(parameter.numel() for parameter in module.parameters())
            if size:
                stacks.append((size, name, module))
    if not stacks:
        raise ModelError(
            f"no blocks found in {type(model).__name__}: it holds no nn.ModuleList of alike modules. It has "
            f"{_listing(modules)}: name the blocks with layers=[...], first to last"
        )
    stacks.sort(key=lambda stack: -stack[0])
    size, name, stack = stacks[0]
    rivals = [other for much, other, _ in stacks[1:] if much > 0.5 * size and not other.startswith(f"{name}.")]
    if rivals:
        raise ModelError(
            f"{type(model).__name__} has two stacks of blocks, {name!r} and {rivals[0]!r}: "
            f"choose one with layers={name!r}"
        )
    return [(f"{name}.{index}", block) for index, block in enumerate(stack)]


def _named(modules: dict[str, nn.Module], layers: list[str]) -> list[tuple[str, nn.Module]]:
    if not layers:
        raise ModelError(f"layers is empty; the model has {_listing(modules)}: name the blocks, first to last")
    missing = [layer for layer in layers if layer not in modules]
    if missing:
        raise ModelError(f"the model has no module {', '.join(map(repr, missing))}; it has {_listing(modules)}")
    if len(layers) == 1 and isinstance(modules[layers[0]], nn.ModuleList):
        members = modules[layers[0]].named_children()
        return [(f"{layers[0]}.{name}", member) for name, member in members]
    return [(layer, modules[layer]) for layer in layers]


def _listing(modules: dict[str, nn.Module], most: int = 12) -> str:
    names = [f"{name} ({type(module).__name__})" for name, module in modules.items() if name]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "") or "no submodules"
