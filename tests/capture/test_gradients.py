"""Hidden states and hidden gradients: against plain autograd, finite differences and physics."""

import pytest
import torch
from torch import Tensor, nn

from anisoscope import Look, ModelError, Windows
from anisoscope.capture.passes import Passes
from anisoscope.capture.positions import HALVES, LABELS, Half
from capture.models import SHAPES, VOCAB, Shape, Stack, lab, windows
from capture.plain import gap, largest_gap, logits_of, loss_of, plain, seen

TOLERANCE = 1e-6  # float32, other batches, so other orders of summation; measured: at most 2e-7
MICRO_BATCH = 3  # of 7 sequences a half: 3, 3 and 1
ROUNDING = 2e-6  # of float32 in the sums of a norm, as a cosine
STACK = ["blocks.0", "blocks.1", "blocks.2"]
of_each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def looked(model: nn.Module, window: Windows | None = None, batch_size: int = MICRO_BATCH) -> Look:
    return Look.from_model(model, window or windows(), batch_size=batch_size)


def plainly(model: nn.Module, window: Windows | None = None) -> dict[str, tuple[Tensor, Tensor]]:
    window = window or windows()
    return plain(model, STACK, window.inputs("test"), window.targets("test"))


@of_each_shape
@pytest.mark.parametrize("half", HALVES)
def test_true_labels_give_what_plain_autograd_gives(shape: Shape, half: Half) -> None:
    model, window = shape.model(dropout=0.1), windows(shape.objective)
    look = looked(model, window)
    wanted = plain(model, shape.blocks, window.inputs(half), window.targets(half))
    assert [site.layer for site in look.sites] == ["embedding", *shape.blocks]
    assert [site.depth for site in look.sites] == [0, 1, 2, 3]
    assert largest_gap(seen(look, half), wanted) < TOLERANCE


@of_each_shape
@pytest.mark.parametrize("label", LABELS[1:])
def test_other_labels_give_what_plain_autograd_gives_with_them(shape: Shape, label: str) -> None:
    model, window = shape.model(), windows(shape.objective)
    passes = Passes(model, window, batch_size=MICRO_BATCH)
    with torch.no_grad():
        logits = logits_of(model.eval(), window.inputs("test")).split(MICRO_BATCH)
    starts = range(0, len(window.test_ids), MICRO_BATCH)
    targets = torch.cat([passes._wanted(label, "test", i, each, None) for i, each in zip(starts, logits, strict=True)])
    assert not torch.equal(targets, window.targets("test"))
    wanted = plain(model, shape.blocks, window.inputs("test"), targets)
    assert largest_gap(seen(Look.from_passes(passes), "test", label), wanted) < TOLERANCE


def test_the_comparison_sees_targets_that_are_off_by_one() -> None:
    model, window = lab(), windows()
    targets = window.targets("test")
    shifted = torch.where(targets >= 0, (targets + 1) % VOCAB, targets)
    assert largest_gap(seen(looked(model)), plain(model, STACK, window.inputs("test"), shifted)) > 0.1


def test_gradients_of_one_label_do_not_depend_on_which_others_are_asked_for() -> None:
    look = Look.from_passes(Passes(lab(), windows()), keep_bytes=0)
    together = next(look.scan("test", LABELS))
    for label in LABELS:
        alone = next(look.scan("test", (label,)))
        assert all(torch.equal(together.g[label][site], alone.g[label][site]) for site in look.sites)


@pytest.mark.parametrize("label", LABELS)
def test_the_batch_size_changes_nothing(label: str) -> None:
    model = lab()
    small, large = (seen(looked(model, batch_size=size), "test", label) for size in (MICRO_BATCH, 16))
    assert largest_gap(small, large) < TOLERANCE


def test_float64_stays_float64() -> None:
    model = lab().double()
    assert largest_gap(seen(looked(model)), plainly(model)) < 1e-14


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_comes_out_as_float32(dtype: torch.dtype) -> None:
    model = Stack().to(dtype)
    got, wanted = seen(looked(model, batch_size=16)), plainly(model)
    for layer, (h, g) in got.items():
        assert h.dtype == g.dtype == torch.float32
        assert torch.equal(h, wanted[layer][0].float())
        assert gap(g, wanted[layer][1].float()) < 0.05  # the plain loss is taken in half precision, ours in float32


class Nudged(Stack):
    """Adds something to what passes between two layers."""

    depth, nudge = 0, 0.0

    def run(self, h: Tensor) -> Tensor:
        for depth, block in enumerate([nn.Identity(), *self.blocks]):
            h = block(h) + (self.nudge if depth == self.depth else 0)
        return h


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_finite_differences_agree(depth: int) -> None:
    model, window = Nudged().double(), windows()
    g = list(seen(looked(model)).values())[depth][1]
    direction = torch.randn(len(window.test_ids), window.length, g.shape[1], dtype=torch.float64)
    loss = {}
    for sign in (1, -1):
        model.depth, model.nudge = depth, sign * 1e-5 * direction
        with torch.no_grad():
            loss[sign] = float(loss_of(model(window.inputs("test")), window.targets("test")))
    assert float((g * direction.flatten(0, 1)).sum()) == pytest.approx((loss[1] - loss[-1]) / 2e-5, rel=1e-7)


NORMS = {
    "gpt2": "transformer.ln_f",
    "llama": "model.norm",
    "lab decoder, norm before": "norm",
    "lab encoder, norm before": "norm",
}


def cosines(a: Tensor, b: Tensor) -> Tensor:
    return nn.functional.cosine_similarity(a.double(), b.double(), dim=1).abs()


@pytest.mark.parametrize("name", NORMS)
def test_before_a_final_norm_each_gradient_is_orthogonal_to_its_state(name: str) -> None:
    """A norm undoes scale, LayerNorm shifts too: no loss changes along h (less its mean) and along 1."""
    model = SHAPES[name].model()
    norm = model.get_submodule(NORMS[name])
    setattr(norm, "eps" if hasattr(norm, "eps") else "variance_epsilon", 0.0)  # not small beside random weights
    found = []
    for h, g in seen(looked(model, windows(SHAPES[name].objective))).values():
        h, g = h[g.any(1)], g[g.any(1)]
        if isinstance(norm, nn.LayerNorm):
            assert cosines(torch.ones_like(h), g).max() < ROUNDING  # at every block: each of its branches norms first
            h = h - h.mean(1, keepdim=True)
        found.append(cosines(h, g))
    assert found[-1].max() < ROUNDING
    assert min(earlier.median() for earlier in found[:-1]) > 1e-3, "orthogonal before every block: this could not fail"


def test_after_a_final_norm_they_are_not_orthogonal() -> None:
    h, g = list(seen(looked(lab(norm="post"))).values())[-1]
    h, g = h[g.any(1)], g[g.any(1)]
    assert cosines(h - h.mean(1, keepdim=True), g).median() > 1e-3
    assert cosines(torch.ones_like(h), g).median() > 1e-3


class Block(nn.Module):
    """Works on its input in place, or not. Its output is a view, as that of every `nn.Linear`, or is not."""

    def __init__(self, width: int, in_place: bool, output: str) -> None:
        super().__init__()
        self.linear, self.in_place, self.output = nn.Linear(width, width), in_place, output

    def forward(self, x: Tensor) -> Tensor:
        x = (x.mul_(2) if self.in_place else x * 2).tanh()
        if self.output == "transposed":
            return self.linear(x.transpose(0, 1)).transpose(0, 1)
        return self.linear(x) if self.output == "view" else self.linear(x) + x


class Worked(Stack):
    """Works on its blocks' output, and on what enters the first, in place, or not."""

    def __init__(self, in_place: bool, output: str) -> None:
        super().__init__()
        width = self.head.in_features
        self.into, self.in_place, self.output = nn.Linear(width, width), in_place, output
        self.blocks = nn.ModuleList(Block(width, in_place, output) for _ in STACK)

    def run(self, h: Tensor) -> Tensor:
        h = h if self.output == "fresh" else self.into(h)
        for block in self.blocks:
            h = block(h)
            h = h.add_(1) if self.in_place else h + 1
        return h.relu_() if self.in_place else h.relu()


@pytest.mark.parametrize("output", ["fresh", "view", "transposed"])
@pytest.mark.parametrize("frozen", [False, True], ids=["trained", "frozen below"])
def test_in_place_consumers_leave_the_gradient_of_the_tensor_before_them(output: str, frozen: bool) -> None:
    model, twin = Worked(True, output), Worked(False, output)
    twin.load_state_dict(model.state_dict())
    for part in (model.tokens, model.into, model.blocks[0]):
        part.requires_grad_(not frozen)
    got, wanted = seen(looked(model)), plainly(twin)
    assert largest_gap(got, wanted) < TOLERANCE
    assert gap(got["blocks.0"][0] + 1, wanted["blocks.0"][0]) > 0.1, "a state after the change would not be seen"


class Residual(Stack):
    """Adds its blocks' output in place, as much hand-written code does; what enters the first is a view."""

    in_place = True

    def run(self, h: Tensor) -> Tensor:
        h = self.blocks[2](h)
        for block in self.blocks[:2]:
            if self.in_place:
                h += block(h)
            else:
                h = h + block(h)
        return h


def test_a_stream_added_to_in_place_keeps_all_of_its_gradient() -> None:
    """The block and the stream past it both read what entered: neither part may be lost."""
    model, twin = Residual(), Residual()
    twin.load_state_dict(model.state_dict())
    twin.in_place = False
    look = Look.from_model(model, windows(), layers=STACK[:2])
    wanted = plain(twin, STACK[:2], windows().inputs("test"), windows().targets("test"))
    assert largest_gap(seen(look), wanted) < TOLERANCE


def test_a_view_whose_gradient_cannot_be_told_is_refused() -> None:
    class Folded(Stack):
        def run(self, h: Tensor) -> Tensor:
            for block in self.blocks:
                h = block(h)
                h += 1
            return h

    class Strange(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x.transpose(1, 2) * 2).transpose(1, 2)

    model = Folded()
    model.blocks = nn.ModuleList([nn.Sequential(nn.Linear(6, 6), Strange())])
    with pytest.raises(ModelError) as caught:
        looked(model)
    assert str(caught.value) == (
        "the output of blocks.0 is a view that is changed in place afterwards: its gradient cannot be told from that "
        "of the change; clone it in the model, or name other layers with layers=[...]"
    )


class Tupled(Stack):
    """Blocks return more than the hidden state, and are given it by name."""

    class Block(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, *, hidden_states: Tensor, extra: int = 0) -> tuple[Tensor, int]:
            return self.inner(hidden_states), extra

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(self.Block(block) for block in self.blocks)

    def run(self, h: Tensor) -> Tensor:
        for block in self.blocks:
            h, _ = block(extra=1, hidden_states=h)
        return h


def test_blocks_may_return_tuples_and_take_names() -> None:
    model = Tupled()
    assert largest_gap(seen(looked(model)), plainly(model)) < TOLERANCE


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "lab decoder, norm before"])
@pytest.mark.parametrize("trained", ["all but the embedding", "the last block", "nothing"])
def test_frozen_parameters_hide_no_gradient_and_stay_frozen(name: str, trained: str) -> None:
    shape = SHAPES[name]
    model, window = shape.model(), windows(shape.objective)
    wanted = plain(model, shape.blocks, window.inputs("test"), window.targets("test"))
    model.requires_grad_(trained == "all but the embedding")
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.requires_grad_(False)
    if trained == "the last block":
        model.get_submodule(shape.blocks[-1]).requires_grad_(True)
    flags = [parameter.requires_grad for parameter in model.parameters()]
    assert largest_gap(seen(looked(model, window)), wanted) < TOLERANCE
    assert [parameter.requires_grad for parameter in model.parameters()] == flags
    assert all(parameter.is_leaf for parameter in model.parameters())


@pytest.mark.parametrize("part", ["view made under no_grad", "expanded", "held by the model"])
def test_below_the_first_trained_parameter_anything_can_be_given(part: str) -> None:
    """What may not be written to becomes a leaf of the pass; the model's own tensors keep their flags."""

    class Given(Stack):
        def __init__(self) -> None:
            super().__init__()
            self.into = nn.Linear(6, 6)
            self.start = nn.Parameter(torch.randn(1, 10, 6))

        def run(self, h: Tensor) -> Tensor:
            if part == "view made under no_grad":
                with torch.no_grad():
                    h = self.into(h)
            else:
                h = self.start.expand(len(h), -1, -1) if part == "expanded" else self.start.repeat(len(h), 1, 1)[:]
                h = self.start if part == "held by the model" and len(h) == 1 else h
            return super().run(h)

    model = Given()
    wanted = plainly(model) if part != "view made under no_grad" else None
    for parameter in (model.tokens.weight, model.start, *model.into.parameters()):
        parameter.requires_grad_(False)
    got = seen(looked(model, batch_size=1))
    assert not model.start.requires_grad
    assert model.start.is_leaf
    if wanted is not None:
        assert largest_gap(got, wanted) < TOLERANCE


def test_an_objective_of_ones_own_bears_where_it_says() -> None:
    """Every second position predicts the token before it."""

    def objective(model: nn.Module, ids: Tensor) -> tuple[Tensor, Tensor]:
        targets = torch.full_like(ids, -100)
        targets[:, 2::2] = ids[:, 1:-1:2]
        return model(ids), targets

    model, window = lab(), windows(objective)
    look = looked(model, window)
    _, targets = objective(model, window.test_ids)
    assert look.labels == LABELS
    assert look.objective == "custom"
    assert torch.equal(look.positions.target[look.positions.half("test")], targets.flatten())
    assert torch.equal(look.positions.bearing, look.positions.target != -100)
    assert largest_gap(seen(look), plain(model, STACK, window.test_ids, targets)) < TOLERANCE


def test_an_objective_that_gives_the_summed_loss_alone_has_true_labels_only() -> None:
    def objective(model: nn.Module, ids: Tensor) -> Tensor:
        return loss_of(model(ids)[:, :-1], ids[:, 1:])

    model = lab()
    look = looked(model, windows(objective))
    assert look.labels == ("true",)
    assert look.positions.bearing is None
    assert largest_gap(seen(look), plainly(model)) < TOLERANCE
