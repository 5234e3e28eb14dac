"""Two arrays in a notebook: how much of these gradients lies where these activations vary, beside every control."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..capture.look import sequence_codes
from ..errors import InputError
from ..geometry.inference import intervals, resampling_counts, stretched
from ..geometry.moments import Moments, rows_of
from ..geometry.subspace import METHODS, Method, SecondMoment, check_rank, eigenbasis
from .controls import populations
from .frame import Frame
from .gauge import Gauge, spread_of
from .grid import FULL
from .views import unit_of_sequence


@dataclass(frozen=True)
class Alignment:
    """The share of gradient energy inside k directions fitted on activations, and what to hold against it.

    >>> print(Alignment(0.5, 0.4, 0.6, 0.01, 0.7, 0.1, 5.0, {"next_directions": 0.2}, 0.8, 0.6, 1000, 32))
    share 0.500 [0.400, 0.600] where chance is 0.100; next_directions 0.200; oracle 0.800; 1000 rows of 32 sequences
    """

    share: float
    low: float
    high: float
    p: float  # two-sided, against random directions outside
    captured_variance: float  # of the activations in `h_test`, else of those that were fitted on
    chance: float
    enrichment: float
    controls: dict[str, float]
    oracle: float
    placement: float
    num_rows: int
    num_sequences: int

    def __str__(self) -> str:
        controls = "".join(f"; {name} {value:.3f}" for name, value in self.controls.items())
        return (
            f"share {self.share:.3f} [{self.low:.3f}, {self.high:.3f}] where chance is {self.chance:.3f}{controls}; "
            f"oracle {self.oracle:.3f}; {self.num_rows} rows of {self.num_sequences} sequences"
        )


@dataclass(frozen=True)
class CaptureCurve:
    """For the leading k principal directions, k = 1 ... D: shares of activation variance and of gradient energy.

    On the diagonal gradients are spread as activations are. `chance` (k / D) at the same captured variance is what
    gradients without any preference would give, `oracle` the most that any k directions could hold.
    """

    rank: np.ndarray
    captured_variance: np.ndarray
    energy_share: np.ndarray
    chance: np.ndarray
    oracle: np.ndarray


def _checked(h_fit: object, g_test: object, h_test: object | None) -> tuple[Tensor, Tensor, Tensor]:
    fit, gradients = rows_of(h_fit, "h_fit", least=2), rows_of(g_test, "g_test", least=2)
    if gradients.shape[1] != fit.shape[1]:
        raise InputError(
            f"g_test has width {gradients.shape[1]}, h_fit has {fit.shape[1]}: give activations and gradients of one "
            "layer"
        )
    if not bool(gradients.any()):
        raise InputError("all gradients in g_test are zero: no share can be taken; did the loss depend on these rows?")
    beside = fit if h_test is None else rows_of(h_test, "h_test", least=2)
    if h_test is not None and beside.shape != gradients.shape:
        raise InputError(
            f"h_test has shape {tuple(beside.shape)}, g_test {tuple(gradients.shape)}: give the same positions in both"
        )
    for name, rows in (("h_fit", fit), ("h_test", beside)):
        if Moments.of(rows).is_constant:
            raise InputError(f"all rows of {name} are the same (constant activations); wanted rows that differ")
    dtype = torch.promote_types(fit.dtype, gradients.dtype)
    return fit.to(dtype), gradients.to(fit.device, dtype), beside.to(fit.device, dtype)


def alignment(
    h_fit: object,
    g_test: object,
    k: int,
    method: Method = "pca",
    h_test: object | None = None,
    groups: object | None = None,
    *,
    seed: int = 0,
) -> Alignment:
    """How much of the gradients `g_test` (N, D) lies in k directions fitted on the activations `h_fit` (M, D).

    Rows of `h_fit` must be of other tokens than those of `g_test`. `groups` names the sequence of each row of `g_test`:
    the interval resamples sequences, because tokens of one sequence are not independent. `h_test`: activations at the
    positions of `g_test`, for the captured variance.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> h, g = rng.normal(size=(600, 16)), rng.normal(size=(400, 16))
    >>> h[:, :2] *= 5; g[:, :2] *= 3
    >>> seen = alignment(h, g, k=2)
    >>> seen.chance, 0.5 < seen.share < 0.6, round(seen.p, 3)
    (0.125, True, 0.01)
    """
    fit, gradients, beside = _checked(h_fit, g_test, h_test)
    check_rank(k, fit.shape[1])
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}; wanted one of {', '.join(METHODS)}")
    frame = Frame.fit(Moments.of(fit), (method,), (k,))
    check_rank(k, fit.shape[1], frame.usable_rank)
    codes = sequence_codes(groups, gradients.shape[0], "groups")
    if codes.max() < 1:
        raise InputError("groups names a single sequence; wanted at least 2, an interval needs several")
    order = torch.from_numpy(np.argsort(codes, kind="stable"))
    units = unit_of_sequence(int(codes.max()) + 1)[torch.from_numpy(codes)[order]]
    gradients = gradients[order.to(gradients.device)]
    loud = gradients.abs().amax(1) > 0
    moments = {name: Moments.of(one.rows(gradients[loud])) for name, one in populations(("true",)).items()}
    counts = stretched(resampling_counts(int(units[-1]) + 1, seed=seed)).to(gradients.device)
    gauge = Gauge(frame, moments, Moments.of(beside), counts)
    gauge.add_activations(beside if h_test is None else beside[order], units if h_test is not None else None)
    gauge.add_gradients({"true": gradients}, units.to(gradients.device), loud)
    found: dict[tuple[str, str], tuple[float, float | None, float | None, float | None]] = {}

    def write(key: dict, statistic: str, value: Tensor, p: float | None = None, **more: object) -> None:
        point, spread, _ = spread_of(torch.as_tensor(value), more.get("draws"))  # type: ignore[arg-type]
        low, high = (None, None) if spread is None else (float(end[0]) for end in intervals(spread[None]))
        found[(str(key.get("control", "")), statistic)] = (point, low, high, p)

    gauge.write_cell(write, FULL.controls(True), method, k)
    share, low, high, p = found[("", "energy_share")]
    controls = {
        control: point
        for (control, statistic), (point, *_) in found.items()
        if statistic == "energy_share" and control not in ("", "oracle")
    }
    return Alignment(
        share=share,
        low=float(low),  # type: ignore[arg-type]
        high=float(high),  # type: ignore[arg-type]
        p=float(p),  # type: ignore[arg-type]
        captured_variance=found[("", "captured_variance")][0],
        chance=k / fit.shape[1],
        enrichment=found[("", "enrichment")][0],
        controls=controls,
        oracle=found[("oracle", "energy_share")][0],
        placement=found[("", "placement")][0],
        num_rows=int(loud.sum()),
        num_sequences=int(codes.max()) + 1,
    )


def capture_curve(h_fit: object, g_test: object, h_test: object | None = None) -> CaptureCurve:
    """Share of activation variance against share of gradient energy, for the leading k directions of `h_fit`.

    The variance is that of `h_test` (activations at the positions of `g_test`), else of `h_fit` itself.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> curve = capture_curve(rng.normal(size=(600, 4)), rng.normal(size=(400, 4)))
    >>> curve.rank.tolist(), round(float(curve.energy_share[-1]), 6)
    ([1, 2, 3, 4], 1.0)
    """
    fit, gradients, beside = _checked(h_fit, g_test, h_test)
    frame = Frame.fit(Moments.of(fit), ("pca",), ())
    basis = frame.principal
    moment, covariance = SecondMoment.of(Moments.of(gradients)), Moments.of(beside).covariance

    def held(matrix: Tensor) -> np.ndarray:
        along = ((matrix @ basis) * basis).sum(0)
        return (along / matrix.trace()).cumsum(0).cpu().numpy()

    rank = np.arange(1, moment.width + 1)
    oracle = (eigenbasis(moment.matrix)[0].clamp(min=0) / moment.trace).cumsum(0).cpu().numpy()
    return CaptureCurve(rank, held(covariance), held(moment.matrix), rank / moment.width, oracle)
