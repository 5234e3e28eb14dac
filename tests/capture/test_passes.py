"""A look leaves a model as it found it, counts what it receives, and gives the same when it is scanned again."""

import gc
import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from anisoscope import Look, ModelError, Windows
from anisoscope.capture.passes import Passes
from anisoscope.capture.positions import HALVES, LABELS
from capture.models import SHAPES, Stack, lab, windows
from capture.plain import seen


def streams() -> tuple[bytes, bytes, str]:
    """Where the three random streams stand."""
    legacy = np.random.get_state()  # noqa: NPY002
    return torch.get_rng_state().numpy().tobytes(), repr(legacy).encode() + legacy[1].tobytes(), repr(random.getstate())


class Noisy(Stack):
    """Draws from every stream, counts its own calls in buffers, and has parts that differ between train and eval."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(self.head.in_features)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("num_calls", torch.zeros(()))
        self.register_buffer("last", torch.zeros(2), persistent=False)
        self.register_buffer("drift", torch.zeros(()))

    def run(self, h: Tensor) -> Tensor:
        self.num_calls += 1
        self.last = torch.full((2,), float(self.num_calls))
        self.drift += h.mean()
        h = h + torch.rand(()) + np.random.rand() + random.random()  # noqa: NPY002
        h = self.norm(h.flatten(0, 1)).view_as(h)
        return super().run(self.drop(h))


def state_of(model: nn.Module) -> dict[str, object]:
    """Everything of a model that a look might change, tensors as bytes."""
    held = {f"parameter {name}": tensor for name, tensor in model.named_parameters()}
    held |= {f"grad of {name}": tensor.grad for name, tensor in model.named_parameters()}
    held |= {f"buffer {name}": tensor for name, tensor in model.named_buffers()}
    held = {
        name: None if tensor is None else (id(tensor), tensor.detach().numpy().tobytes())
        for name, tensor in held.items()
    }
    for name, module in model.named_modules():
        held[f"mode of {name}"] = module.training
        held[f"attributes of {name}"] = sorted(vars(module))
        for kind in vars(module):
            if "hooks" in kind:
                held[f"{kind} of {name}"] = len(getattr(module, kind) or ())
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        held[f"flags of {name}"] = (tensor.requires_grad, tensor.is_leaf)
    return held


def changes(before: dict[str, object], after: dict[str, object]) -> list[str]:
    return [name for name in before | after if before.get(name) != after.get(name)]


@pytest.mark.usefixtures("shape_checks_off")  # beartype draws from Python's stream
@pytest.mark.parametrize("build", [*(shape.model for shape in SHAPES.values()), Noisy], ids=[*SHAPES, "noisy"])
def test_a_look_changes_nothing(build) -> None:
    model = build()
    for index, module in enumerate(model.modules()):
        module.training = index % 3 != 1  # mixed, as where somebody froze some batch norms
    for index, parameter in enumerate(model.parameters()):
        parameter.grad = torch.randn_like(parameter) if index % 2 else None
    bert = "Bert" in type(model).__name__
    before, streams_before = state_of(model), streams()
    Look.from_model(model, windows("masked" if bert else "causal"), batch_size=3)
    assert changes(before, state_of(model)) == []
    assert streams() == streams_before


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda m: m.eval(), "mode of "),
        (lambda m: m(torch.zeros(2, 10, dtype=torch.int64)), "buffer num_calls"),
        (lambda m: m.blocks[0].register_forward_hook(print), "_forward_hooks of blocks.0"),
        (lambda m: setattr(m, "note", 1), "attributes of "),
        (lambda m: m.head.weight.grad.add_(1), "grad of head.weight"),
        (lambda m: m.head.bias.data.add_(1), "parameter head.bias"),
        (lambda m: m.tokens.requires_grad_(False), "flags of tokens.weight"),
    ],
)
def test_the_comparison_sees_each_kind_of_change(change, expected: str) -> None:
    model = Noisy()
    model.head.weight.grad = torch.zeros_like(model.head.weight)
    before = state_of(model)
    change(model)
    assert expected in changes(before, state_of(model))


@pytest.mark.parametrize("draw", [lambda: torch.rand(1), lambda: np.random.rand(), random.random])  # noqa: NPY002
def test_the_comparison_sees_one_number_drawn_from_each_stream(draw) -> None:
    before = streams()
    draw()
    assert streams() != before


def test_the_noisy_model_would_give_itself_away() -> None:
    model, before = Noisy(), streams()
    was = state_of(model)
    model(windows().test_ids)
    assert {"buffer num_calls", "buffer last", "buffer norm.running_mean", "flags of drift"} <= set(
        changes(was, state_of(model))
    )
    assert all(now != then for now, then in zip(streams(), before, strict=True))


@pytest.mark.usefixtures("shape_checks_off")
@pytest.mark.parametrize("where", ["in the probe", "in a look"])
def test_a_pass_that_fails_restores_everything_too(where: str) -> None:
    class Failing(Noisy):
        fails = False

        def run(self, h: Tensor) -> Tensor:
            h = super().run(h)
            if self.fails:
                raise RuntimeError("out of something")
            return h

    model = Failing()
    model.blocks[1].eval()
    passes = None if where == "in the probe" else Passes(model, windows())
    model.fails = True
    before, streams_before = state_of(model), streams()
    with pytest.raises((RuntimeError, ModelError), match="out of something"):
        Look.from_model(model, windows()) if passes is None else list(Look.from_passes(passes).scan("test", LABELS))
    assert changes(before, state_of(model)) == []
    assert streams() == streams_before


def test_a_train_method_of_ones_own_is_not_called() -> None:
    """LoRA layers merge their weights in it: eval() and back by flag would leave them merged."""

    class Merging(Stack):
        def train(self, mode: bool = True) -> nn.Module:
            with torch.no_grad():
                self.head.weight.add_(1 if mode else -1)
            return super().train(mode)

    model = Merging()
    before = state_of(model)
    Look.from_model(model, windows())
    assert changes(before, state_of(model)) == []


def test_looks_run_in_eval_mode() -> None:
    noisy, quiet = lab(dropout=0.5), lab()
    quiet.load_state_dict(noisy.state_dict())
    noisy.train()
    first, second = (seen(Look.from_model(model, windows())) for model in (noisy, quiet))
    assert all(torch.equal(a, b) for layer in first for a, b in zip(first[layer], second[layer], strict=True))


def test_looks_run_inside_no_grad() -> None:
    model = lab()
    with torch.no_grad():
        inside = seen(Look.from_model(model, windows()))
    assert torch.equal(inside["blocks.0"][1], seen(Look.from_model(model, windows()))["blocks.0"][1])


@pytest.mark.parametrize("name", ["gpt2", "bert", "lab decoder, norm before"])
def test_no_tensor_is_left_when_a_look_is_let_go(name: str) -> None:
    model, window = SHAPES[name].model(), windows(SHAPES[name].objective)

    def num_tensors() -> int:
        gc.collect()
        return sum(type(thing) in (Tensor, nn.Parameter) for thing in gc.get_objects())

    Look.from_model(model, window)  # what libraries set up once
    before = num_tensors()
    look = Look.from_model(model, window)
    assert num_tensors() > before + 20, "tensors that are held would not be counted"
    del look
    assert num_tensors() == before


def test_a_look_holds_no_graph() -> None:
    for half in HALVES:
        for chunk in Look.from_model(lab(), windows()).scan(half, LABELS):
            tensors = [*chunk.h.values(), *(g for label in LABELS for g in chunk.g[label].values()), chunk.loss]
            assert not any(tensor.requires_grad for tensor in tensors)


def test_chunks_cover_every_row_once_in_order() -> None:
    look = Look.from_model(lab(), windows(), batch_size=3)
    rows = [chunk.rows for half in HALVES for chunk in look.scan(half)]
    assert [i for one in rows for i in range(one.start, one.stop)] == list(range(len(look.positions.sequence)))
    assert [one.stop - one.start for one in rows] == [30, 30, 10] * 2


def test_the_loss_of_each_row_is_that_of_its_true_label() -> None:
    model, window = lab(), windows()
    (chunk,) = Look.from_model(model, window).scan("test", LABELS)
    with torch.no_grad():
        log_p = model(window.test_ids).log_softmax(-1)[:, :-1]
    wanted = -log_p.gather(2, window.test_ids[:, 1:, None]).squeeze(2)
    torch.testing.assert_close(chunk.loss.view(7, 10)[:, :-1], wanted)
    assert not chunk.loss.view(7, 10)[:, -1].any()


def test_what_is_not_kept_is_run_again_with_the_same_values() -> None:
    passes = Passes(lab(), windows(), batch_size=3)
    kept, run_again = (Look.from_passes(passes, keep_bytes=limit) for limit in (None, 0))
    some = Look.from_passes(passes, keep_bytes=30 * 16 * 4 * 4 * 2)  # two chunks of forward passes
    for label in LABELS:
        for look in (run_again, some):
            for _ in range(2):
                got, wanted = seen(look, "test", label), seen(kept, "test", label)
                assert all(torch.equal(*pair) for layer in got for pair in zip(got[layer], wanted[layer], strict=True))


def change_in_place(model: nn.Module) -> None:
    with torch.no_grad():
        model.blocks[0].mlp.out.bias.add_(1e-3)


def change_storage(model: nn.Module) -> None:
    model.blocks[0].mlp.out.bias.data = torch.ones_like(model.blocks[0].mlp.out.bias)


def change_by_optimizer(model: nn.Module) -> None:
    model(windows().test_ids).sum().backward()
    torch.optim.SGD(model.parameters(), lr=1e-3).step()


@pytest.mark.parametrize("change", [change_in_place, change_storage, change_by_optimizer])
def test_a_parameter_that_changes_between_two_scans_is_refused(change) -> None:
    model = lab()
    look, kept = (Look.from_passes(Passes(model, windows()), keep_bytes=limit) for limit in (0, None))
    for one in (look, kept):
        list(one.scan("test", LABELS))
    change(model)
    with pytest.raises(ModelError) as caught:
        list(look.scan("test", LABELS))
    assert str(caught.value) == (
        "a parameter changed between two scans of one look: take a new look, or let it keep more (keep_bytes)"
    )
    list(kept.scan("test", LABELS))


def test_a_label_that_does_not_exist_is_named() -> None:
    look = Look.from_model(lab(), windows())
    with pytest.raises(
        ValueError, match=r"^this look has no gradients for \['noise'\]; it has \['true', 'sampled', 'perm"
    ):
        list(look.scan("test", ("noise",)))


class Skipping(Stack):
    skipped: tuple[int, ...] = ()
    again: tuple[int, ...] = ()

    def run(self, h: Tensor) -> Tensor:
        for index, block in enumerate(self.blocks):
            for _ in range((index not in self.skipped) + (index in self.again)):
                h = h + block(h)
        return h


@pytest.mark.parametrize(
    ("skipped", "again", "received"),
    [
        ((1,), (), "{'blocks.1': 0}"),
        ((), (2,), "{'blocks.2': 2}"),
        ((0,), (1,), "{'embedding': 0, 'blocks.0': 0, 'blocks.1': 2}"),
    ],
)
def test_a_layer_that_is_skipped_or_called_twice_is_named(skipped, again, received: str) -> None:
    def message(call) -> str:
        with pytest.raises(ModelError) as caught:
            call()
        return str(caught.value)

    expected = (
        f"expected one record a layer and pass, received {received}: a layer that is skipped or called again cannot "
        "be watched; name others with layers=[...]"
    )
    model = Skipping()
    passes = Passes(model, windows())
    model.skipped, model.again = skipped, again
    assert message(lambda: Look.from_model(model, windows())) == expected
    assert message(lambda: list(Look.from_passes(passes).scan("fit"))) == expected


def test_an_objective_that_draws_its_targets_anew_is_refused() -> None:
    def objective(model: nn.Module, ids: Tensor) -> tuple[Tensor, Tensor]:
        return model(ids), torch.where(torch.rand(ids.shape) < 0.3, ids, -100)

    with pytest.raises(ModelError, match=r"^the objective gave other targets for the same windows than before"):
        Look.from_model(lab(), windows(objective))


def test_an_objective_that_changes_its_targets_later_is_refused() -> None:
    shift = 1

    def objective(model: nn.Module, ids: Tensor) -> tuple[Tensor, Tensor]:
        return model(ids), ids.roll(shift, 1)

    passes = Passes(lab(), windows(objective))
    shift = 2
    with pytest.raises(ModelError, match=r"^the objective gave other targets for the same windows than before"):
        list(Look.from_passes(passes).scan("test", LABELS))


def test_one_sequence_a_batch_and_an_odd_number_of_sequences() -> None:
    window = Windows.from_ids(windows().test_ids[:5])
    look = Look.from_model(lab(), window, batch_size=1)
    assert [look.positions.num_sequences(half) for half in HALVES] == [2, 3]
    assert [len(list(look.scan(half))) for half in HALVES] == [2, 3]
