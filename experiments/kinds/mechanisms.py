"""Attention rows with what models do to scores: soft caps, sinks, windows, local masks, ALiBi,
other normalizers, rotated vectors.

In a config they are sweeps of `saturation` that name one of these (`experiments.config.kinds`).
Draws and scaling rules are those of `experiments.kinds.saturation`. Between the divisor and the
weights stands a row map (`sdpa.row_maps`), to whose weights w and Jacobian J, of w to the scaled
scores before the cap, all metrics but `score_variance` belong. For the plain softmax they are those
of saturation.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Le

from experiments.measuring.batch import RowMetric, RowsMetric
from experiments.measuring.columns import Meaning
from experiments.measuring.exact import from_theory
from experiments.measuring.experiment import AnyCell
from experiments.measuring.intervals import MIN_DRAWS_OF_FOURTH_POWERS
from experiments.measuring.metric import Exact, Theory
from experiments.measuring.row_metrics import METRICS, row_arguments
from experiments.measuring.row_statistics import RowStatistics
from experiments.measuring.rules import Floats
from experiments.measuring.sampling import SampledCell
from experiments.measuring.score_metrics import ScoreMetric
from sdpa.attention import alibi_bias
from sdpa.masks import reach_of
from sdpa.row_maps import NORMALIZERS, Normalizer, RowMap, rotated

_OF_MASK = (
    "none, causal, window-512 (causal, and each query sees only the last 512 keys up to its "
    "position) or local-64 (its own key and 64 on both sides)"
)


class MaskName(str):
    """A name of `sdpa.masks`."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """The mask of that name; ValueError if there is none."""
        try:
            reach_of(text)
        except ValueError as error:
            raise ValueError(str(error).removeprefix("mask: ")) from None
        return cls(text)


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
    """One point of the grid, with the row map of its rows and the rotation of its vectors."""

    # More names than those of other experiments.
    mask: Annotated[MaskName, Meaning(_OF_MASK)] = MaskName("none")  # type: ignore[assignment]  # noqa: RUF009
    softcap: Annotated[
        float, Ge(0), Le(1e6), Meaning("c of the soft cap c tanh(s / c) of scaled scores; 0: none")
    ] = 0.0
    sink: Annotated[Sink, Meaning("logit of a key without a value, beside softmax; or none")] = (
        Sink()
    )
    normalizer: Annotated[
        Normalizer,
        Meaning("function from capped scores to weights: softmax or sigmoid"),
    ] = NORMALIZERS["softmax"]
    position: Annotated[
        Literal["none", "rope"],
        Meaning("none, or rope: queries and keys are rotated by their positions"),
    ] = "none"
    alibi: Annotated[
        float,
        Ge(0),
        Le(1e3),
        Meaning("slope m of ALiBi, -m (query position - key position), beside a causal mask"),
    ] = 0.0

    score_arrays = 24
    can_divide_by_row = True

    @property
    def row_map(self) -> RowMap:
        """The row map of the cell; ValueError for a sink beside another normalizer than softmax."""
        return RowMap(self.softcap, self.sink.logit, self.normalizer.name)

    def problem(self) -> str | None:
        """As `Cell.problem`; a sink needs softmax, ALiBi a mask, a rotation an even d_k and
        positions of all queries.

        >>> Cell(d_k=5, n_keys=8, n_queries=4, position="rope", scaling=()).problem()
        'position: expected an even d_k beside rope, got d_k = 5'
        """
        if found := super().problem():
            return found
        try:
            _ = self.row_map
        except ValueError as error:
            return str(error)
        if self.alibi and reach_of(self.mask).ahead:
            return f"alibi: expected mask: causal or window-512 beside it, got mask {self.mask}"
        if self.position == "rope" and self.d_k % 2:
            return f"position: expected an even d_k beside rope, got d_k = {self.d_k}"
        if self.position == "rope":
            return self.too_many_queries("position")
        return None

    def draw(
        self, trials: int, rng: np.random.Generator
    ) -> tuple[Floats, Callable[[slice], Floats]]:
        """As `Cell.draw`, rotated."""
        keys, queries = super().draw(trials, rng)
        if self.position == "none":
            return keys, queries
        positions = np.arange(self.n_keys)
        return rotated(keys, positions), lambda rows: rotated(
            queries(rows), positions[self.n_keys - self.n_queries :][rows]
        )

    @property
    def entries(self) -> int:
        """As `Cell.entries`: rotated vectors beside drawn ones."""
        return self.numbers if self.position == "none" else 2 * self.numbers

    def extra_values(
        self, rows: slice, keys: Floats, scores: Floats, gradients: Floats
    ) -> dict[str, Floats]:
        """As `AttentionCell.extra_values`: the numbers behind the metrics, under the row map."""
        seen = self.visible(rows)
        bias = alibi_bias(self.alibi, self.n_queries, self.n_keys)[rows] if self.alibi else 0.0
        found, relative = [], self.relative_divisors(rows)
        for rule, divisor in enumerate(self.divisors()):
            of_rows = np.asarray(divisor if relative is None else divisor * relative[rule])
            scaled = scores / of_rows[..., None]
            if seen is not None:
                scaled[:, ~seen] = -np.inf
            mapped = self.row_map.rows(scaled, keys, bias, gradients)
            weights, *of_row, of_weights, of_query = mapped
            to_query = of_weights / of_rows, of_query / of_rows
            found.append((weights.max(axis=-1), *of_row, *to_query))
        return dict(zip(_NUMBERS, np.stack(found, axis=1), strict=True))


# Prefixed, because the same names without it are attributes of `RowDiagnostics`, which then would
# be computed too.
_OF_MAP = "mapped_"
_NUMBERS = tuple(
    _OF_MAP + name
    for name in (
        "max_weight",
        "visible_mass",
        "entropy",
        "jacobian_norm",
        "weight_jacobian_norm",
        "query_gradient_norm",
    )
)
_SATURATION = {metric.name: metric for metric in METRICS}
# The mass of a sink comes from rare rows without a large score, and norms beside a high sink from
# rows with one. Theory has no deviation of a draw under a row map, which would keep up the errors
# of draws that miss these rows.
_MANY = MIN_DRAWS_OF_FOURTH_POWERS
_ACCURACY = 1e-4  # of the interpolation over the deviation of the scores


def _exact(name: str) -> Exact:
    def arguments(cell: AnyCell) -> tuple[Any, ...]:
        return *row_arguments(cell)[:4], cell.row_map, cell.mask, cell.n_queries

    known = from_theory("mapped_expectations", arguments, name)

    def value(theory: Theory, cell: AnyCell) -> float:
        is_one = (
            name == "visible_mass" and cell.sink.logit is None and cell.normalizer.name != "sigmoid"
        )
        return math.nan if _is_turned(cell) or is_one or cell.alibi else known(theory, cell)

    formula = (
        "integral over the capped scores of a row and its sink, then over |q| "
        "(sdpa.theory.mapped_rows); empty for alibi, for the entropy under "
        "sigmoid, for a mass that is always 1, and unless inputs is gaussian, without a key_mean, "
        "a spectrum, a correlation or a normalization, or the map is the plain softmax"
    )
    return Exact(formula, value, _ACCURACY)


def _is_turned(cell: AnyCell) -> bool:
    """True if the rotation of a cell changes the joint law of a draw.

    It does not change that of isotropic vectors: independent Gaussian queries and keys of mean 0
    without a spectrum.
    """
    law = cell.law
    is_shaped = law.spectrum or law.correlation or law.query_mean or law.key_mean
    return cell.position == "rope" and bool(is_shaped or law.entries.name != "gaussian")


def _largest_mass(cells: Any) -> Any:
    """The largest sum of weights, of a cell or of the rows of a table: the number of keys under
    sigmoid, else 1.
    """
    is_sigmoid = np.asarray(cells.normalizer, dtype=str) == "sigmoid"
    return np.where(is_sigmoid, cells.n_keys, 1.0)


def _of_saturation(name: str, old: str = "", new: str = "", **changes: Any) -> RowMetric:
    """A metric of saturation, of the weights and the Jacobian of the row map, with a part of its
    meaning replaced.
    """
    metric = _SATURATION[name]
    assert isinstance(metric, RowMetric)
    return replace(
        metric,
        compute=f"{_OF_MAP}{metric.source}",
        exact=metric.exact and _exact(name),
        meaning=metric.meaning.replace(old, new),
        **changes,
    )


def _score_variance() -> ScoreMetric:
    """The variance of the scores, known unless a rotation changes their law."""
    metric = _SATURATION["score_variance"]
    assert isinstance(metric, ScoreMetric)
    known = metric.exact
    assert known is not None

    def value(theory: Theory, cell: AnyCell) -> float:
        return math.nan if _is_turned(cell) else known.value(theory, cell)

    return replace(metric, exact=replace(known, value=value))


_J = (
    "softmax Jacobian J = diag(w) - w w^T",
    "Jacobian J of the weights to the scaled scores before the cap",
)
MECHANISM_METRICS: tuple[RowsMetric, ...] = (
    _score_variance(),
    RowMetric(
        "visible_mass",
        "sum of the weights of the visible keys, without that of a sink; mean over rows",
        "E sum_j w_j",
        "sum of the weights",
        compute="mapped_visible_mass",
        exact=_exact("visible_mass"),
        within=(0, _largest_mass),
        min_draws=_MANY,
        is_logarithmic=True,
    ),
    _of_saturation("max_weight", within=(0, 1)),
    _of_saturation(
        "entropy",
        "entropy of a row",
        "entropy of the weights over their sum",
        formula="E H(w / sum w)",
    ),
    _of_saturation("jacobian_norm", *_J, within=(0, math.inf), min_draws=_MANY),
    _of_saturation("jacobian_norm_median", *_J),
    _of_saturation("weight_jacobian_norm_median"),
    _of_saturation("query_gradient_norm", "K^T J g", "K^T J^T g", min_draws=_MANY),
    _of_saturation("query_gradient_norm_median", "K^T J g", "K^T J^T g"),
)

STATISTICS = RowStatistics(MECHANISM_METRICS)
EXPERIMENT = STATISTICS.experiment("mechanisms", Cell)
