"""Titles and sentences of figures, written by people and checked by the tables.

A finding belongs to one figure of one sweep. It appears if the sweep has the values that it speaks
of, and if its predicate holds; otherwise the figure has its plain title, and `draw` says why. Its
numbers and sizes come from the results. Predicates compare 95% intervals, so that chance does not
decide.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from experiments.analysis.results import Results
from experiments.config.sweep import Sweep
from experiments.errors import Problem
from experiments.measuring.columns import as_json, axis_names, defaults
from experiments.paths import ALL_SWEEPS

if TYPE_CHECKING:
    import pandas as pd

Table: TypeAlias = "pd.DataFrame"
# The axes that a sentence speaks of: one value, values that a sweep must have among its own, or ()
# for any.
Needs: TypeAlias = Mapping[str, Any]

_A_TENTH = 1.1
_ROOT, _PLAIN = "d_k^1/2", "unscaled"
_BOTH = (_PLAIN, _ROOT)
_POWERS = (_PLAIN, "d_k^1/3", _ROOT, "d_k^2/3")
_WITH_LN = "d_k^1/2/0.43/ln(n_keys)"
_LOST = ("zero_weights", "wrong_gradient_rows")
_ROWS = "n_queries"  # of a draw; their number changes errors, and no expectation


class FindingError(Problem):
    """A table does not support the title of its figure."""


class Ends(NamedTuple):
    """The smallest and the largest value of an axis."""

    least: Any
    most: Any


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Title and sentence of a figure, with the predicate that its tables have to fulfil.

    Attributes:
        drawing: the sweep and the figure, `dimension/slide`.
        title: at most twelve words, without numbers.
        sentence: one sentence, with a format field for each number; `{d_k.least}` and `{d_k.most}`
            for sizes.
        values: the numbers, from the results of the sweep.
        holds: True if these results support title and sentence.
        needs: the axes and treatments that title and sentence speak of.
    """

    drawing: str
    title: str
    sentence: str
    values: Callable[[Results], Mapping[str, Any]]
    holds: Callable[[Results], bool]
    needs: Needs = field(default_factory=dict)


def lack(sweep: Sweep, needs: Needs) -> str:
    """The first reason why sentences are not about a sweep; empty if they are.

    Args:
        sweep: any sweep.
        needs: the axes and treatments that the sentences speak of. Any other axis must have one
            value: its default, if it has one.
    """
    usual = defaults(sweep.experiment.cell)
    values = {
        name: {as_json(value) for grid in sweep.grids() for value in grid[name]}
        for name in sweep.values
    }
    for name, needed in needs.items():
        if isinstance(needed, tuple):
            missing = [value for value in needed if value not in values[name]]
        else:
            missing = [needed] if values[name] != {needed} else []
        if missing:
            return f"expected {name} = {missing[0]}"
    for name in axis_names(sweep.experiment.cell):
        is_usual = name == _ROWS or name not in usual or values[name] == {as_json(usual[name])}
        if name not in needs and not (len(values[name]) == 1 and is_usual):
            return f"got {name} = {', '.join(sorted(map(str, values[name])))}"
    return ""


def told(drawing: str, results: Results) -> tuple[str, str] | None:
    """Title and sentence for a drawing; None if no finding is about it, or its sweep or tables do
    not support it.

    Args:
        drawing: the sweep, or `all-sweeps`, and the figure, as `dimension/slide`.
        results: of the sweep.
    """
    finding = BY_DRAWING.get(drawing)
    if not finding or _objection(finding, results):
        return None
    sentence = finding.sentence.format(**{**_sizes(results), **finding.values(results)})
    return finding.title, sentence.replace(" -", " −")


def dropped(results: Results) -> Iterator[str]:
    """The drawings of a sweep whose findings do not appear, each with the reason."""
    for figure in results.block.figures:
        finding = BY_DRAWING.get(f"{results.name}/{figure}")
        if finding and (reason := _objection(finding, results)):
            yield f"{finding.drawing} ({reason})"


def _objection(finding: Finding, results: Results) -> str:
    if results.sweep and (reason := lack(results.sweep, finding.needs)):
        return reason
    return "" if finding.holds(results) else "its intervals do not support it"


def _sizes(results: Results) -> dict[str, Ends]:
    """The ends of each axis."""
    return {
        name: Ends(results.measured[name].min(), results.measured[name].max())
        for name in results.axes.usual
    }


def rows_of(results: Results, kind: str = "measured", **values: Any) -> Table:
    """The rows of a table with these values of columns."""
    table = results[kind]
    for name, value in values.items():
        table = table[table[name] == value]
    return table


def value(results: Results, metric: str, kind: str = "measured", **values: Any) -> float:
    """The value of a metric in the one row with these values of columns."""
    (found,) = rows_of(results, kind, **values)[metric]
    return float(found)


def is_below(lower: Table, upper: Table, metric: str) -> bool:
    """True if the intervals of some rows lie below those of others."""
    return bool(lower[f"{metric}_high"].max() < upper[f"{metric}_low"].min())


def is_level(rows: Table, metric: str) -> bool:
    """True if the intervals of all rows lie within a tenth of each other."""
    return bool(rows[f"{metric}_high"].max() < _A_TENTH * rows[f"{metric}_low"].min())


def changes(rows: Table, metric: str) -> bool:
    """True if the intervals of two rows are more than a tenth apart."""
    return bool(rows[f"{metric}_low"].max() > _A_TENTH * rows[f"{metric}_high"].min())


def rises(rows: Table, x: str, metric: str, *, falls: bool = False) -> bool:
    """True if each interval lies above the one before along x; with `falls`, below it."""
    ordered = rows.sort_values(x, ascending=not falls)
    return len(ordered) > 1 and bool(
        (ordered[f"{metric}_low"].to_numpy()[1:] > ordered[f"{metric}_high"].to_numpy()[:-1]).all()
    )


def alone_is_level(rows: Table, metric: str) -> bool:
    """True if a metric is level under d_k^1/2, and under no other rule."""
    return all(
        is_level(of_rule, metric) if rule == "d_k^1/2" else changes(of_rule, metric)
        for rule, of_rule in rows.groupby("scaling")
    )


def _ends(results: Results, metric: str, x: str, **values: Any) -> dict[str, float]:
    """A metric at both ends of an axis, in rows with these values of columns."""
    found = rows_of(results, **values).sort_values(x)[metric]
    return {"first": found.iloc[0], "last": found.iloc[-1]}


def _at_most(results: Results, x: str, **values: Any) -> Table:
    """The rows with these values of columns and the largest value of an axis."""
    rows = rows_of(results, **values)
    return rows[rows[x] == rows[x].max()]


def _weights(results: Results, x: str) -> dict[str, float]:
    """The exact mean largest weight without a scale at both ends of an axis."""
    return _ends(results, "max_weight_exact", x, scaling=_PLAIN)


_MECHANISM = ["normalize", "softcap", "sink", "normalizer"]


def _sharpens_under_each(results: Results) -> bool:
    """True if without the scale the largest weight grows from the first to the last d_k, and
    exceeds that with it.
    """
    for _, rows in results["measured"].groupby(_MECHANISM):
        plain, scaled = (
            rows[rows["scaling"] == rule].sort_values("d_k") for rule in (_PLAIN, _ROOT)
        )
        first, last = plain.iloc[0], plain.iloc[-1]
        if last["max_weight_low"] <= _A_TENTH * first["max_weight_high"] or not all(
            is_below(scaled[scaled["d_k"] == d_k], plain[plain["d_k"] == d_k], "max_weight")
            for d_k in plain["d_k"]
        ):
            return False
    return True


def _slopes(results: Results) -> dict[str, float]:
    return dict(results["slopes"].set_index("scaling")["slope"])


def _medians_turn(results: Results) -> bool:
    rows, median = rows_of(results, scaling=_PLAIN), "query_gradient_norm_median"
    peak = rows.loc[rows[median].idxmax(), "d_k"]
    up, down = rows[rows["d_k"] <= peak], rows[rows["d_k"] >= peak]
    turns = (
        len(up) > 1 < len(down)
        and rises(up, "d_k", median)
        and rises(down, "d_k", median, falls=True)
    )
    return turns and rises(rows, "d_k", "query_gradient_norm")


def _crossings(results: Results, norm: str) -> Table:
    """Those of medians where both norms are equal, by n_keys."""
    return rows_of(results, "crossings", norm=norm, statistic="median", level=1.0).sort_values(
        "n_keys"
    )


def _entropy_shares(results: Results, rule: str, end: str = "") -> Any:
    """The entropy over ln n_keys at the largest d_k, or an end of its interval."""
    rows = _at_most(results, "d_k", scaling=rule)
    return rows[f"entropy{end}"] / np.log(rows["n_keys"])


def _distances(results: Results) -> Any:
    """The largest distance of the exact entropy share from its limit, by n_keys."""
    curves = results["curves"]
    return (
        (curves["entropy_share"] - curves["entropy_share_limit"])
        .abs()
        .groupby(curves["n_keys"])
        .max()
    )


def _over_first(results: Results, end: str = "", other_end: str = "") -> Any:
    """The largest weight of each other cell under d_k^1/2 over that of the first, of values or ends
    of intervals.
    """
    rows = rows_of(results, scaling=_ROOT)
    return rows[f"max_weight{end}"].iloc[1:] / rows[f"max_weight{other_end}"].iloc[0]


def _factors(results: Results) -> dict[str, tuple[float, float, float]]:
    """The exact largest over the smallest largest weight of uncorrelated rows by rule, with limits
    from intervals.
    """
    found = {}
    for rule, rows in rows_of(results, correlation=0).groupby("scaling"):
        weight, low, high = (rows[f"max_weight{end}"] for end in ("_exact", "_low", "_high"))
        found[str(rule)] = (
            weight.max() / weight.min(),
            low.max() / high.min(),
            high.max() / low.min(),
        )
    return found


def _mask_matters_in_short_rows(results: Results) -> bool:
    lengths = results["measured"]["n_keys"].agg(["min", "max"])
    short, long = ([rows_of(results, n_keys=n, scaling=rule) for rule in _BOTH] for n in lengths)
    sharper = all(
        is_below(rows.query("mask == 'none'"), rows.query("mask != 'none'"), "max_weight")
        for rows in short
    )
    exact = rows_of(results, scaling=_ROOT).set_index(["mask", "n_keys"])["max_weight_exact"]
    level = all(is_level(rows, "max_weight") for rows in long)
    return (
        sharper
        and changes(short[1], "max_weight")
        and level
        and bool((exact["causal"] > exact["none"]).all())
    )


def _raised_by_mask(results: Results) -> dict[str, float]:
    """The exact largest weight in the shortest rows without and with the mask, and its relative
    rise in the longest.
    """
    none, causal = (
        _ends(results, "max_weight_exact", "n_keys", scaling=_ROOT, mask=mask)
        for mask in ("none", "causal")
    )
    longest = _at_most(results, "n_keys").iloc[0]
    return {
        "none": none["first"],
        "causal": causal["first"],
        "more": causal["last"] / none["last"] - 1,
        "visible": longest["n_keys"] - longest["n_queries"] + 1,
    }


def _lost_unscaled(results: Results, end: str = "") -> Table:
    rows = _at_most(results, "d_k", scaling=_PLAIN).query("arithmetic != 'float64'")
    return rows[[f"{share}{end}" for share in _LOST]]


def _beyond(results: Results, limit: float) -> float:
    """The share of z-scores further from 0 than a limit."""
    return float((results["z_scores"]["of_own_error"].dropna().abs() > limit).mean())


def _rises_everywhere(crossings: Table) -> bool:
    return bool(crossings["crossing"].notna().all()) and rises(crossings, "n_keys", "crossing")


def _freezes_unscaled_alone(results: Results) -> bool:
    unscaled, scaled = (
        _entropy_shares(results, _PLAIN, "_high"),
        _entropy_shares(results, _ROOT, "_low"),
    )
    return bool(unscaled.max() < 0.1 and scaled.min() > 0.5)


def _band(results: Results, task: str, rule: str) -> Table:
    return rows_of(results, "bands", task=task, d_k=512, scaling=rule)


def _divided(results: Results, initial: int, rate: int, rule: str = _PLAIN) -> Table:
    """The band with (1) and without (0) each divisor."""
    divisors = {
        "initial_divisor": (_PLAIN, "d_k^1/4")[initial],
        "rate_divisor": (_PLAIN, "d_k^1/4")[rate],
    }
    return rows_of(results, "bands", scaling=rule, **divisors)


def _at_best(results: Results) -> Table:
    from experiments.analysis.bands import at_best_rates

    return at_best_rates(results.measured, results["bands"], results.axes)


def _exact_at_freezing(results: Results) -> Table:
    """The exact sum of squared weights at the freezing spread, of each n_keys in order."""
    return rows_of(results, "first_layer", ratio=1.0).sort_values("n_keys")["collision"]


def _nearest_below(results: Results) -> Table:
    """The measured first layer with the widest scores below the freezing spread, for each n_keys in
    order.
    """
    rows = rows_of(results, residual=0.0)
    ratio = (
        np.sqrt(rows["d_k"] * (1 - rows["token_cosine"]) / (2 * np.log(rows["n_keys"])))
        / rows["divisor"]
    )
    return (
        rows.assign(ratio=ratio)[ratio < 1]
        .sort_values(["n_keys", "ratio"])
        .groupby("n_keys")
        .tail(1)
    )


def _collapse_later_unscaled(results: Results) -> bool:
    """Unscaled tokens are less alike than under d_k^1/2 after one layer, and after four by three
    standard errors.
    """
    layers = results["propagation"].query("layers > 1")
    plain, root = (
        layers[layers["scaling"] == rule].set_index(["n_keys", "residual", "layer"])
        for rule in (_PLAIN, _ROOT)
    )
    apart = plain["cosine"] + 3 * plain["cosine_se"] < root["cosine"] - 3 * root["cosine_se"]
    last = plain[plain["layers"] == plain.index.get_level_values("layer")]
    return (
        all(
            is_below(rows[rows["scaling"] == _PLAIN], rows[rows["scaling"] == _ROOT], "cosine")
            for _, rows in results["measured"].groupby(["n_keys", "residual"])
        )
        and bool(apart[apart.index.get_level_values("layer") <= 4].all())
        and bool((last["cosine"] - 3 * last["cosine_se"] > 0.9).all())
    )


_ASSUMPTIONS = (
    *("inputs", "query_mean", "key_mean", "query_std", "key_std"),
    *("correlation", "spectrum", "normalize", "arithmetic"),
)
_BOTH_TASKS = {"task": ("recall", "pair"), "d_k": (512,), "learning_rate": (), "scaling": _BOTH}

FINDINGS = (
    Finding(
        drawing="dimension/variance",
        title="Only d_k^1/2 keeps the variance of scores level at every width",
        sentence="The variance of the scores goes with d_k to the power {unscaled:.2f} unscaled, "
        "{d_k^1/3:.2f} under "
        "d_k^1/3 and {d_k^2/3:.2f} under d_k^2/3, and stays level under d_k^1/2.",
        needs={"d_k": (), "scaling": _POWERS},
        values=_slopes,
        holds=lambda results: (
            alone_is_level(results["measured"], "score_variance")
            and _slopes(results)[_PLAIN]
            > _slopes(results)["d_k^1/3"]
            > 0
            > _slopes(results)["d_k^2/3"]
        ),
    ),
    Finding(
        drawing="dimension/saturation",
        title="In short rows, only d_k^1/2 keeps the largest weight almost equal",
        sentence="From d_k = {d_k.least} to {d_k.most}, the mean largest of {n_keys.most} weights "
        "rises from "
        "{first:.3f} to {last:.3f} unscaled (exact), and stays within a tenth under d_k^1/2.",
        needs={"d_k": (), "scaling": _BOTH},
        values=lambda results: _weights(results, "d_k"),
        holds=lambda results: alone_is_level(results["measured"], "max_weight"),
    ),
    Finding(
        drawing="dimension/gradients",
        title="Unscaled, the typical |dL/dq| rises, then falls with d_k; its r.m.s. rises",
        sentence="Unscaled, with {n_keys.most} keys, the median of |dL/dq| rises to {peak:.2f} "
        "and falls to "
        "{last:.3f} at d_k = {d_k.most}, where the root mean square is {mean:.2f}.",
        needs={"d_k": (), "scaling": _BOTH},
        values=lambda results: {
            "peak": rows_of(results, scaling=_PLAIN)["query_gradient_norm_median"].max(),
            "last": _at_most(results, "d_k", scaling=_PLAIN)["query_gradient_norm_median"].item(),
            "mean": _at_most(results, "d_k", scaling=_PLAIN)["query_gradient_norm_exact"].item(),
        },
        holds=_medians_turn,
    ),
    Finding(
        drawing="dimension/slide",
        title="Without sqrt(d_k), wider queries and keys sharpen attention",
        sentence="From d_k = {d_k.least} to {d_k.most}, the mean largest of {n_keys.most} weights "
        "rises from "
        "{first:.2f} to {last:.2f} without sqrt(d_k), and stays within a tenth with it.",
        needs={"d_k": (), "scaling": _BOTH},
        values=lambda results: _weights(results, "d_k"),
        holds=lambda results: (
            rises(rows_of(results, scaling=_PLAIN), "d_k", "max_weight")
            and changes(rows_of(results, scaling=_PLAIN), "max_weight")
            and is_level(rows_of(results, scaling=_ROOT), "max_weight")
        ),
    ),
    Finding(
        drawing="mechanisms/mechanisms",
        title="Under every mechanism here, unscaled wide heads have larger top weights",
        sentence="At d_k = {d_k.most}, the mean largest of {n_keys.most} weights is at least "
        "{least:.2f} without "
        "sqrt(d_k) under softmax, soft cap, sink, QK-norm and sigmoid, and at most {most:.2f} "
        "with it.",
        needs={
            "d_k": (),
            "softcap": (0, 50),
            "sink": ("0",),
            "normalize": ("none", "rms"),
            "normalizer": ("softmax", "sigmoid"),
            "scaling": _BOTH,
        },
        values=lambda results: {
            "least": _at_most(results, "d_k", scaling=_PLAIN)["max_weight"].min(),
            "most": _at_most(results, "d_k", scaling=_ROOT)["max_weight"].max(),
        },
        holds=_sharpens_under_each,
    ),
    Finding(
        drawing="powers/powers",
        title="Only d_k^1/2 keeps the largest weight almost equal at these widths",
        sentence="The mean largest of {n_keys.most} weights is {first:.2f} at d_k = {d_k.least} "
        "and {last:.2f} at "
        "{d_k.most} unscaled, and within a tenth of each other under d_k^1/2 alone.",
        needs={"d_k": (), "scaling": _POWERS},
        values=lambda results: _weights(results, "d_k"),
        holds=lambda results: alone_is_level(results["measured"], "max_weight"),
    ),
    Finding(
        drawing="length/length",
        title="Longer rows spread attention over more keys under every rule here",
        sentence="From {n_keys.least} to {n_keys.most} keys at d_k = {d_k.most}, the mean largest "
        "weight falls from "
        "{first:.2f} to {last:.2f} unscaled, and to {scaled:.3f} under d_k^1/2.",
        needs={"n_keys": (), "scaling": _BOTH},
        values=lambda results: {
            **_weights(results, "n_keys"),
            "scaled": _at_most(results, "n_keys", scaling=_ROOT)["max_weight_exact"].item(),
        },
        holds=lambda results: all(
            rises(rows, "n_keys", "entropy") and rises(rows, "n_keys", "max_weight", falls=True)
            for _, rows in results["measured"].groupby("scaling")
        ),
    ),
    Finding(
        drawing="crossing/map",
        title="Typical unscaled gradients fall below scaled ones at widths growing with n_keys",
        sentence="Unscaled, the median of |dL/dq| falls below that under d_k^1/2 at d_k = "
        "{first:.0f} with "
        "{n_keys.least} keys, and at {last:.0f} with {n_keys.most}.",
        needs={"d_k": (), "n_keys": (), "scaling": _BOTH},
        values=lambda results: {
            name: _crossings(results, "query_gradient")["crossing"].iloc[place]
            for name, place in (("first", 0), ("last", -1))
        },
        holds=lambda results: all(
            _crossings(results, norm)["crossing"].notna().all()
            and rises(_crossings(results, norm), "n_keys", "crossing")
            for norm in ("jacobian", "query_gradient")
        ),
    ),
    Finding(
        drawing="phase/phase",
        title="Unscaled, wide heads attend to few keys; under d_k^1/2, to many",
        sentence="At d_k = {d_k.most}, the mean entropy of rows of {n_keys.least} to "
        "{n_keys.most} keys is at most "
        "{few:.1%} of ln n_keys unscaled, and about {many:.0%} or more under d_k^1/2.",
        needs={"d_k": (), "n_keys": (), "scaling": _BOTH},
        values=lambda results: {
            "few": _entropy_shares(results, _PLAIN).max(),
            "many": _entropy_shares(results, _ROOT).min(),
        },
        holds=lambda results: bool(
            _entropy_shares(results, _PLAIN, "_high").max() < 0.1
            and _entropy_shares(results, _ROOT, "_low").min() > 0.5
        ),
    ),
    Finding(
        drawing="phase/freezing",
        title="The longer the rows, the more sharply they freeze",
        sentence="The exact entropy of a row, divided by ln n_keys, lies at most {first:.3f} "
        "above its limit for many "
        "keys with {n_keys.least} keys, and at most {last:.3f} with {n_keys.most} keys.",
        needs={"d_k": (), "n_keys": (), "scaling": _BOTH},
        values=lambda results: dict(
            zip(("first", "last"), _distances(results).iloc[[0, -1]], strict=True)
        ),
        holds=lambda results: bool((_distances(results).diff().dropna() < -0.01).all()),
    ),
    Finding(
        drawing="assumptions/assumptions",
        title="Some changed assumptions sharpen attention under d_k^1/2, others flatten it",
        sentence="At d_k = {d_k.most} with {n_keys.most} keys, the mean largest weight under "
        "d_k^1/2 is {least:.2f} "
        "to {most:.2f} times that of the textbook case, if one assumption changes at a time.",
        needs={**dict.fromkeys(_ASSUMPTIONS, ()), "scaling": _BOTH},
        values=lambda results: {
            "least": _over_first(results).min(),
            "most": _over_first(results).max(),
        },
        holds=lambda results: bool(
            _over_first(results, "_low", "_high").max() > _A_TENTH
            and _over_first(results, "_high", "_low").min() < 1 / _A_TENTH
        ),
    ),
    Finding(
        drawing="rules/rules",
        title=f"Of these divisors, {_WITH_LN} changes the largest weight least",
        sentence="From {n_keys.least} to {n_keys.most} keys at d_k = {d_k.most}, the exact mean "
        "largest weight of "
        f"uncorrelated rows changes by a factor of {{ln:.2f}} under {_WITH_LN} and {{root:.3g}} "
        f"under d_k^1/2; without "
        "a divisor, by {plain:.2f}.",
        needs={"n_keys": (), "correlation": (0,), "scaling": (*_BOTH, _WITH_LN)},
        values=lambda results: {
            name: _factors(results)[rule][0]
            for name, rule in (("ln", _WITH_LN), ("root", _ROOT), ("plain", _PLAIN))
        },
        holds=lambda results: all(
            low > (_A_TENTH if rule == _PLAIN else _factors(results)[_WITH_LN][2])
            for rule, (_, low, _) in _factors(results).items()
            if rule != _WITH_LN
        ),
    ),
    Finding(
        drawing="correlation/correlation",
        title="Strongly correlated queries and keys need a higher power of d_k here",
        sentence="The power of d_k that keeps the largest of {n_keys.most} weights from d_k = 256 "
        "to 1024 is "
        "{none:.2f} without correlation, {some:.2f} at a correlation of 0.1, and {half:.2f} at "
        "0.5.",
        needs={"d_k": (256, 1024), "correlation": (0, 0.1, 0.5), "scaling": (_ROOT,)},
        values=lambda results: {
            name: value(results, "power", "steady", correlation=strength, from_d_k=256)
            for name, strength in (("none", 0), ("some", 0.1), ("half", 0.5))
        },
        holds=lambda results: is_below(
            rows_of(results, "steady", correlation=0),
            results["steady"].query("correlation >= 0.2"),
            "power",
        ),
    ),
    Finding(
        drawing="causal/causal",
        title="A causal mask sharpens short rows and hardly changes long ones",
        sentence="Under d_k^1/2, the mask raises the exact mean largest weight from {none:.2f} to "
        "{causal:.2f} "
        "in rows of up to {n_keys.least} keys, and by {more:.0%} in rows of {visible} to "
        "{n_keys.most}.",
        needs={"n_keys": (), "mask": ("none", "causal"), "scaling": _BOTH},
        values=_raised_by_mask,
        holds=_mask_matters_in_short_rows,
    ),
    Finding(
        drawing="initialisation/initialisation",
        title="Most schemes meant for d_k^1/2 keep score variance in wider models",
        sentence="From d_model = {d_model.least} to {d_model.most}, the variance of the scores "
        "under d_k^1/2 stays "
        "within a tenth for xavier, xavier_packed and kaiming, and grows from {first:.2f} to "
        "{last:.2f} for gpt2.",
        needs={
            "d_model": (),
            "scheme": ("gpt2", "xavier", "xavier_packed", "kaiming"),
            "scaling": (_ROOT,),
        },
        values=lambda results: _ends(
            results, "score_variance", "d_model", scaling=_ROOT, scheme="gpt2"
        ),
        holds=lambda results: (
            all(
                is_level(rows_of(results, scaling=_ROOT, scheme=name), "score_variance")
                for name in ("xavier", "xavier_packed", "kaiming")
            )
            and rises(rows_of(results, scaling=_ROOT, scheme="gpt2"), "d_model", "score_variance")
        ),
    ),
    Finding(
        drawing="depth/first_layer",
        title="At the limit's critical spread, rows of real lengths are already concentrated",
        sentence="At β_c, the exact sum of squared weights is {first:.2f} with {n_keys.least} "
        "keys and {last:.2f} "
        "with {n_keys.most}, where the limit for many keys has 0.",
        needs={"n_keys": (), "token_cosine": (), "scaling": (_PLAIN,)},
        values=lambda results: dict(
            zip(("first", "last"), _exact_at_freezing(results).iloc[[0, -1]], strict=True)
        ),
        holds=lambda results: bool(
            (_nearest_below(results)["collision_low"] > 0.05).all()
            and (_nearest_below(results)["cosine_high"] < 0.9).all()
            and min(_exact_at_freezing(results)) > 0.2
        ),
    ),
    Finding(
        drawing="collapse/propagation",
        title="Without a residual stream, unscaled tokens still become alike, but later",
        sentence="With 64 tokens of cosine {token_cosine.most} and no residual stream, the mean "
        "cosine after one layer "
        "is {root:.2f} under d_k^1/2 and {plain:.2f} unscaled; after four layers, it is "
        "{late:.2f} unscaled, and "
        "{stream:.2f} with a residual stream.",
        needs={
            "n_keys": (64,),
            "token_cosine": (),
            "layers": (),
            "residual": (0, 1),
            "scaling": _BOTH,
        },
        values=lambda results: {
            name: value(
                results,
                "cosine",
                "propagation",
                n_keys=64,
                layer=layer,
                residual=residual,
                scaling=rule,
            )
            for name, rule, layer, residual in (
                ("root", _ROOT, 1, 0),
                ("plain", _PLAIN, 1, 0),
                ("late", _PLAIN, 4, 0),
                ("stream", _PLAIN, 4, 1),
            )
        },
        holds=_collapse_later_unscaled,
    ),
    Finding(
        drawing="precision/formats",
        title="Rounding loses more weights and gradients unscaled than under d_k^1/2",
        sentence="Unscaled at d_k = {d_k.most}, with 16 or 256 keys, in float32, bfloat16 and "
        "float16, at least "
        "{zero_weights:.0%} of the weights are 0, and at least {wrong_gradient_rows:.0%} of the "
        "gradients wrong by "
        "more than half of their length; under d_k^1/2, none are.",
        needs={
            "d_k": (),
            "n_keys": (16, 256),
            "arithmetic": ("float32", "bfloat16", "float16"),
            "scaling": _BOTH,
        },
        values=lambda results: dict(_lost_unscaled(results).min()),
        holds=lambda results: bool(
            (_lost_unscaled(results, "_low") > 0).all(axis=None)
            and (rows_of(results, scaling=_ROOT)[[*_LOST]] == 0).all(axis=None)
        ),
    ),
    Finding(
        drawing="training/learning_rates",
        title="The widest layers accept more learning rates under d_k^1/2 than unscaled",
        sentence="At d_k = 512, the learning rates that solve recall span {plain:.1f} decades "
        "unscaled and {root:.1f} "
        "under d_k^1/2.",
        needs=_BOTH_TASKS,
        values=lambda results: {
            name: _band(results, "recall", rule)["band_decades"].iloc[0]
            for name, rule in (("plain", _PLAIN), ("root", _ROOT))
        },
        holds=lambda results: all(
            is_below(_band(results, task, _PLAIN), _band(results, task, _ROOT), "band_decades")
            for task in ("recall", "pair")
        ),
    ),
    Finding(
        drawing="training/steps_to_solve",
        title="From equal initial weights, the widest layers need more steps unscaled",
        sentence="At d_k = 512, the median run solves recall in {plain:g} steps unscaled and "
        "{root:g} under d_k^1/2, "
        "and pair in {pair:g} under d_k^1/2 but not unscaled.",
        needs=_BOTH_TASKS,
        values=lambda results: {
            name: _band(results, task, rule)["steps_to_solve"].iloc[0]
            for name, task, rule in (
                ("plain", "recall", _PLAIN),
                ("root", "recall", _ROOT),
                ("pair", "pair", _ROOT),
            )
        },
        holds=lambda results: bool(  # a rule that never solves a task needs more than all steps
            is_below(
                _band(results, "recall", _ROOT), _band(results, "recall", _PLAIN), "steps_to_solve"
            )
            and _band(results, "pair", _PLAIN)["band_from"].isna().all()
            and _band(results, "pair", _ROOT)["steps_to_solve_high"].notna().all()
        ),
    ),
    Finding(
        drawing="training/learning_curves",
        title="Before training, the widest unscaled layers are almost one-hot",
        sentence="At d_k = {d_k.most}, the mean largest weight before training is {plain:.2f} "
        "unscaled and {root:.2f} "
        "under d_k^1/2.",
        needs={"task": ("recall",), "d_k": (), "learning_rate": (), "steps": (), "scaling": _BOTH},
        values=lambda results: {
            name: _at_most(results, "d_k", scaling=rule, task="recall")["max_weight_before"].mean()
            for name, rule in (("plain", _PLAIN), ("root", _ROOT))
        },
        holds=lambda results: bool(
            _at_most(results, "d_k", scaling=_PLAIN)["max_weight_before_low"].min() > 0.9
            and _at_most(results, "d_k", scaling=_ROOT)["max_weight_before_high"].max() < 0.5
        ),
    ),
    Finding(
        drawing="training/variance_ratio",
        title="Training spreads scores beyond those of independent entries",
        sentence="The variance of the scores within rows is at most {before:.2f} times that of "
        "independent entries of "
        "q and k before training, and {least:.1f} to {most:.0f} times after it, at the best rates.",
        needs=_BOTH_TASKS,
        values=lambda results: {
            name: _at_best(results)[f"variance_ratio_{when}"].agg(end)
            for name, when, end in (
                ("before", "before", "max"),
                ("least", "after", "min"),
                ("most", "after", "max"),
            )
        },
        holds=lambda results: bool(
            _at_best(results)
            .eval("variance_ratio_after_low > variance_ratio_before_high.clip(lower=1)")
            .all()
        ),
    ),
    Finding(
        drawing="control/divisors",
        title="Unscaled, pair is learned in time only from a smaller start",
        sentence="No unscaled run solves pair unless W_Q and W_K start at 1/d_k^1/4 of their "
        "size. Then, at the better "
        "rate, the median takes {start:g} steps, or {both:g} with their rate divided by d_k^1/4 "
        "too, and {root:g} "
        "under d_k^1/2.",
        needs={
            "task": "pair",
            "learning_rate": (),
            "steps": (),
            "initial_divisor": (_PLAIN, "d_k^1/4"),
            "rate_divisor": (_PLAIN, "d_k^1/4"),
            "scaling": _BOTH,
        },
        values=lambda results: {
            name: _divided(results, *case)["steps_to_solve"].iloc[0]
            for name, case in (("start", (1, 0)), ("both", (1, 1)), ("root", (0, 0, _ROOT)))
        },
        holds=lambda results: bool(
            all(_divided(results, 0, rate)["solved_high"].max() < 0.5 for rate in (0, 1))
            and rows_of(results, scaling=_PLAIN, initial_divisor=_PLAIN)["solved"].max() == 0
            and is_below(_divided(results, 1, 1), _divided(results, 1, 0), "steps_to_solve")
            and is_below(_divided(results, 0, 0, _ROOT), _divided(results, 1, 0), "steps_to_solve")
        ),
    ),
    Finding(
        drawing="dot_products/distribution",
        title="Scores have heavier tails than normal ones, less so in wide heads",
        sentence="The excess kurtosis of a score is {first:.2f} at d_k = {d_k.least} and "
        "{last:.3f} at {d_k.most}; a "
        "normal one has 0.",
        needs={"d_k": ()},
        values=lambda results: _ends(results, "score_kurtosis", "d_k"),
        holds=lambda results: (
            rises(results["measured"], "d_k", "score_kurtosis", falls=True)
            and bool((results["measured"]["score_kurtosis_low"] > 0).all())
        ),
    ),
    Finding(
        drawing=f"{ALL_SWEEPS}/calibration",
        title="Measured values deviate from exact ones as their errors predict",
        sentence="Of {count} z-scores of measured against exact values, {wide:.1%} lie beyond "
        "±1.96, where N(0, 1) "
        "has 5.0%.",
        values=lambda results: {
            "count": len(results["z_scores"]["of_own_error"].dropna()),
            "wide": _beyond(results, 1.96),
        },
        # The values of a cell depend on each other, so that honest shares vary, but by less than a
        # half.
        holds=lambda results: (
            not results["agreement"]["disagrees"].any()
            and all(
                2 / 3 < _beyond(results, z) / share < 3 / 2
                for z, share in ((1.96, 0.05), (2.58, 0.01))
            )
        ),
    ),
)

BY_DRAWING: Mapping[str, Finding] = {finding.drawing: finding for finding in FINDINGS}
