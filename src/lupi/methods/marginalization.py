"""Full marginalization: learn q(y | x, a) and predict with its average over the a in the training set."""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lupi._internal.checks import check_integer
from lupi.data import Annotations, SparseRows, distinct
from lupi.likelihoods import Categorical, Likelihood
from lupi.methods.base import ConditionalMethod
from lupi.nn import Parts, Tower

PAIRS_AT_ONCE, PAIRS_ON_A_GPU, ROWS_IN_A_GRAPH = 6144, 2**20, 256
"""Number of pairs of an example and a row of a per step, on a CPU (to fit its cache) and on a GPU, and number of rows
of a per step in an exported graph."""


class FullMarginalization(ConditionalMethod):
    r"""Learn q(y | x, a) and predict with (1/S) Σ_s q(y | x, a_s), the average over the a in the training set.

    This assumes p(a | x) = p(a). Repeated rows of a are computed once and weighted, which is exact.

    Parameters
    ----------
    trunk : Module
        φ(x).
    tower : Tower
        ψ(φ, a).
    conditional : Module
        Head on ψ.
    likelihood : Likelihood
        The likelihood of the labels.
    samples : int, optional
        S, the number of training rows to draw without replacement; all rows by default. With samples, this is the
        approximate full marginalization (AFM) of Ortiz-Jimenez et al. (2023).
    """

    name: ClassVar = "full-marginalization"
    title: ClassVar = "Full marginalization"
    ships_privileged: ClassVar = True
    index: Tensor
    value: Tensor
    weight: Tensor
    seed: Tensor

    def __init__(
        self,
        trunk: nn.Module,
        tower: Tower,
        conditional: nn.Module,
        *,
        likelihood: Likelihood = Categorical(),
        samples: int | None = None,
    ) -> None:
        super().__init__(trunk, tower, conditional, likelihood=likelihood)
        self.samples = None if samples is None else check_integer("samples", samples, 1)
        # The rows of a, as `SparseRows`, and their weights; before `observe`, one row of zeros.
        self.register_buffer("index", torch.zeros(1, 0, dtype=torch.int32))
        self.register_buffer("value", torch.zeros(1, 0))
        self.register_buffer("weight", torch.ones(1))
        self.register_buffer("seed", torch.randint(2**31, (), device="cpu"))

    def observe(self, data: Annotations) -> None:
        """Store the distinct rows of a."""
        if self.samples is not None and self.samples < len(data):
            generator = torch.Generator().manual_seed(int(self.seed))
            data = data.take(torch.randperm(len(data), generator=generator)[: self.samples].to(data.row.device))
        position, weight = distinct(data.a, data.weight)
        rows = data.a if isinstance(data.a, SparseRows) else SparseRows.from_matrix(data.a)
        rows = rows.take(position).to(self.weight.device)
        self.index, self.value, self.weight = rows.index, rows.value, weight.to(self.weight)

    def predictor(self) -> nn.Module:
        """Return the average of q(y | x, a) over the rows of a."""
        return Marginalized(self)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Resize the buffers to the saved number of rows of a."""
        for name in ("index", "value", "weight"):
            if prefix + name in state:
                setattr(self, name, torch.empty_like(state[prefix + name], device=self.weight.device))
        super()._load_from_state_dict(state, prefix, *rest)


class Marginalized(nn.Module):
    """The predictor of full marginalization.

    Layer 2 of the tower is a linear layer on φ plus an offset, which is computed once per row of a. Rows of a and
    examples are the last, contiguous dimensions of every tensor: for a head with few outputs, this is several times
    faster than having them first.
    """

    def __init__(self, method: FullMarginalization) -> None:
        super().__init__()
        self.trunk, self.likelihood = method.trunk, method.likelihood
        rows = SparseRows(method.index, method.value, method.tower.first.in_features)
        offsets = []
        for part in torch.split(torch.arange(rows.shape[0], device=rows.index.device), 1024):
            on_features, offset = method.tower.split_at(rows[part])
            offsets.append(offset)
        offset = torch.cat(offsets).mT.contiguous().unsqueeze(2)  # [width, rows, 1]
        head, skip = method.conditional, method.tower.skip
        linear = isinstance(head, nn.Linear)
        self.conditional = LinearOnPairs(head, offset, skip) if linear else HeadOnPairs(head, offset, skip)
        self.on_features, self.weight = nn.Buffer(on_features), nn.Buffer(method.weight.clone().view(1, 1, -1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits or Gaussian parameters of the mixture."""
        features = self.trunk(x)
        on_features = F.linear(features, self.on_features).mT.contiguous().unsqueeze(1)  # [width, 1, examples]
        at_once = ROWS_IN_A_GRAPH
        if not torch.compiler.is_compiling():  # an exported graph accepts any number of examples
            pairs = PAIRS_AT_ONCE if features.is_cpu else PAIRS_ON_A_GPU
            at_once = max(1, pairs // max(1, x.shape[0]))
        total: Tensor | None = None
        for start in range(0, self.weight.shape[2], at_once):
            rows = slice(start, start + at_once)
            moments = self.likelihood.moments(self.conditional(on_features, features.mT, rows), 0)
            weight = self.weight[..., rows].expand(moments.shape[0], -1, -1)  # [outputs, 1, rows], to be multiplied
            total = weight @ moments if total is None else torch.baddbmm(total, weight, moments)
        assert total is not None  # there is at least one row
        return self.likelihood.from_moments(total.squeeze(1).mT)


class HeadOnPairs(nn.Module):
    """Apply any head to every pair of a row of a and an example."""

    def __init__(self, head: nn.Module, offset: Tensor, skip: bool) -> None:
        super().__init__()
        self.head, self.offset, self.skip = head, nn.Buffer(offset), skip

    def forward(self, on_features: Tensor, features: Tensor, rows: slice) -> Tensor:
        """Return head(ψ), [outputs, rows, examples], for some rows of a and features [width, examples]."""
        psi = torch.relu_(on_features + self.offset[:, rows])
        if self.skip:
            psi = torch.cat([psi, features.unsqueeze(1).expand(-1, psi.shape[1], -1)])
        output = self.head(psi.flatten(1).mT).mT
        return output.reshape(output.shape[0], *psi.shape[1:])  # type: ignore[no-any-return]


class LinearOnPairs(nn.Module):
    """Apply a linear head to pairs: W relu(u + o) + b = W max(u, −o) + (W o + b), where the last term depends on a."""

    def __init__(self, head: Any, offset: Tensor, skip: bool) -> None:
        super().__init__()
        with torch.no_grad():
            on_psi, on_features = head.weight.split([offset.shape[0], head.in_features - offset.shape[0]], 1)
            shift = on_psi @ offset.squeeze(2)
            shift = shift if head.bias is None else shift + head.bias.unsqueeze(1)
            self.on_psi, self.shift = nn.Buffer(on_psi.contiguous()), nn.Buffer(shift.unsqueeze(2))
            self.below = nn.Buffer(-offset)
            self.on_features = nn.Buffer(on_features.contiguous()) if skip else None

    def forward(self, on_features: Tensor, features: Tensor, rows: slice) -> Tensor:
        """Return W ψ + b, [outputs, rows, examples], for some rows of a and features [width, examples]."""
        pairs = torch.maximum(on_features, self.below[:, rows])
        output = torch.mm(self.on_psi, pairs.flatten(1))
        output = output.view(output.shape[0], *pairs.shape[1:]).add_(self.shift[:, rows])
        return output if self.on_features is None else output + (self.on_features @ features).unsqueeze(1)


def full_marginalization(parts: Parts, *, samples: int | None = None) -> FullMarginalization:
    """Make the method "full-marginalization"."""
    return FullMarginalization(
        parts.trunk(), parts.tower(), parts.tower_head(), likelihood=parts.likelihood, samples=samples
    )
