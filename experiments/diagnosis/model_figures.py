"""The figure of `make model`, and what it shows."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from experiments.declarations.figure import Finding
from experiments.declarations.tables import Numbers, Tables, rows_of
from experiments.diagnosis.model import (
    CONTROLS,
    GROUPS,
    LENGTH,
    SEQUENCES,
    control,
    law,
    read_model,
)
from experiments.diagnosis.picture import CLOSE, plot_heads
from experiments.figures.findings import FindingError
from experiments.figures.rendering import render
from experiments.figures.style import INK, Drawing

# Half the width of a 95% interval over the standard error.
REACH = float(stats.t.isf(0.025, GROUPS - 1))


def heads(
    tables: Tables, weights: str = "trained", text: str = "prose", n_keys: int = LENGTH
) -> pd.DataFrame:
    """The heads of a case."""
    return rows_of(tables, "heads", weights=weights, text=text, n_keys=n_keys)


def _numbers(tables: Tables) -> Numbers:
    """None unless intervals put more heads near Gaussian rows, without the first key, than are near
    any other law.
    """
    found, distance = heads(tables), heads(tables)["entropy_share_distance"]
    near, is_sharp = found["rest_distance"].abs() < CLOSE, found["rest_spread"] > 2
    others = found[[f"rest_distance_{name}" for name in CONTROLS]].abs() < CLOSE
    counts = {
        "heads": len(found),
        "near": (distance.abs() < CLOSE).sum(),
        "below": (distance < -CLOSE).sum(),
        "above": (distance > CLOSE).sum(),
        "rest": near.sum(),
        **{name: others[f"rest_distance_{name}"].sum() for name in CONTROLS},
        "alone": (near & ~others.any(axis=1)).sum(),
        "sharp": is_sharp.sum(),
        "sharp_near": (near & is_sharp).sum(),
        "long": (heads(tables, n_keys=512)["entropy_share_distance"] > CLOSE).sum(),
    }
    surely = found["rest_distance"].abs() + REACH * found["rest_distance_se"] < CLOSE
    holds = surely.sum() > max(counts[name] for name in ("near", *CONTROLS))
    return counts if holds else None


FINDING = Finding(
    title="Without [CLS], more heads follow Gaussian rows than other laws",
    sentence="With 128 tokens of prose and without the first key, the token [CLS], the entropy "
    "share of {rest} of "
    "{heads} heads is within 0.05 of that of Gaussian rows of the same spread; of logistic, "
    "uniform and Laplace rows, "
    "{logistic}, {uniform} and {laplace} are, so that {alone} heads agree with the Gaussian law "
    "alone. Of the {sharp} "
    "heads with a spread above 2, {sharp_near} agree with it. With the first key, {near} are "
    "within 0.05, {below} are "
    "lower and {above} higher; with 512 tokens, {long} are higher.",
    numbers=_numbers,
)


def slide(results: Path) -> list[bytes]:
    """The files of the slide of the shipped tables, PNG and text.

    Raises:
        FindingError: the tables do not support its title.
    """
    tables = read_model(results)
    numbers = _numbers(tables)
    if numbers is None:
        raise FindingError(f"the tables of the pretrained model do not support: {FINDING.title}")
    about = (
        f"all-MiniLM-L6-v2, {SEQUENCES} sequences; spread: standard deviation of the scaled "
        f"scores in a row."
    )
    caption = f"{FINDING.sentence.format(**numbers)} {about}"
    return [*render(lambda: _draw(tables), FINDING.title, caption, is_slide=True).values()]


def _draw(tables: Tables) -> Drawing:
    """Heads without their first key, over the curves of four laws of scores."""
    figure = Figure(figsize=(10, 6), layout="constrained")
    ax = figure.subplots()
    found, n_keys = heads(tables), LENGTH - 1
    points = found[["layer", "head"]].assign(
        row_variance=found["rest_spread"] ** 2, entropy_share=found["rest_entropy_share"]
    )
    spread = np.geomspace(0.2, 10, 60)
    share = law("entropy_share", spread, n_keys)
    gaussian = pd.DataFrame({"n_keys": n_keys, "spread": spread, "entropy_share": share})
    plot_heads(ax, points, gaussian, size=70)
    for name, dashes in zip(CONTROLS, ("--", "-.", ":"), strict=True):
        curve, label = control(name, spread, n_keys), f"{name.capitalize()} rows"
        ax.plot(spread, curve, dashes, color=INK, linewidth=1.5, label=label)
    ax.set_title("")
    ax.set_xlabel("standard deviation of the scaled scores in a row, without [CLS]")
    ax.set_ylabel("entropy / ln n")
    ax.legend(loc="lower left", fontsize=13)
    return figure
