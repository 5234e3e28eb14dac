"""Passes of our own over a live model: hidden states by forward hooks, their gradients by `torch.autograd.grad`.

Nothing of the model's training is touched: no `.grad` is filled, modes and random streams are put back, hooks live for
one micro-batch. Each pass counts the records it expects against those it received: silence is never taken for zero.
"""

import contextlib
import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from ..errors import ModelError
from .blocks import find_blocks
from .positions import HALVES, IGNORED, LABELS, Chunk, Half, Positions, Site
from .windows import Windows


class Passes:
    """A model and its windows, ready to be looked at any number of times."""

    def __init__(
        self, model: nn.Module, windows: Windows, *, layers: Sequence[str] | None = None, batch_size: int = 16
    ) -> None:
        self.model = model
        self.windows = windows
        self.batch_size = batch_size
        self._blocks = find_blocks(model, layers)
        parameter = next(model.parameters(), None)
        if parameter is None:
            raise ModelError(f"{type(model).__name__} has no parameters: nothing is learned, nothing can be watched")
        self.device = parameter.device
        self._targets: dict[Half, Tensor | None] = {half: windows.targets(half) for half in HALVES}
        self._labels = LABELS
        self.sites = self._probe()
        known: dict[Half, Tensor] = {half: target for half, target in self._targets.items() if target is not None}
        self.positions: Positions = windows.positions(known if len(known) == 2 else None)
        if "permuted" in self._labels:
            self._permuted = windows.permuted(self._targets["test"])  # type: ignore[arg-type]

    @property
    def labels(self) -> tuple[str, ...]:
        return self._labels

    @property
    def facts(self) -> dict[str, Any]:
        """What a run's manifest says of the model."""
        names = hashlib.sha256()
        for name, parameter in self.model.named_parameters():
            names.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}\n".encode())
        return {
            "source": "model",
            "class": type(self.model).__name__,
            "num_parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "fingerprint": names.hexdigest()[:16],
            "dtype": str(next(self.model.parameters()).dtype).removeprefix("torch."),
            "device": str(self.device),
        }

    def _probe(self) -> tuple[Site, ...]:
        """One pass over the first windows of both halves: what is recorded, how wide, and what the objective gives."""
        with _undisturbed(self.model):
            records, outcome = self._forward(self.windows.inputs("test")[:1], gradients=False)
            if callable(self.windows.objective):
                self._ask_objective(outcome)
        sites = []
        for depth, (name, (tensor, _)) in enumerate(records.items()):
            if tensor.ndim != 3 or tensor.shape[:2] != (1, self.windows.length):
                raise ModelError(
                    f"{name} gives a tensor of shape {tuple(tensor.shape)}; wanted (batch, length, width) = "
                    f"(1, {self.windows.length}, D): name other layers with layers=[...]"
                )
            sites.append(Site(name, depth, "block" if depth else "embedding", tensor.shape[2]))
        return tuple(sites)

    def _ask_objective(self, outcome: tuple[Tensor | None, Tensor | None, Tensor | None]) -> None:
        """A user's objective says only by running which positions bear the loss."""
        if outcome[0] is None:
            self._labels = ("true",)
            return
        for half in HALVES:
            pieces = []
            for ids in self.windows.inputs(half).split(self.batch_size):
                with torch.no_grad():
                    _, targets, _ = self._outcome(ids.to(self.device))
                pieces.append(targets.cpu())  # type: ignore[union-attr]
            self._targets[half] = torch.cat(pieces)

    def _outcome(self, ids: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """(logits, targets, summed loss) as far as the objective gives them."""
        objective = self.windows.objective
        if not callable(objective):
            return _logits(self.model(ids), ids), None, None
        answer = objective(self.model, ids)
        if isinstance(answer, Tensor) and answer.ndim == 0:
            return None, None, answer
        if isinstance(answer, tuple) and len(answer) == 2 and answer[1].shape == answer[0].shape[:-1]:
            return answer[0], answer[1], None
        raise ModelError(
            "the objective returned neither (logits, targets), targets shaped as the logits without their last axis, "
            f"nor the summed loss, but a {type(answer).__name__}"
        )

    def _forward(
        self, ids: Tensor, gradients: bool
    ) -> tuple[dict[str, tuple[Tensor, GradientEdge | None]], tuple[Tensor | None, Tensor | None, Tensor | None]]:
        """One forward pass; what each site gave: a float copy, and where its gradient will arrive."""
        records: dict[str, list[tuple[Tensor, GradientEdge | None]]] = {"embedding": []}
        records |= {name: [] for name, _ in self._blocks}

        def keep(name: str, tensor: object) -> None:
            if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
                raise ModelError(f"{name} gives a {type(tensor).__name__}, wanted a tensor: name other layers")
            edge = None
            if gradients:
                if not tensor.requires_grad:  # below the first trained parameter: a leaf of this pass alone
                    tensor.requires_grad_(True)
                # The edge is of the tensor as it is now: a consumer that works in place does not move it.
                edge = get_gradient_edge(tensor)
            dtype = tensor.dtype if tensor.dtype == torch.float64 else torch.float32
            records[name].append((tensor.detach().to(dtype, copy=True), edge))

        def before_first(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            keep("embedding", args[0] if args else kwargs.get("hidden_states", next(iter(kwargs.values()), None)))

        def after(name: str) -> Callable[[nn.Module, Any, Any], None]:
            def hook(_: nn.Module, __: Any, output: Any) -> None:
                keep(name, output[0] if isinstance(output, tuple | list) else output)

            return hook

        handles = []
        try:
            handles.append(self._blocks[0][1].register_forward_pre_hook(before_first, with_kwargs=True))
            handles += [block.register_forward_hook(after(name)) for name, block in self._blocks]
            with torch.set_grad_enabled(gradients):
                outcome = self._outcome(ids.to(self.device))
        finally:
            for handle in handles:
                handle.remove()
        wrong = {name: len(seen) for name, seen in records.items() if len(seen) != 1}
        if wrong:
            raise ModelError(
                f"expected one record a layer and pass, received {wrong}: a layer that is skipped or called again "
                "cannot be watched; name others with layers=[...]"
            )
        return {name: seen[0] for name, seen in records.items()}, outcome

    def scanner(self, keep_bytes: int | None) -> Callable[[Half, tuple[str, ...]], Iterator[Chunk]]:
        """A scan of the model as it is now; what was seen is kept up to `keep_bytes`, else the pass runs again."""
        kept: dict[tuple[Half, int], Chunk] = {}
        used = 0
        state = self._versions()

        def scan(half: Half, labels: tuple[str, ...]) -> Iterator[Chunk]:
            nonlocal used
            for start in range(0, self.windows.ids(half).shape[0], self.batch_size):
                chunk = kept.get((half, start))
                if chunk is None or not set(labels) <= chunk.g.keys():
                    if self._versions() != state:
                        raise ModelError(
                            "a parameter changed between two scans of one look: take a new look, or let it keep more "
                            "(keep_bytes)"
                        )
                    if chunk is not None:
                        used -= _num_bytes(kept.pop((half, start)))
                    chunk = self._pass(half, start, labels)
                    size = _num_bytes(chunk)
                    if keep_bytes is None or used + size <= keep_bytes:
                        kept[(half, start)] = chunk
                        used += size
                yield chunk

        return scan

    def _versions(self) -> tuple[tuple[int, int], ...]:
        return tuple((parameter._version, parameter.data_ptr()) for parameter in self.model.parameters())

    def _pass(self, half: Half, start: int, labels: tuple[str, ...]) -> Chunk:
        """Forward, and one backward a label, over one micro-batch."""
        ids = self.windows.inputs(half)[start : start + self.batch_size]
        offset = self.positions.half(half).start + start * self.windows.length
        rows = slice(offset, offset + ids.numel())
        with _undisturbed(self.model), torch.set_grad_enabled(bool(labels)):
            records, (logits, targets, loss) = self._forward(ids, gradients=bool(labels))
            h = {site: records[site.layer][0].flatten(0, 1) for site in self.sites}
            g: dict[str, dict[Site, Tensor]] = {}
            row_loss = None
            for label in labels:
                if logits is not None:
                    wanted = self._wanted(label, half, start, logits, targets)
                    each = nn.functional.cross_entropy(
                        logits.flatten(0, -2).float(), wanted.flatten(), ignore_index=IGNORED, reduction="none"
                    )
                    loss = each.sum()
                    row_loss = each.detach() if label == "true" else row_loss
                edges = [records[site.layer][1] for site in self.sites]
                found = torch.autograd.grad(loss, edges, retain_graph=label != labels[-1], allow_unused=True)  # type: ignore[arg-type]
                absent = [site.layer for site, one in zip(self.sites, found, strict=True) if one is None]
                if absent:
                    raise ModelError(f"no gradient arrived at {absent}: the loss does not depend on their output")
                g[label] = {
                    site: one.detach().to(h[site].dtype).flatten(0, 1)
                    for site, one in zip(self.sites, found, strict=True)
                }
        return Chunk(rows, h, g, row_loss)

    def _wanted(self, label: str, half: Half, start: int, logits: Tensor, targets: Tensor | None) -> Tensor:
        """The labels of one micro-batch: the true ones, draws from the model's own output, or shuffled true ones."""
        if targets is None:
            targets = self._targets[half][start : start + self.batch_size]  # type: ignore[index]
        targets = targets.to(logits.device)  # type: ignore[union-attr]
        if label == "true":
            return targets
        if label == "permuted":
            return self._permuted[start : start + self.batch_size].to(logits.device)
        # By inversion with the same uniforms at every look, so that looks differ by the model alone.
        generator = torch.Generator().manual_seed(self.windows.seed * 1_000_003 + start)
        uniform = torch.rand(targets.shape, generator=generator).to(logits.device)
        cumulative = logits.detach().float().softmax(-1).cumsum(-1)
        drawn = torch.searchsorted(cumulative, (uniform[..., None] * cumulative[..., -1:])).squeeze(-1)
        return drawn.clamp(max=logits.shape[-1] - 1).where(targets != IGNORED, targets)


def _logits(output: Any, ids: Tensor) -> Tensor:
    """The logits in what a model returned: an attribute, the first of a tuple, or the tensor itself."""
    found = getattr(output, "logits", None)
    if found is None:
        found = output[0] if isinstance(output, tuple | list) and output else output
    if isinstance(found, dict):
        found = found.get("logits")
    if not isinstance(found, Tensor) or found.ndim != 3 or found.shape[:2] != ids.shape:
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ModelError(
            f"the model returned {shape}; wanted logits of shape (batch, length, vocabulary) = "
            f"({ids.shape[0]}, {ids.shape[1]}, V): give objective=f(model, ids) -> (logits, targets)"
        )
    return found


def _num_bytes(chunk: Chunk) -> int:
    tensors = [*chunk.h.values(), *(g for label in chunk.g.values() for g in label.values())]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@contextlib.contextmanager
def _undisturbed(model: nn.Module) -> Iterator[None]:
    """Eval mode inside; afterwards every train/eval flag and every random stream is what it was."""
    modes = [(module, module.training) for module in model.modules()]
    # The global streams, numpy's legacy one too: they are the user's, not ours.
    python, numpy_state, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    try:
        model.eval()
        yield
    finally:
        for module, training in modes:
            module.training = training
        random.setstate(python)
        np.random.set_state(numpy_state)  # noqa: NPY002
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
