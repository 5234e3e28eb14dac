"""`both-architectures` (A6): does it hold in an encoder and in a decoder?"""

from collections.abc import Sequence

import numpy as np

from ..store.vocabulary import OBJECTIVES
from .evidence import Evidence
from .replicates import interval
from .tangent import tangent_anisotropy, tangent_energy
from .verdict import Verdict, weaker


def both_architectures(runs: Sequence[Evidence]) -> Verdict:
    """A6: the smaller of the runs' effects, and the weaker of their verdicts, for energy and for anisotropy."""
    held = [run for run in runs if run.objective in OBJECTIVES]
    names = {"claim": "both-architectures", "source": "A6", "unit": "bits", "runs": tuple(run.name for run in runs)}
    absent = [term.title for name, term in OBJECTIVES.items() if name not in {run.objective for run in held}]
    if absent:
        option = f"a run of {' and of '.join('an ' + n if n == 'encoder' else 'a ' + n for n in absent)}"
        return Verdict(
            outcome="inconclusive",
            sentence=f"inconclusive: needs {option}",
            would_change=f"{option}, judged together: an.open_runs([...]).claims()",
            **names,
        )
    energy = [tangent_energy(run) for run in held]
    anisotropy = [tangent_anisotropy(run) for run in held]
    outcome = weaker([verdict.outcome for verdict in energy + anisotropy])
    details = tuple(
        f"{OBJECTIVES[str(run.objective)].title} {verdict.claim}: {verdict.outcome}, {verdict.number}"
        for verdicts in (energy, anisotropy)
        for run, verdict in zip(held, verdicts, strict=True)
    )
    # Of supported beside reversed neither is inconclusive: then the first stands for both.
    weak = next((verdict for verdict in energy + anisotropy if verdict.outcome == outcome), energy[0])
    effects = [verdict.replicates for verdict in energy]
    if any(effect is None for effect in effects):
        told = weak.sentence if weak.outcome == outcome else f"{outcome} (they disagree)"
        return Verdict(outcome=outcome, sentence=told, details=details, **names)
    # The smaller effect is the one nearer to none: of negative ones the largest number.
    stack = np.stack(effects)  # type: ignore[arg-type]
    least = np.max(stack, axis=0) if (stack[:, 0] < 0).all() else np.min(stack, axis=0)
    low, high = interval(least)
    # What explains the weaker half away explains the joint claim away.
    explained = min(energy, key=lambda verdict: abs(verdict.effect or 0.0)).explanations
    limits = sorted({f"{v.claim} {v.outcome}" for v in energy + anisotropy if v.outcome == outcome})
    return Verdict(
        outcome=outcome,
        effect=float(least[0]),
        low=low,
        high=high,
        null="each run's own: untrained, clean, chance",
        sentence=f"{outcome}: in {len(held)} runs the smaller effect on energy is {least[0]:.2f} bits"
        + ("" if outcome == "supported" else f"; decided by {', '.join(limits)}"),
        explanations=explained,
        would_change=weak.would_change,
        details=details,
        replicates=least,
        **names,
    )
