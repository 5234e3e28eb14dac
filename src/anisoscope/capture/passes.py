"""Passes of our own over a live model: hidden states by forward hooks, their gradients by `torch.autograd.grad`.

Nothing of the model's training is touched: no `.grad` is filled, modes and random streams are put back, hooks live for
one micro-batch. Each pass counts the records it expects against those it received: silence is never taken for zero.
"""

import contextlib
import hashlib
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from ..errors import AnisoscopeError, InputError, ModelError
from .blocks import find_blocks
from .positions import HALVES, IGNORED, LABELS, Chunk, Half, Positions, Site
from .windows import Windows, is_whole


class Passes:
    """A model and its windows, ready to be looked at any number of times."""

    def __init__(
        self, model: nn.Module, windows: Windows, *, layers: str | Sequence[str] | None = None, batch_size: int = 16
    ) -> None:
        if not isinstance(model, nn.Module):
            raise ModelError(f"model is a {type(model).__name__}; wanted a torch.nn.Module: load it first")
        if not isinstance(windows, Windows):
            raise InputError(
                f"windows is a {type(windows).__name__}; wanted an.Windows: make them with an.Windows.from_text or "
                "an.Windows.from_ids"
            )
        if not is_whole(batch_size, 1):
            raise InputError(f"batch_size = {batch_size!r}; wanted a whole number of sequences, at least 1")
        self.model = model
        self.windows = windows
        self.batch_size = batch_size
        self._blocks = find_blocks(model, layers)
        parameter = next(model.parameters(), None)
        if parameter is None:
            raise ModelError(f"{type(model).__name__} has no parameters: nothing is learned, nothing can be watched")
        self.device = parameter.device
        self._targets: dict[Half, Tensor | None] = {half: windows.targets(half) for half in HALVES}
        self.labels: tuple[str, ...] = LABELS
        self._vocabulary: int | None = None  # unknown where the objective gives the loss alone
        self.sites = self._probe()
        self.positions: Positions = windows.positions(self._targets)
        if "permuted" in self.labels:
            self._permuted = {half: windows.permuted(self._targets[half]) for half in HALVES}  # type: ignore[arg-type]
            generator = torch.Generator().manual_seed(windows.seed + 2)
            self._uniform = {half: torch.rand(windows.ids(half).shape, generator=generator) for half in HALVES}

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
            "vocabulary": self._vocabulary,
            "fingerprint": names.hexdigest()[:16],
            "dtype": str(next(self.model.parameters()).dtype).removeprefix("torch."),
            "device": str(self.device),
        }

    def _probe(self) -> tuple[Site, ...]:
        """A pass over the first test window: what is recorded, how wide, what the objective gives, where gradients end.

        What cannot be watched is refused here, before anything is trained.
        """
        ids = self.windows.inputs("test")[:1]
        with _undisturbed(self.model), torch.enable_grad():
            try:
                records, (logits, targets, loss) = self._forward(ids, gradients=True)
            except AnisoscopeError:
                raise
            except Exception as error:
                raise ModelError(
                    f"{type(self.model).__name__} fails on a window of {ids.shape[1]} tokens, {type(error).__name__}: "
                    f"{error}; are there more tokens than it has positions, or tokens of another tokenizer?"
                ) from error
            if logits is not None:
                self._vocabulary = logits.shape[-1]
                loss = logits.float().sum()
                top = max(int(self.windows.ids(half).max()) for half in HALVES)
                if targets is None and top >= logits.shape[-1]:
                    raise ModelError(
                        f"the windows hold the token {top}, {type(self.model).__name__} knows {logits.shape[-1]} "
                        "tokens: cut them with the model's own tokenizer"
                    )
            _gradients(records, loss)
            if callable(self.windows.objective):
                self._ask_objective(targets)
        sites = []
        for depth, (name, record) in enumerate(records.items()):
            shape = tuple(record.h.shape)
            if len(shape) != 3 or shape[:2] != (1, self.windows.length):
                raise ModelError(
                    f"{name} gives a tensor of shape {shape}; wanted (batch, length, width) = "
                    f"(1, {self.windows.length}, D): name other layers with layers=[...]"
                )
            sites.append(Site(name, depth, "block" if depth else "embedding", shape[2]))
        return tuple(sites)

    def _ask_objective(self, first: Tensor | None) -> None:
        """A user's objective says only by running which positions bear the loss; `first`: its targets of one window."""
        if first is None:
            self.labels = ("true",)
            return
        for half in HALVES:
            pieces = []
            for ids in self.windows.inputs(half).split(self.batch_size):
                with torch.no_grad():
                    _, targets, _ = self._outcome(ids.to(self.device))
                pieces.append(targets.cpu())  # type: ignore[union-attr]
            self._targets[half] = torch.cat(pieces)
        self._refuse_other_targets("test", 0, first)

    def _refuse_other_targets(self, half: Half, start: int, targets: Tensor) -> None:
        """Rows are counted, and labels shuffled, by the targets that the objective gave at first."""
        if not torch.equal(targets.cpu(), self._targets[half][start : start + targets.shape[0]]):  # type: ignore[index]
            raise ModelError(
                "the objective gave other targets for the same windows than before; wanted the same at every call: "
                "draw masks once, outside of it"
            )

    def _outcome(self, ids: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """(logits, targets, summed loss) as far as the objective gives them."""
        objective = self.windows.objective
        if not callable(objective):
            return _logits(self.model(ids), ids), None, None
        answer = objective(self.model, ids)
        if isinstance(answer, Tensor) and answer.ndim == 0:
            return None, None, answer
        logits, targets = answer if isinstance(answer, tuple) and len(answer) == 2 else (None, None)
        shapes = [tuple(part.shape) for part in (logits, targets) if isinstance(part, Tensor)]
        if len(shapes) == 2 and len(shapes[0]) == 3 and shapes[0][:2] == shapes[1] == tuple(ids.shape):
            return logits, targets, None
        raise ModelError(
            f"the objective returned {_told(answer)}; wanted (logits, targets) of shapes {(*ids.shape, 'V')} and "
            f"{tuple(ids.shape)}, targets of {IGNORED} where no loss is taken, or the summed loss alone"
        )

    def _forward(
        self, ids: Tensor, gradients: bool
    ) -> tuple[dict[str, "_Record"], tuple[Tensor | None, Tensor | None, Tensor | None]]:
        """One forward pass: what each site gave, and (logits, targets, summed loss)."""
        records: dict[str, list[_Record]] = {"embedding": []} | {name: [] for name, _ in self._blocks}
        own = {tensor.untyped_storage().data_ptr() for tensor in (*self.model.parameters(), *self.model.buffers())}

        def keep(name: str, tensor: object) -> None:
            if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
                where = f"the first layer, {self._blocks[0][0]}, is given" if name == "embedding" else f"{name} gives"
                raise ModelError(
                    f"{where} {_told(tensor)}; wanted a floating-point tensor (batch, length, width): name other "
                    "layers with layers=[...]"
                )
            if gradients and not tensor.requires_grad:
                _take_root(tensor, own)
            records[name].append(_Record.of(tensor, gradients))

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
            h = {site: records[site.layer].h.flatten(0, 1) for site in self.sites}
            g: dict[str, dict[Site, Tensor]] = {}
            row_loss = None
            for label in labels:
                if logits is not None:
                    wanted = self._wanted(label, half, start, logits, targets)
                    each = nn.functional.cross_entropy(
                        _full(logits).flatten(0, -2), wanted.flatten(), ignore_index=IGNORED, reduction="none"
                    )
                    loss = each.sum()
                    row_loss = each.detach() if label == "true" else row_loss
                found = _gradients(records, loss, again=label != labels[-1])
                g[label] = {site: _full(found[site.layer]).flatten(0, 1) for site in self.sites}
        return Chunk(rows, h, g, row_loss)

    def _wanted(self, label: str, half: Half, start: int, logits: Tensor, targets: Tensor | None) -> Tensor:
        """The labels of one micro-batch: the true ones, draws from the model's own output, or shuffled true ones."""
        if targets is None:
            targets = self._targets[half][start : start + self.batch_size]  # type: ignore[index]
        elif label == "true":
            self._refuse_other_targets(half, start, targets)
        targets = targets.to(logits.device)  # type: ignore[union-attr]
        if label == "true":
            return targets
        if label == "permuted":
            return self._permuted[half][start : start + self.batch_size].to(logits.device)
        # By inversion with the same uniforms at every look and batch size, so that looks differ by the model alone.
        uniform = self._uniform[half][start : start + self.batch_size].to(logits.device)
        cumulative = _full(logits.detach()).softmax(-1).cumsum(-1)
        drawn = torch.searchsorted(cumulative, (uniform[..., None] * cumulative[..., -1:])).squeeze(-1)
        return drawn.clamp(max=logits.shape[-1] - 1).where(targets != IGNORED, targets)


@dataclass(frozen=True)
class _Record:
    """What one site gave in one pass: a copy of the values, and where the gradient of the tensor will arrive.

    The edges are those of the tensor at that moment, so that a consumer that works in place does not move them. Work in
    place on a view (the output of an `nn.Linear` is one) goes round the view's own edge: then its base's counts.
    """

    h: Tensor
    tensor: Tensor
    version: int
    edge: GradientEdge | None = None
    base_edge: GradientEdge | None = None

    @classmethod
    def of(cls, tensor: Tensor, gradients: bool) -> "_Record":
        h = _full(tensor.detach()).clone()
        if not gradients:
            return cls(h, tensor, tensor._version)
        base = tensor._base
        base_edge = get_gradient_edge(base) if base is not None and base.requires_grad else None
        return cls(h, tensor, tensor._version, get_gradient_edge(tensor), base_edge)

    @property
    def goes_round(self) -> bool:
        return self.tensor._is_view() and self.tensor._version != self.version

    def arriving(self, layer: str) -> GradientEdge | None:
        if not self.goes_round:
            return self.edge
        if self.base_edge is None or not self.tensor._base.is_contiguous():  # type: ignore[union-attr]
            raise ModelError(
                f"the output of {layer} is a view that is changed in place afterwards: its gradient cannot be told "
                "from that of the change; clone it in the model, or name other layers with layers=[...]"
            )
        return self.base_edge

    def gradient(self, found: Tensor) -> Tensor:
        tensor, base = self.tensor, self.tensor._base
        if base is None or not self.goes_round:
            return found
        offset = tensor.storage_offset() - base.storage_offset()
        return found.contiguous().as_strided(tensor.size(), tensor.stride(), offset)


def _gradients(records: Mapping[str, _Record], loss: Tensor | None, again: bool = False) -> dict[str, Tensor]:
    """The gradient of the loss at each record; no `.grad` is touched."""
    if loss is None or not loss.requires_grad:
        raise ModelError("the loss depends on no layer: is it detached, or computed under torch.no_grad()?")
    edges = [record.arriving(layer) for layer, record in records.items()]
    found = torch.autograd.grad(loss, edges, retain_graph=again, allow_unused=True)  # type: ignore[arg-type]
    absent = [layer for layer, one in zip(records, found, strict=True) if one is None]
    if absent:
        raise ModelError(
            f"no gradient arrived at {', '.join(absent)}: the loss does not depend on their output; name other "
            "layers with layers=[...]"
        )
    return {layer: record.gradient(one) for (layer, record), one in zip(records.items(), found, strict=True)}


def _take_root(tensor: Tensor, own: set[int]) -> None:
    """Makes a tensor below the first trained parameter the root of this pass's graph: the same object, the same bits.

    It becomes no leaf, as consumers may not work on leaves in place. What the model itself holds, and what may not be
    written to (an expanded tensor, a view made under no_grad), has to become one.
    """
    with torch.enable_grad():
        if tensor.untyped_storage().data_ptr() not in own:
            try:
                tensor.copy_(tensor.clone().requires_grad_(True))
                return
            except RuntimeError:
                pass
        tensor.requires_grad_(True)


def _full(tensor: Tensor) -> Tensor:
    """In float32 at least."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _told(value: object) -> str:
    """What a value is, in an error message."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)} and type {value.dtype}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of ({', '.join(map(_told, value))})"
    return f"a {type(value).__name__}"


def _logits(output: Any, ids: Tensor) -> Tensor:
    """The logits in what a model returned: an attribute, the first of a tuple, or the tensor itself."""
    found = getattr(output, "logits", None)
    if found is None:
        found = output[0] if isinstance(output, tuple | list) and output else output
    if isinstance(found, dict):
        found = found.get("logits")
    if not isinstance(found, Tensor) or found.ndim != 3 or found.shape[:2] != ids.shape:
        raise ModelError(
            f"the model returned {_told(found)}; wanted logits of shape (batch, length, vocabulary) = "
            f"({ids.shape[0]}, {ids.shape[1]}, V): give objective=f(model, ids) -> (logits, targets)"
        )
    return found


def _num_bytes(chunk: Chunk) -> int:
    tensors = [*chunk.h.values(), *(g for label in chunk.g.values() for g in label.values())]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _eager() -> contextlib.AbstractContextManager[Any]:
    """Compiled graphs know nothing of our hooks, and must not be compiled anew for us. Without a compiled model the
    compiler is not even imported, which takes a second.
    """
    compiler = sys.modules.get("torch._dynamo")
    return torch.compiler.set_stance("force_eager") if compiler else contextlib.nullcontext()


@contextlib.contextmanager
def _undisturbed(model: nn.Module) -> Iterator[None]:
    """Eval mode inside; afterwards every flag, buffer and random stream is what it was."""
    modes = [(module, module.training) for module in model.modules()]
    registered = [(module, dict(module._buffers)) for module in model.modules() if module._buffers]
    values = [(buffer, buffer._version, buffer.detach().clone()) for buffer in model.buffers()]
    untracked = [tensor for tensor in (*model.parameters(), *model.buffers()) if not tensor.requires_grad]
    # The global streams, numpy's legacy one too: they are the user's, not ours.
    python, numpy_state, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    try:
        # Not model.eval(): a train() of the user's own may do more than set flags (LoRA merges its weights in it).
        for module, _ in modes:
            module.training = False
        with _eager():
            yield
    finally:
        for module, training in modes:
            module.training = training
        for module, buffers in registered:
            module._buffers.update(buffers)
        with torch.no_grad():
            for buffer, version, value in values:
                if buffer._version != version:
                    buffer.copy_(value)
        for tensor in untracked:
            if tensor.requires_grad:
                tensor.detach_()
        random.setstate(python)
        np.random.set_state(numpy_state)  # noqa: NPY002
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
