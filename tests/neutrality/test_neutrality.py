"""Training with a Scope is bit-identical to training without one, and the comparison sees the smallest trespass."""

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import anisoscope as an
from anisoscope.capture import passes
from capture.models import LENGTH, SHAPES, VOCAB, Stack, windows

NUM_STEPS = 6
LOOKS = [0, 1, 2, 4, 6]
Trace = dict[str, object]

pytestmark = pytest.mark.usefixtures("shape_checks_off")  # beartype draws from Python's random stream


class Noisy(Stack):
    """Batch norm, a counter, dropout, and noise from every stream: what a look could disturb beside the usual."""

    def __init__(self, dropout: float) -> None:
        super().__init__(width=16)
        self.norm, self.drop = nn.BatchNorm1d(16), nn.Dropout(dropout)
        self.register_buffer("num_calls", torch.zeros(()))

    def run(self, h: Tensor) -> Tensor:
        self.num_calls += 1
        noise = torch.randn_like(h) * 0.01 + np.random.rand() * 0.01 + random.random() * 0.01  # noqa: NPY002
        return super().run(self.drop(self.norm((h + noise).flatten(0, 1)).view_as(h)))


def frozen_gpt2(dropout: float) -> nn.Module:
    """Its embedding is frozen and its first block stays in eval mode, as in a careful fine-tuning."""
    model = SHAPES["gpt2"].model(dropout=dropout)
    model.transformer.wte.requires_grad_(False)
    model.transformer.h[0].eval()
    return model


MODELS: dict[str, tuple[Callable[..., nn.Module], str]] = {
    "gpt2": (SHAPES["gpt2"].model, "causal"),
    "llama": (SHAPES["llama"].model, "causal"),
    "bert": (SHAPES["bert"].model, "masked"),
    "lab encoder": (SHAPES["lab encoder, norm after"].model, "masked"),
    "gpt2, partly frozen": (frozen_gpt2, "causal"),
    "noisy": (Noisy, "causal"),
}


def held(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Tensors as bytes, nested containers flattened."""
    if isinstance(value, Tensor):
        yield name, (value.dtype, tuple(value.shape), value.detach().numpy().tobytes())
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from held(f"{name}.{key}", part)
    elif isinstance(value, list | tuple):
        for key, part in enumerate(value):
            yield from held(f"{name}.{key}", part)
    else:
        yield name, value


def snapshot(model: nn.Module, optimizer: torch.optim.Optimizer) -> Trace:
    legacy = np.random.get_state()  # noqa: NPY002
    parts = {
        "weight": dict(model.named_parameters()),
        "grad": {name: parameter.grad for name, parameter in model.named_parameters()},
        "buffer": dict(model.named_buffers()),
        "optimizer": optimizer.state_dict(),
        "flag": {
            name: (module.training, [parameter.requires_grad for parameter in module.parameters()])
            for name, module in model.named_modules()
        },
        "hook": {
            name: len(module._forward_hooks) + len(module._forward_pre_hooks) for name, module in model.named_modules()
        },
        "random": {
            "torch": torch.get_rng_state(),
            "numpy": (legacy[1].tolist(), legacy[2:]),
            "python": random.getstate(),
        },
    }
    return dict(pair for name, part in parts.items() for pair in held(name, part))


def train(name: str, run: Path | None, trespass: Callable[[nn.Module], object] | None = None) -> Trace:
    """A plain loop that draws its batches from three random streams; everything after each step, with looks or without.

    Gradients are kept until the next step, where a look would find them.
    """
    torch.manual_seed(1)
    np.random.seed(2)  # noqa: NPY002
    random.seed(3)
    build, objective = MODELS[name]
    model = build(dropout=0.2)
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2)
    trace: Trace = {}
    scope = (
        contextlib.nullcontext() if run is None else an.Scope(model, windows(objective), num_steps=NUM_STEPS, run=run)
    )
    with scope:
        for step in range(1, NUM_STEPS + 1):
            ids = torch.randint(VOCAB, (4, LENGTH))
            ids[np.random.randint(4), random.randrange(LENGTH)] = 0  # noqa: NPY002
            output = model(ids)
            logits = getattr(output, "logits", output)
            loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
            optimizer.zero_grad(set_to_none=bool(step % 2))
            loss.backward()
            optimizer.step()
            if run is not None:
                scope.step()
            if trespass is not None and step == 4:
                trespass(model)
            trace |= {
                f"step {step} {key}": value
                for key, value in {"loss": loss.item(), **snapshot(model, optimizer)}.items()
            }
    trace |= {f"end {key}": value for key, value in snapshot(model, optimizer).items()}
    return trace


def differences(one: Trace, other: Trace) -> list[str]:
    return [key for key in one | other if one.get(key, "absent") != other.get(key, "absent")]


@pytest.mark.parametrize("name", MODELS)
def test_training_is_the_same_bit_by_bit_with_a_scope(name: str, tmp_path: Path) -> None:
    alone, watched = train(name, None), train(name, tmp_path / "run")
    assert differences(alone, watched) == []
    assert len(alone) > 500
    run = an.open_run(tmp_path / "run")
    assert sorted(set(run.metrics()["step"].to_pylist())) == LOOKS, "nothing was watched"
    assert run.faults() == []
    assert run.manifest["finished"]


@pytest.fixture(scope="module")
def alone() -> Trace:
    return train("gpt2", None)


def test_training_again_is_the_same_and_with_other_dropout_is_not(
    alone: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this, the comparison could be of nothing, or of numbers that differ from run to run."""
    assert differences(alone, train("gpt2", None)) == []
    monkeypatch.setitem(MODELS, "gpt2", (lambda dropout: SHAPES["gpt2"].model(dropout=0.21), "causal"))
    assert "step 1 loss" in differences(alone, train("gpt2", None))


TRESPASSES: dict[str, tuple[Callable[[nn.Module], object], str]] = {
    "one number from torch": (lambda _: torch.rand(1), "step 4 random.torch"),
    "one number from numpy": (lambda _: np.random.rand(), "step 4 random.numpy"),  # noqa: NPY002
    "one number from Python": (lambda _: random.random(), "step 4 random.python.1"),
    "leaves eval mode": (lambda model: model.eval(), "step 4 flag..0"),
    "leaves one layer in eval mode": (lambda model: model.transformer.drop.eval(), "step 4 flag.transformer.drop.0"),
    "adds to a gradient": (lambda m: m.transformer.ln_f.bias.grad.add_(1e-3), "step 4 grad.transformer.ln_f.bias"),
    "drops a gradient": (lambda m: setattr(m.transformer.ln_f.bias, "grad", None), "step 4 grad.transformer.ln_f.bias"),
    "moves a weight": (lambda m: m.transformer.ln_f.bias.data.mul_(1 + 1e-6), "step 4 weight.transformer.ln_f.bias"),
    "freezes a weight": (lambda m: m.transformer.ln_f.bias.requires_grad_(False), "step 4 flag.transformer.ln_f.1.1"),
    "leaves a hook": (lambda m: m.lm_head.register_forward_hook(lambda *_: None), "step 4 hook.lm_head"),
}


@pytest.mark.parametrize("trespass", TRESPASSES)
def test_a_trespass_is_seen_at_once_and_where_it_happened(trespass: str, alone: Trace) -> None:
    do, where = TRESPASSES[trespass]
    found = differences(alone, train("gpt2", None, do))
    assert any(key.startswith(where) for key in found), found[:5]
    assert not any(key.startswith(("step 1", "step 2", "step 3")) for key in found)


@contextlib.contextmanager
def _disturbed(model: nn.Module) -> Iterator[None]:
    """What `_undisturbed` would be if it put nothing back."""
    model.eval()
    yield


@contextlib.contextmanager
def _in_training_mode(model: nn.Module) -> Iterator[None]:
    """And if it let dropout run."""
    yield


def _by_backward(records, loss, again=False):
    """And if gradients were taken the common way."""
    for record in records.values():
        record.tensor.retain_grad()
    loss.backward(retain_graph=True)
    return {layer: record.tensor.grad for layer, record in records.items()}


@pytest.mark.parametrize(
    ("function", "broken", "seen_in"),
    [
        ("_undisturbed", _disturbed, "flag..0"),
        ("_undisturbed", _in_training_mode, "random.torch"),
        ("_gradients", _by_backward, "grad.transformer.wte.weight"),
    ],
)
def test_a_scope_that_does_not_clean_up_is_seen(alone, function, broken, seen_in, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(passes, function, broken)
    found = differences(alone, train("gpt2", tmp_path / "run"))
    assert f"step 1 {seen_in}" in found, found[:5]
    assert "step 2 loss" in found or seen_in.startswith("grad")


def test_a_scope_whose_looks_all_fail_is_neutral_too(
    alone: Trace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = passes._gradients

    def fails(*args, **kwargs):
        if not list((tmp_path / "run" / "metrics").glob("*.parquet")):  # until the first look it would be told
            return real(*args, **kwargs)
        torch.rand(3)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(passes, "_gradients", fails)
    assert differences(alone, train("gpt2", tmp_path / "run")) == []
    assert [fault["reason"] for fault in an.open_run(tmp_path / "run").faults()] == ["RuntimeError: out of memory"]
