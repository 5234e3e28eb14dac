"""Finding the blocks of a model: the places where its representation passes from layer to layer."""

from collections.abc import Sequence

from torch import nn

from ..errors import ModelError


def find_blocks(model: nn.Module, layers: str | Sequence[str] | None = None) -> list[tuple[str, nn.Module]]:
    """The model's blocks in order, with their module paths.

    Found as the `nn.ModuleList` of alike modules that holds the most parameters: the stack of transformer blocks in
    every common code base; where there is none, as the one `nn.Sequential` of alike modules. `layers` names them
    instead: module paths, or as one string the path of the list or `nn.Sequential` that holds them.

    >>> from torch import nn
    >>> [name for name, _ in find_blocks(nn.ModuleDict({"h": nn.ModuleList([nn.Linear(2, 2) for _ in range(2)])}))]
    ['h.0', 'h.1']
    """
    modules = dict(model.named_modules())
    if layers is not None:
        return _named(modules, layers)
    lists = _stacks(modules, nn.ModuleList)
    stacks = lists or _stacks(modules, nn.Sequential)
    if not stacks:
        raise ModelError(
            f"no blocks found in {type(model).__name__}: it holds no nn.ModuleList of alike modules. It has "
            f"{_listing(modules)}: name the blocks with layers=[...], first to last"
        )
    size, name = stacks[0]
    # Much that is small lies in lists (adapters, heads); a second nn.Sequential of any size is reason to ask.
    least = size // 2 if lists else 0
    rivals = [other for much, other in stacks[1:] if much > least and not other.startswith(f"{name}.")]
    if rivals:
        raise ModelError(
            f"{type(model).__name__} has two stacks of blocks, {name!r} and {rivals[0]!r}: "
            f"choose one with layers={name!r}"
        )
    return _members(name, modules[name])


def _stacks(modules: dict[str, nn.Module], kind: type[nn.Module]) -> list[tuple[int, str]]:
    """Size and path of what holds alike modules with parameters, the largest first. In an `nn.Sequential` they hold
    modules themselves, as blocks do: two linear maps in a row are none.
    """
    found = []
    for name, module in modules.items():
        members = list(module.children()) if name and isinstance(module, kind) else []
        blocks = kind is nn.ModuleList or (len(members) > 1 and all(any(one.children()) for one in members))
        size = sum(parameter.numel() for parameter in module.parameters()) if members and blocks else 0
        if size and len({type(member) for member in members}) == 1:
            found.append((size, name))
    return sorted(found, key=lambda stack: -stack[0])


def _members(name: str, stack: nn.Module) -> list[tuple[str, nn.Module]]:
    return [(f"{name}.{index}", member) for index, member in stack.named_children()]


def _named(modules: dict[str, nn.Module], layers: str | Sequence[str]) -> list[tuple[str, nn.Module]]:
    names = [layers] if isinstance(layers, str) else list(layers)
    if not names:
        raise ModelError(f"layers is empty; the model has {_listing(modules)}: name the blocks, first to last")
    missing = [name for name in names if name not in modules]
    if missing:
        raise ModelError(f"the model has no module {', '.join(map(repr, missing))}; it has {_listing(modules)}")
    only = modules[names[0]]
    # Nobody calls a list: whoever names one means its members. An nn.Sequential may be meant as it is: layers=[name].
    held = isinstance(layers, str) and isinstance(only, nn.Sequential) and len(only) > 1
    if held or (len(names) == 1 and isinstance(only, nn.ModuleList)):
        return _members(names[0], only)
    return [(name, modules[name]) for name in names]


def _listing(modules: dict[str, nn.Module], most: int = 12) -> str:
    names = [f"{name} ({type(module).__name__})" for name, module in modules.items() if name]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "") or "no submodules"
