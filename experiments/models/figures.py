"""The figures of `make model`, and what they show."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from experiments.declarations.figure import Finding
from experiments.declarations.tables import BOTH, Numbers, Tables, rows_of
from experiments.diagnosis.picture import CLOSE, plot_heads, render_heads
from experiments.diagnosis.table import read_diagnosis
from experiments.figures.findings import FindingError
from experiments.figures.rendering import render
from experiments.figures.style import INK, Drawing, panels, scaling_colours
from experiments.models.declared import MINILM, SMOLLM2
from experiments.models.heads import CONTROLS, GROUPS, control, law, row_lengths
from experiments.models.model import Case, Model
from experiments.models.smollm2 import DIVISOR
from experiments.paths import DIAGNOSIS_FIGURE, DIAGNOSIS_TABLE, model_path
from sdpa.heads.table import Curve

# Half the width of a 95% interval over the standard error, between as many groups.
REACH = float(stats.t.isf(0.025, GROUPS - 1))
_SHARP = 2  # a spread
_STAGES = {"initial": "at the start", "trained": "after training"}
UNSCALED, USED = (scaling_colours(())[rule] for rule in BOTH)


def read_model(results: Path, model: Model) -> dict[str, pd.DataFrame]:
    """The shipped tables of a model by name."""
    folder = model_path(results, model.name, "")
    return {path.stem: pd.read_csv(path) for path in sorted(folder.glob("*.csv"))}


def rows_of_case(tables: Tables, case: Case) -> pd.DataFrame:
    """The heads of a case."""
    at = {"weights": case.weights, "text": case.text, "n_keys": case.n_keys}
    return rows_of(tables, "by-head", **at)


def counts(found: pd.DataFrame) -> dict[str, int]:
    """How many heads follow which law, with and without the first key."""
    distance, rest = found["entropy_share_distance"], found["rest_distance"]
    near, is_sharp = rest.abs() < CLOSE, found["rest_spread"] > _SHARP
    others = found[[f"rest_distance_{name}" for name in CONTROLS]].abs() < CLOSE
    surely = rest.abs() + REACH * found["rest_distance_se"] < CLOSE
    return {
        "heads": len(found),
        "near": (distance.abs() < CLOSE).sum(),
        "below": (distance < -CLOSE).sum(),
        "above": (distance > CLOSE).sum(),
        "rest": near.sum(),
        "rest_below": (rest < -CLOSE).sum(),
        "rest_above": (rest > CLOSE).sum(),
        **{name: others[f"rest_distance_{name}"].sum() for name in CONTROLS},
        "alone": (near & ~others.any(axis=1)).sum(),
        "sharp": is_sharp.sum(),
        "sharp_near": (near & is_sharp).sum(),
        "surely": surely.sum(),
        "led": (found["first_key_weight"] > 0.5).sum(),
    }


def _of_minilm(tables: Tables) -> Numbers:
    """None unless intervals put more heads near Gaussian rows, without the first key, than are near
    any other law.
    """
    found = counts(rows_of_case(tables, MINILM.cases[0]))
    longest = rows_of_case(tables, Case(512))
    holds = found["surely"] > max(found[name] for name in ("near", *CONTROLS))
    found["long"] = (longest["entropy_share_distance"] > CLOSE).sum()
    return found if holds else None


def _of_smollm2(tables: Tables) -> Numbers:
    """None unless intervals put more heads near Gaussian rows without the first key than are near
    them with it.
    """
    found = counts(rows_of_case(tables, SMOLLM2.cases[0]))
    return found if found["surely"] > found["near"] else None


def _of_divisors(tables: Tables) -> Numbers:
    """None unless intervals put the smallest loss of prose within 15% of sqrt(d_k), and the gradient
    without a scale above ten times that with it, and unless shuffled tokens lose least beyond 10.
    """
    smallest = tables["smallest-loss"].set_index("text")
    in_order = smallest["divisor"].drop("shuffled")
    ratio, _ = _ratios(rows_of(tables, "by-divisor", weights="trained"), "query_gradient")
    medians = rows_of(tables, "by-divisor-head", weights="trained").pivot_table(
        index=["layer", "head"], columns="divisor", values="query_gradient_median"
    )
    divisor, reach = smallest.loc["prose", "divisor"], REACH * smallest.loc["prose", "divisor_se"]
    is_near = abs(divisor - DIVISOR) + reach < 0.15 * DIVISOR
    far = rows_of(tables, "by-text", text="shuffled", divisor=10).iloc[0]
    is_far = np.isnan(smallest.loc["shuffled", "divisor"])
    is_far &= far["change"] + REACH * far["change_se"] < 0
    if not (is_near and is_far and ratio > 10):
        return None
    return {
        "divisor": divisor,
        "reach": reach,
        "least": in_order.min(),
        "most": in_order.max(),
        "ratio": _power_of_ten(ratio),
        "smaller": (medians[1] < medians[DIVISOR]).sum(),
        "heads": len(medians),
    }


def interval(rows: pd.DataFrame, name: str) -> tuple["pd.Series[float]", "pd.Series[float]"]:
    """The ends of the 95% intervals of geometric means."""
    factor = np.exp(REACH * rows[f"{name}_se"] / rows[name])
    return rows[name] / factor, rows[name] * factor


def _of_layers(tables: Tables) -> Numbers:
    """None unless intervals put the ratio of the gradients at the embedding, without a scale to with
    it, above 10 at the start and higher after training.
    """
    start, trained = (
        _ratios(rows_of(tables, "by-divisor", weights=weights), "stream_gradient")
        for weights in _STAGES
    )
    found = {"low": start[0], "high": start[1], "trained": _power_of_ten(trained[0])}
    return found if start[0] > 10 and trained[0] > start[1] else None


def _ratios(runs: pd.DataFrame, name: str) -> tuple[float, float]:
    """Bounds of a gradient without a scale over that under sqrt(d_k), from the ends of intervals."""
    ends = interval(runs.set_index("divisor"), name)
    low, high = (end[1] for end in ends)
    used_low, used_high = (end[DIVISOR] for end in ends)
    return low / used_high, high / used_low


def _power_of_ten(number: float) -> int:
    """The largest power of ten up to a number of 1 or more."""
    return int(10 ** np.floor(np.log10(number)))


FINDINGS = {
    "minilm": Finding(
        title="Without [CLS], more heads follow Gaussian rows than other laws",
        sentence="With 128 tokens of prose and without the first key, the token [CLS], the entropy "
        "share of {rest} of {heads} heads is within 0.05 of that of Gaussian rows of the same "
        "spread; of logistic, uniform and Laplace rows, {logistic}, {uniform} and {laplace} are, "
        "so that {alone} heads agree with the Gaussian law alone. Of the {sharp} heads with a "
        "spread above 2, {sharp_near} agree with it. With the first key, {near} are within 0.05, "
        "{below} are lower and {above} higher; with 512 tokens, {long} are higher.",
        numbers=_of_minilm,
    ),
    "smollm2": Finding(
        title="Without their first key, more heads follow Gaussian rows",
        sentence="With 256 tokens of prose, the entropy share of {near} of {heads} heads is within "
        "0.05 of that of Gaussian rows that all have the same spread; {below} are lower and "
        "{above} higher. Without the first key, {rest} are within 0.05, {rest_below} lower and "
        "{rest_above} higher; {logistic}, {uniform} and {laplace} are within 0.05 of logistic, "
        "uniform and Laplace rows, and {alone} agree with the Gaussian law alone. Of the {sharp} "
        "heads with a spread above 2, {sharp_near} agree with it. {led} heads give the first key "
        "more than half of their weight.",
        numbers=_of_smollm2,
    ),
    "divisors": Finding(
        title="SmolLM2 loses least near its √d_k; with smaller divisors, gradients explode",
        sentence="The loss on prose is smallest at a divisor of {divisor:.2f} ± {reach:.2f}, where "
        "√d_k is 8; on four texts, at {least:.2f} to {most:.2f}; with shuffled tokens, beyond 10. "
        "Without the scale, the r.m.s. of |dL/dq| is more than {ratio:,} times as large, and the "
        "median is smaller in {smaller} of {heads} heads.",
        numbers=_of_divisors,
    ),
    "layers": Finding(
        title="Unscaled, gradients explode, most of all after training",
        sentence="Without the scale, the gradient at the embedding is {low:.0f} to {high:.0f} times "
        "that under √d_k at the start (one draw of weights), and more than {trained:,} times after "
        "training.",
        numbers=_of_layers,
    ),
}


def _picture(
    name: str, draw: Callable[[Tables], Drawing], about: str, model: Model, results: Path
) -> list[bytes]:
    """The files of a slide, PNG and text.

    Raises:
        FindingError: the tables do not support its title.
    """
    tables, finding = read_model(results, model), FINDINGS[name]
    numbers = finding.numbers(tables)
    if numbers is None:
        raise FindingError(f"the tables of {model.title} do not support: {finding.title}")
    caption = f"{finding.sentence.format(**numbers)} {model.title}, {about}"
    return [*render(lambda: draw(tables), finding.title, caption, is_slide=True).values()]


def _draw_heads(model: Model, tables: Tables) -> Drawing:
    """Heads over the curves of four laws of scores, with their first key and without it."""
    case = model.cases[0]
    found = rows_of_case(tables, case)
    figure, axes = panels(2, 2, (15, 6.2), sharey=True)
    spread = np.geomspace(0.2, 10, 60)
    for ax, part in zip(axes, ("", "rest_"), strict=True):
        lengths = row_lengths(case.n_keys - bool(part), model.mask)
        points = found[["layer", "head"]].assign(
            row_variance=found[f"{part}spread"] ** 2, entropy_share=found[f"{part}entropy_share"]
        )
        curve = Curve(case.n_keys, spread, law(spread, lengths))
        plot_heads(ax, points, [curve], size=40)
        ax.set_title("without the first key" if part else "all keys; dark to light: layers")
        ax.set_xlabel("standard deviation of the scaled scores in a row")
    for name, dashes in zip(CONTROLS, ("--", "-.", ":"), strict=True):
        look = {"color": INK, "linewidth": 1.5, "label": f"{name.capitalize()} rows"}
        axes[1].plot(spread, control(name, spread, lengths), dashes, **look)
    axes[0].set_ylabel("entropy / ln n")
    axes[1].legend(loc="lower left", fontsize=13)
    return figure


def _draw_divisors(tables: Tables) -> Drawing:
    """Left the loss over the divisor, with intervals of its change; right the gradient to a query."""
    runs = rows_of(tables, "by-divisor", weights="trained")
    near = rows_of(tables, "by-text", text="prose")
    losses = pd.concat([runs, near]).drop_duplicates("divisor").sort_values("divisor")
    figure, [left, right] = panels(2, 2, (14, 6))
    reach = REACH * losses["change_se"]
    left.errorbar(losses["divisor"], losses["loss"], reach, fmt="o-", color=INK)
    left.set_title("loss per token (nats), no weight changed")
    _gradient(right, runs, "divisor", "query_gradient", "r.m.s. over tokens and heads", UNSCALED)
    _gradient(
        right, runs, "divisor", "query_gradient_median", "median token of the median head", USED
    )
    right.set_title("gradient to a query, |dL/dq|")
    right.legend(frameon=True, framealpha=1, edgecolor="white")
    for ax in (left, right):
        ax.axvline(DIVISOR, color=INK, linestyle=":", linewidth=1.5)
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_xlabel("divisor of the scores; dotted: √d_k")
    return figure


def _draw_layers(tables: Tables) -> Drawing:
    """The gradient to the stream before each layer, at the start and after training."""
    figure, axes = panels(2, 2, (14, 6), sharey=True)
    for ax, (weights, title) in zip(axes, _STAGES.items(), strict=True):
        found = rows_of(tables, "by-divisor-layer", weights=weights)
        for divisor, colour, label in ((1, UNSCALED, "unscaled"), (DIVISOR, USED, "√d_k")):
            rows = found[found["divisor"] == divisor]
            _gradient(ax, rows, "layer", "stream_gradient", label, colour)
        ax.set_title(title)
        ax.set_xlabel("layer")
    axes[0].set_ylabel("gradient to the stream before a layer")
    axes[0].legend()
    return figure


def _gradient(ax: Axes, rows: pd.DataFrame, x: str, name: str, label: str, colour: Any) -> None:
    """A gradient over x with 95% intervals, on a logarithmic axis."""
    low, high = interval(rows, name)
    reach = [rows[name] - low, high - rows[name]]
    ax.errorbar(rows[x], rows[name], reach, fmt="o-", color=colour, label=label)
    ax.set_yscale("log")


def _table_of_heads(results: Path) -> list[bytes]:
    table = read_diagnosis(model_path(results, MINILM.name, DIAGNOSIS_TABLE))
    return [*render_heads(table).values()]


_PROSE = "8 sequences of 256 tokens of prose. Bars: 95% intervals, of losses that of the change from √d_k."
FIGURES: dict[str, dict[str, Callable[[Path], list[bytes]]]] = {
    MINILM.name: {
        DIAGNOSIS_FIGURE: _table_of_heads,
        "slide": partial(
            _picture,
            "minilm",
            partial(_draw_heads, MINILM),
            "16 sequences; spread: standard deviation of the scaled scores in a row.",
            MINILM,
        ),
    },
    SMOLLM2.name: {
        "slide": partial(
            _picture, "smollm2", partial(_draw_heads, SMOLLM2), "8 sequences.", SMOLLM2
        ),
        "divisors": partial(_picture, "divisors", _draw_divisors, _PROSE, SMOLLM2),
        "layers": partial(_picture, "layers", _draw_layers, _PROSE, SMOLLM2),
    },
}
