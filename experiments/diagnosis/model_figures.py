"""The figure of `make model`, and what it shows."""

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from experiments.diagnosis.model import GROUPS, LENGTH, SEQUENCES, read_model
from experiments.diagnosis.picture import CLOSE, plot_heads
from experiments.diagnosis.table import gaussian_curves, read_diagnosis
from experiments.figures.figure import Drawing, Tables
from experiments.figures.findings import Finding, FindingError, rows_of
from experiments.figures.rendering import render
from experiments.figures.style import INK
from experiments.run.paths import DIAGNOSIS_TABLE, diagnosis_path

REACH = float(stats.t.isf(0.025, GROUPS - 1))  # half the width of a 95% interval over the standard error


def heads(tables: Tables, weights: str = "trained", text: str = "prose", n_keys: int = LENGTH) -> pd.DataFrame:
    """The heads of a case."""
    return rows_of(tables, "heads", weights=weights, text=text, n_keys=n_keys)


def _numbers(tables: Tables) -> dict[str, Any]:
    found, distance = heads(tables), heads(tables)["entropy_share_distance"]
    return {
        "heads": len(found),
        "near": (distance.abs() < CLOSE).sum(),
        "below": (distance < -CLOSE).sum(),
        "above": (distance > CLOSE).sum(),
        "rest": (found["rest_distance"].abs() < CLOSE).sum(),
        "long": (heads(tables, n_keys=512)["entropy_share_distance"] > CLOSE).sum(),
    }


def _holds(tables: Tables) -> bool:
    """True if intervals put at most 5% of the heads above the curve, and follow more of them without the first key."""
    found, count = heads(tables), _numbers(tables)
    above = found["entropy_share_distance"] + REACH * found["entropy_share_distance_se"] > CLOSE
    rest = found["rest_distance"].abs() + REACH * found["rest_distance_se"] < CLOSE
    return bool(above.mean() <= 0.05 and rest.sum() > count["near"] and count["below"] > count["heads"] / 4)


FINDING = Finding(
    drawing="minilm/slide",
    title="At 128 tokens, few heads are flatter than Gaussian rows",
    sentence="With 128 tokens of prose, the entropy share of {near} of {heads} heads is within 0.05 of that of "
    "Gaussian rows of the same spread, that of {below} lower and of {above} higher. Without the first key, the token "
    "[CLS], {rest} are within 0.05. With 512 tokens, {long} are higher.",
    values=_numbers,
    holds=_holds,
)


def slide(results: Path) -> list[bytes]:
    """The files of the slide of the shipped tables, PNG and text.

    Raises:
        FindingError: the tables do not support its title.
    """
    tables = read_model(results)
    if not FINDING.holds(tables):
        raise FindingError(f"the tables of the pretrained model do not support: {FINDING.title}")
    trained = read_diagnosis(diagnosis_path(results, DIAGNOSIS_TABLE))
    about = f"all-MiniLM-L6-v2, {SEQUENCES} sequences; spread: standard deviation of the scaled scores in a row."
    caption = f"{FINDING.sentence.format(**FINDING.values(tables))} {about}"
    return [*render(lambda: _draw(tables, trained), FINDING.title, caption, is_slide=True).values()]


def _draw(tables: Tables, trained: pd.DataFrame) -> Drawing:
    """Trained heads over the exact curve as in the figure of a diagnosis, and untrained heads as hollow points."""
    figure = Figure(figsize=(10, 6), layout="constrained")
    ax = figure.subplots()
    initial = heads(tables, "initial")
    untrained = trained.assign(row_variance=initial["spread"].to_numpy() ** 2)
    plot_heads(ax, trained, gaussian_curves(pd.concat([untrained, trained])), size=70)
    ax.scatter(initial["spread"], initial["entropy_share"], 70, "none", edgecolors=INK, label="before training")
    ax.set(xlabel="standard deviation of the scaled scores in a row", ylabel="entropy / ln n", title="")
    ax.legend(loc="lower left", fontsize=14)
    return figure
