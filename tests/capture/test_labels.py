"""True, sampled and permuted labels, read off gradients that are known in closed form: p less one at the label."""

import pytest
import scipy.stats
import torch
from torch import Tensor, nn

from anisoscope import Look, Windows
from capture.models import MASK, ids, lab, windows
from capture.plain import seen

P = torch.tensor([0.02, 0.03, 0.05, 0.4, 0.2, 0.15, 0.1, 0.05])
VOCAB = len(P)


class Known(nn.Module):
    """Its last block gives the logits of P at every position."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, VOCAB)
        self.blocks = nn.ModuleList(nn.Linear(VOCAB, VOCAB) for _ in range(2))
        with torch.no_grad():
            self.blocks[1].weight.mul_(0)
            self.blocks[1].bias.copy_(P.log())

    def forward(self, ids: Tensor) -> Tensor:
        return self.blocks[1](self.blocks[0](self.tokens(ids)))


def known_windows(objective: str = "causal", num_sequences: int = 80, seed: int = 0) -> Windows:
    return Windows.from_ids(ids(num_sequences, 30, VOCAB), objective, mask_id=MASK, mask_fraction=0.4, seed=seed)  # type: ignore[arg-type]


def labels_in(look: Look, label: str) -> Tensor:
    """The label of each test position, -100 where there is none."""
    _, g = seen(look, "test", label)["blocks.1"]
    bears = g.any(1)
    found = torch.where(bears, (P - g).argmax(1), -100)
    one_hot = nn.functional.one_hot(found.clamp(min=0), VOCAB) * bears[:, None]
    torch.testing.assert_close(g, P * bears[:, None] - one_hot, atol=1e-6, rtol=0)
    return found


@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_true_labels_are_the_targets(objective: str) -> None:
    window = known_windows(objective)
    look = Look.from_model(Known(), window)
    assert torch.equal(labels_in(look, "true"), window.targets("test").flatten())


@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_permuted_labels_are_the_targets_shuffled_among_bearing_positions(objective: str) -> None:
    window = known_windows(objective)
    found, targets = labels_in(Look.from_model(Known(), window), "permuted"), window.targets("test").flatten()
    bearing = targets >= 0
    assert torch.equal(found >= 0, bearing)
    assert torch.equal(found[bearing].sort().values, targets[bearing].sort().values)
    agreement = scipy.stats.binomtest(int((found == targets)[bearing].sum()), int(bearing.sum()), chance(targets))
    assert agreement.pvalue > 0.001, "they agree with the truth more, or less, than a shuffle would"


def chance(targets: Tensor) -> float:
    share = torch.bincount(targets[targets >= 0]) / (targets >= 0).sum()
    return float(share.square().sum())


@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_sampled_labels_follow_the_models_distribution_at_bearing_positions(objective: str) -> None:
    window = known_windows(objective)
    found, targets = labels_in(Look.from_model(Known(), window), "sampled"), window.targets("test").flatten()
    assert torch.equal(found >= 0, targets >= 0)
    drawn = torch.bincount(found[found >= 0], minlength=VOCAB)
    assert fit_of(drawn, P) > 0.01
    assert fit_of(drawn, P.roll(1)) < 1e-9, "labels of another distribution would pass"
    assert fit_of(torch.bincount(targets[targets >= 0], minlength=VOCAB), P) < 1e-9, "the true labels would pass"


def fit_of(counts: Tensor, p: Tensor) -> float:
    return float(scipy.stats.chisquare(counts.double(), p.double() / p.double().sum() * float(counts.sum())).pvalue)


def test_sampled_labels_of_neighbours_are_independent() -> None:
    found = labels_in(Look.from_model(Known(), known_windows(num_sequences=160)), "sampled").view(80, 30)[:, :-1]
    for first, second in ((found[:, :-1], found[:, 1:]), (found[:-1], found[1:]), (found[:40], found[40:])):
        table = torch.zeros(VOCAB, VOCAB).index_put_((first, second), torch.tensor(1.0), accumulate=True)
        assert scipy.stats.chi2_contingency(table[3:7, 3:7]).pvalue > 0.001


def test_labels_are_the_same_at_two_looks_of_an_unchanged_model_and_others_with_another_seed() -> None:
    model = Known()
    for label in ("sampled", "permuted"):
        first, again = (labels_in(Look.from_model(model, known_windows(), batch_size=size), label) for size in (16, 7))
        other = labels_in(Look.from_model(model, known_windows(seed=1)), label)
        assert torch.equal(first, again)
        assert not torch.equal(first, other)


def test_sampled_labels_move_with_the_model_alone() -> None:
    """Common uniforms: a model that has hardly changed draws hardly another label."""
    model = Known()
    before = labels_in(Look.from_model(model, known_windows()), "sampled")
    with torch.no_grad():
        model.blocks[1].bias[3] += 0.02
    _, g = seen(Look.from_model(model, known_windows()), "test", "sampled")["blocks.1"]
    after = torch.where(g.any(1), (model.blocks[1].bias.softmax(0) - g).argmax(1), -100)
    assert 0 < (before != after).double().mean() < 0.02


@pytest.mark.parametrize("label", ["true", "sampled", "permuted"])
def test_other_labels_exist_for_the_fit_half_too_and_are_its_own(label: str) -> None:
    look = Look.from_model(lab(), windows())
    fit, test = (seen(look, half, label)["blocks.0"][1] for half in ("fit", "test"))
    assert fit.shape == test.shape
    assert not torch.equal(fit, test)


def test_permuted_labels_of_the_fit_half_are_shuffled_targets_of_the_fit_half() -> None:
    window = known_windows()
    _, g = seen(Look.from_model(Known(), window), "fit", "permuted")["blocks.1"]
    found = (P - g).argmax(1)[g.any(1)]
    targets = window.targets("fit").flatten()
    assert torch.equal(found.sort().values, targets[targets >= 0].sort().values)
