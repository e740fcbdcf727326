"""Attention rows with what models do to scores: soft caps, sinks, windows, local masks, and other
normalizers.

A cell has all axes of `saturation` and these; draws are those of
`experiments.measuring.sampling.SampledCell`. Between the divisor and the weights stands a row map
(`sdpa.row_maps`), to whose weights w and Jacobian J, of w to the scaled scores before the cap, all
metrics but `score_variance` belong. For the plain softmax they are those of saturation.
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np

from experiments.measuring.cells import Sizes, for_cells
from experiments.measuring.columns import Meaning
from experiments.measuring.intervals import MIN_DRAWS_OF_FOURTH_POWERS
from experiments.measuring.kernel import Kernel
from experiments.measuring.metric import Exact, from_theory
from experiments.measuring.row_metrics import METRICS, KernelMetric, RowMetric, row_arguments
from experiments.measuring.sampling import AnyMask, MaskName, SampledCell, SoftCap
from sdpa._arrays import FloatArray
from sdpa.row_maps import NORMALIZERS, MappedRows, Normalizer, RowMap


@dataclass(frozen=True)
class Sink:
    """The logit of a sink, or none."""

    logit: float | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `none` or a number."""
        if text == "none":
            return cls()
        try:
            logit = float(text)
        except ValueError:
            logit = math.nan
        if not abs(logit) <= 1e6:
            raise ValueError(f"expected none, or a logit within ±1e6, got {text!r}")
        return cls(logit)

    def __str__(self) -> str:
        """With all digits, because stored chunks and seeds are keyed by this text.

        >>> str(Sink.parse("0")), str(Sink.parse("1.0000004"))
        ('0', '1.0000004')
        """
        return "none" if self.logit is None else repr(self.logit).removesuffix(".0")


@dataclass(frozen=True)
class Cell(SampledCell):
    """One point of the grid, with the row map of its rows."""

    # More names than those of other experiments.
    mask: AnyMask = MaskName("none")  # type: ignore[assignment]  # noqa: RUF009
    softcap: SoftCap = 0.0
    sink: Annotated[Sink, Meaning("logit of a key without a value, beside softmax; or none")] = (
        Sink()
    )
    normalizer: Annotated[
        Normalizer,
        Meaning("function from capped scores to weights: softmax or sigmoid"),
    ] = NORMALIZERS["softmax"]

    score_arrays = 24

    @property
    def row_map(self) -> RowMap:
        """The row map of the cell; ValueError for a sink beside another normalizer than softmax."""
        return RowMap(self.softcap, self.sink.logit, self.normalizer.name)

    @property
    def sizes(self) -> Sizes:
        """As `BaseCell.sizes`: under sigmoid, each key may have the weight 1."""
        mass = self.n_keys if self.normalizer.name == "sigmoid" else 1
        return super().sizes._replace(mass=mass)

    def problem(self) -> str | None:
        """As `BaseCell.problem`; a sink needs softmax."""
        if message := super().problem():
            return message
        try:
            _ = self.row_map
        except ValueError as error:
            return str(error)
        return None


_SATURATION = {metric.name: metric for metric in METRICS}
# The mass of a sink comes from rare rows without a large score, and norms beside a high sink from
# rows with one. If no draw has such a row, the error of the sample is too small, and no exact
# deviation is known that bounds it.
_MANY = MIN_DRAWS_OF_FOURTH_POWERS
_ACCURACY = 1e-4  # of the interpolation over the deviation of the scores


def _exact(name: str) -> Exact:
    @for_cells(Cell)
    def arguments(cell: Cell) -> tuple[object, ...]:
        return *row_arguments(cell)[:4], cell.row_map, cell.mask, cell.n_queries

    known = from_theory("mapped_expectations", arguments, name)

    @for_cells(Cell)
    def value(cell: Cell) -> float:
        is_one = cell.sink.logit is None and cell.normalizer.name != "sigmoid"
        return math.nan if name == "visible_mass" and is_one else known(cell)

    formula = (
        "integral over the capped scores of a row and its sink, then over |q| "
        "(sdpa.theory.special.mapped_rows); empty for the entropy under sigmoid, for a mass that is always "
        "1, and unless inputs is gaussian, without a key_mean, a spectrum, a correlation or a "
        "normalization, or the map is the plain softmax"
    )
    return Exact(formula, value, _ACCURACY)


def _from_saturation(name: str, old: str = "", new: str = "", **changes: Any) -> RowMetric:
    """A metric of saturation, of the weights and the Jacobian of the row map, with a part of its
    meaning replaced.
    """
    metric = _SATURATION[name]
    assert isinstance(metric, RowMetric)
    return replace(
        metric,
        exact=metric.exact and _exact(name),
        meaning=metric.meaning.replace(old, new),
        **changes,
    )


_JACOBIAN = (
    "softmax Jacobian J = diag(w) - w w^T",
    "Jacobian J of the weights to the scaled scores before the cap",
)
MECHANISM_METRICS: tuple[KernelMetric, ...] = (
    _SATURATION["score_variance"],
    RowMetric(
        "visible_mass",
        "sum of the weights of the visible keys, without that of a sink; mean over rows",
        "E sum_j w_j",
        "sum of the weights",
        exact=_exact("visible_mass"),
        within=(0, lambda sizes: sizes.mass),
        min_draws=_MANY,
        is_logarithmic=True,
    ),
    _from_saturation("max_weight", within=(0, 1)),
    _from_saturation(
        "entropy",
        "entropy of a row",
        "entropy of the weights over their sum",
        formula="E H(w / sum w)",
    ),
    _from_saturation("jacobian_norm", *_JACOBIAN, within=(0, math.inf), min_draws=_MANY),
    _from_saturation("jacobian_norm_median", *_JACOBIAN),
    _from_saturation("weight_jacobian_norm_median"),
    _from_saturation("query_gradient_norm", "K^T J g", "K^T J^T g", min_draws=_MANY),
    _from_saturation("query_gradient_norm_median", "K^T J g", "K^T J^T g"),
)


class MappedKernel(Kernel[Cell]):
    """The kernel with the row map of a cell in the place of its softmax."""

    def softmax(
        self, cell: Cell, scores: FloatArray, keys: FloatArray, gradients: FloatArray
    ) -> MappedRows:
        """The rows under the row map of the cell and each of its divisors."""
        by_divisor = []
        for divisor in cell.divisors():
            rows = cell.row_map.rows(scores / divisor, keys, gradients)
            by_divisor.append(
                rows._replace(
                    weight_jacobian_norm=rows.weight_jacobian_norm / divisor,
                    query_gradient_norm=rows.query_gradient_norm / divisor,
                )
            )
        return MappedRows(*np.stack(by_divisor, axis=1))


KERNEL = MappedKernel(MECHANISM_METRICS)
EXPERIMENT = KERNEL.experiment("mechanisms", Cell)
