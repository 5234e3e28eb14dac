"""The eigenvalues of S C: what the loss feels of displacements with the activations' covariance.

Multiply one coordinate of h by c and its gradient shrinks by c: the model is the same, the shares are not. No linear
change of coordinates alters these eigenvalues, and their sum is the mean squared change of the loss.

Axes: d coordinates, u units.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from .projections import Projections
from .subspace import SecondMoment, eigenbasis


@dataclass(frozen=True)
class Displacement:
    """Eigenvalues of S C, largest first, and the vectors along which rows of g and of h move them."""

    eigenvalues: Float[Tensor, " d"]
    along_g: Float[Tensor, "d d"]  # C^(1/2) v
    along_h: Float[Tensor, "d d"]  # S C^(1/2) v / sqrt(l)

    @classmethod
    def of(cls, gradients: SecondMoment, covariance: Float[Tensor, "d d"]) -> "Displacement":
        """From the symmetric C^(1/2) S C^(1/2), which has the same eigenvalues.

        >>> s, c = (torch.diag(torch.tensor(entries).double()) for entries in ([4.0, 1.0], [0.5, 3.0]))
        >>> Displacement.of(SecondMoment(s), c).eigenvalues.round(decimals=9).tolist()
        [3.0, 2.0]
        """
        variances, axes = eigenbasis(covariance)
        root = (axes * variances.clamp(min=0).sqrt()) @ axes.T
        values, vectors = eigenbasis(root @ gradients.matrix @ root)
        values = values.clamp(min=0)
        along_g = root @ vectors
        # Where an eigenvalue is rounding there is nothing to move.
        length = values.where(values > values[0] * 1e-12, torch.full_like(values, torch.inf)).sqrt()
        return cls(values, along_g, gradients.matrix @ along_g / length)

    def slopes(self, g: Projections, h: Projections) -> Float[Tensor, "u d"]:
        """Derivative of each eigenvalue by the weight of each unit: sums of rows along `along_g` and `along_h`."""
        return g.energy / g.count.sum() + h.energy / h.count.sum()


def rotated_eigenvalues(
    gradients: SecondMoment, variances: Float[Tensor, " d"], num_draws: int, seed: int = 0
) -> Float[Tensor, "m d"]:
    """Eigenvalues of S C with all rows of G turned by one random rotation: both spectra stay, their relation goes."""
    values, _ = gradients.eigen
    rng = np.random.default_rng([seed, gradients.width, num_draws])
    root = variances.clamp(min=0).sqrt()
    found = []
    for _ in range(num_draws):  # one at a time: each is as large as the matrix itself
        normal = torch.from_numpy(rng.standard_normal((gradients.width, gradients.width))).to(values.device)
        turn = torch.linalg.qr(normal).Q * root[:, None]
        found.append(torch.linalg.eigvalsh((turn * values) @ turn.T).flip(0).clamp(min=0))
    return torch.stack(found)
