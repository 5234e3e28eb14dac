"""Hidden states and gradients the plain way: a copy of the model whose blocks keep their output, and `.backward()`."""

import copy

import torch
from torch import Tensor, nn

from anisoscope import Look
from anisoscope.capture.positions import Half

Rows = dict[str, tuple[Tensor, Tensor]]  # layer -> h, g, each (rows, width)


def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
    """Summed negative log likelihood of the targets; -100 bears none."""
    bearing = targets != -100
    log_p = logits.log_softmax(-1)[bearing]
    return -log_p[torch.arange(len(log_p)), targets[bearing]].sum()


def logits_of(model: nn.Module, inputs: Tensor) -> Tensor:
    output = model(inputs)
    return getattr(output, "logits", output)


def plain(model: nn.Module, blocks: list[str], inputs: Tensor, targets: Tensor) -> Rows:
    """All sequences at once; the model itself is left alone."""
    model = copy.deepcopy(model).eval().requires_grad_(True)
    kept: dict[str, Tensor] = {}

    def keep(name: str, tensor: Tensor) -> None:
        tensor.retain_grad()
        kept[name] = tensor

    def wrap(name: str, is_first: bool) -> None:
        block = model.get_submodule(name)
        inner = block.forward

        def forward(*args, **kwargs):
            if is_first:
                keep("embedding", args[0] if args else kwargs["hidden_states"])
            output = inner(*args, **kwargs)
            keep(name, output[0] if isinstance(output, tuple) else output)
            return output

        block.forward = forward

    for index, name in enumerate(blocks):
        wrap(name, index == 0)
    loss_of(logits_of(model, inputs), targets).backward()
    return {name: (h.detach().flatten(0, 1), h.grad.flatten(0, 1)) for name, h in kept.items()}


def seen(look: Look, half: Half = "test", label: str = "true") -> Rows:
    """What a look holds, all chunks in one."""
    chunks = list(look.scan(half, (label,)))
    return {
        site.layer: (torch.cat([c.h[site] for c in chunks]), torch.cat([c.g[label][site] for c in chunks]))
        for site in look.sites
    }


def gap(got: Tensor, wanted: Tensor) -> float:
    """Length of the difference, relative to the length of what is wanted."""
    return float((got - wanted).norm() / wanted.norm())


def largest_gap(got: Rows, wanted: Rows) -> float:
    assert list(got) == list(wanted)
    return max(gap(a, b) for name in wanted for a, b in zip(got[name], wanted[name], strict=True))
