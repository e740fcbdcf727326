"""What the tables of `make model` show: its figure, and statements written by people and checked by the tables."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from experiments.diagnosis.minilm import HEADS, LAYERS
from experiments.diagnosis.model import GROUPS, LENGTH, LENGTHS, SEQUENCES, law, read_model
from experiments.figures.figure import Drawing, Tables
from experiments.figures.findings import FindingError, rows_of
from experiments.figures.rendering import render
from experiments.figures.style import INK, ordered_colours

REACH = float(stats.t.isf(0.025, GROUPS - 1))  # half the width of a 95% interval over the standard error
_CLOSE = 0.05  # entropy shares that differ by less are called equal
_SPREADS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20)


class Statement(NamedTuple):
    """What the tables show."""

    name: str
    title: str
    sentence: str  # with a format field for each number
    holds: Callable[[Mapping[str, Any]], bool]  # true of the numbers if the tables support title and sentence


STATEMENTS = (
    Statement(
        "slide",
        "Trained heads follow the exact curve, or are sharper than it",
        "With 128 tokens of prose, the entropy share of {near} of {heads} heads is within 0.05 of that of Gaussian "
        "rows of the same spread, that of {below} lower and of {above} higher. Without the first key, the token [CLS], "
        "{rest} are within 0.05. With 512 tokens, {above_512} are higher.",
        lambda n: n["maybe_above"] <= n["heads"] / 20 and n["surely_rest"] > n["near"] and n["below"] > n["heads"] / 4,
    ),
    Statement(
        "lengths",
        "Longer rows raise entropy shares and relieve the first key",
        "From 16 to 512 tokens, the mean entropy share of heads rises from {short:.2f} to {long:.2f}, and the mean "
        "weight of the first key falls from {short_first:.2f} to {long_first:.2f}; the share of Gaussian rows of the "
        "same spreads goes from {short_law:.2f} to {long_law:.2f}.",
        lambda n: n["rises"] and n["first_falls"],
    ),
    Statement(
        "texts",
        "The order of tokens changes the entropy of most heads little",
        "Shuffling all tokens of the prose changes the entropy share of a head by {moved:.3f} on average, and by more "
        "than 0.05 in {moved_heads} of {heads} heads.",
        lambda n: n["moved"] < _CLOSE / 2 and n["moved_heads"] < n["heads"] / 10,
    ),
    Statement(
        "gradients",
        "Most heads have the softmax Jacobian of Gaussian rows",
        "The median of |J|_F is 0.8 to 1.25 times that of Gaussian rows of the same spread in {like} of {heads} heads; "
        "{frozen} heads have a spread above (2 ln n)^(1/2), where rows freeze.",
        lambda n: n["like"] > 0.6 * n["heads"] and n["frozen"] < 0.2 * n["heads"],
    ),
    Statement(
        "scales",
        "Without the scale, the recorded scores freeze; under d_k^1, they flatten",
        "Without the scale, {unscaled_frozen:.0f} of {heads} heads are beyond that spread; under d_k^1, the mean "
        "entropy share of every layer is above 0.95.",
        lambda n: n["unscaled_frozen"] > 0.95 * n["heads"] and n["surely_flat"] > 0.95,
    ),
)


def statements(tables: Tables) -> dict[str, tuple[str, str]]:
    """Title and sentence by name.

    Raises:
        FindingError: the tables do not support one.
    """
    found = _numbers(tables)
    if failed := [one.title for one in STATEMENTS if not one.holds(found)]:
        raise FindingError(f"the tables of the pretrained model do not support: {'; '.join(failed)}")
    return {one.name: (one.title, one.sentence.format(**found)) for one in STATEMENTS}


def _numbers(tables: Tables) -> dict[str, Any]:
    """The numbers of all statements; `surely` and `maybe` by 95% intervals."""
    heads, shuffled = (_heads(tables, text=text).reset_index() for text in ("prose", "shuffled"))
    short, long, unscaled, wide = (
        _layers(tables, **case)
        for case in ({"n_keys": LENGTHS[0]}, {"n_keys": LENGTHS[-1]}, {"scaling": "unscaled"}, {"scaling": "d_k^1"})
    )
    distance, rest = heads["entropy_share_distance"], heads["rest_distance"]
    moved = (heads["entropy_share"] - shuffled["entropy_share"]).abs()
    ratio = heads["jacobian_norm_median"] / heads["jacobian_norm_median_law"]
    share, share_se = "entropy_share", "entropy_share_se"
    return {
        "heads": len(heads),
        "near": (distance.abs() < _CLOSE).sum(),
        "below": (distance < -_CLOSE).sum(),
        "above_512": (_heads(tables, n_keys=512)["entropy_share_distance"] > _CLOSE).sum(),
        "above": (distance > _CLOSE).sum(),
        "maybe_above": (distance + REACH * heads["entropy_share_distance_se"] > _CLOSE).sum(),
        "rest": (rest.abs() < _CLOSE).sum(),
        "surely_rest": (rest.abs() + REACH * heads["rest_distance_se"] < _CLOSE).sum(),
        "short": short[share].mean(),
        "short_law": short[f"{share}_law"].mean(),
        "long": long[share].mean(),
        "long_law": long[f"{share}_law"].mean(),
        "short_first": short["first_key_weight"].mean(),
        "long_first": long["first_key_weight"].mean(),
        "first_falls": (long["first_key_weight"] < short["first_key_weight"]).all(),
        "rises": (long[share] - short[share] > REACH * (long[share_se] + short[share_se])).all(),
        "moved": moved.mean(),
        "moved_heads": (moved > _CLOSE).sum(),
        "like": ratio.between(0.8, 1.25).sum(),
        "frozen": (heads["frozen"] > 0.5).sum(),
        "unscaled_frozen": HEADS * unscaled["frozen"].sum(),
        "surely_flat": (wide[share] - REACH * wide[share_se]).min(),
    }


def _heads(tables: Tables, weights: str = "trained", text: str = "prose", n_keys: int = LENGTH) -> pd.DataFrame:
    return rows_of(tables, "heads", weights=weights, text=text, n_keys=n_keys)


def _layers(tables: Tables, **case: Any) -> pd.DataFrame:
    usual = {"weights": "trained", "text": "prose", "keys": "recorded", "scaling": "d_k^1/2", "n_keys": LENGTH}
    return rows_of(tables, "layers", **usual | case).reset_index()


def slide(results: Path) -> list[bytes]:
    """The files of the slide of the shipped tables, PNG and text."""
    tables = read_model(results)
    title, sentence = statements(tables)["slide"]
    caption = (
        f"{sentence} all-MiniLM-L6-v2, {SEQUENCES} sequences of {LENGTH} tokens; spread: standard deviation of a row."
    )
    return [*render(lambda: _draw(tables), title, caption, is_slide=True).values()]


def _draw(tables: Tables) -> Drawing:
    """Entropy share against spread: the exact curve, heads by layer, and untrained heads as hollow points."""
    figure = Figure(figsize=(10, 6), layout="constrained")
    ax = figure.subplots()
    curve = np.geomspace(_SPREADS[0], _SPREADS[-1], 200)
    ax.plot(
        curve,
        law("entropy_share", curve, LENGTH),
        color=INK,
        alpha=0.35,
        linewidth=7,
        label="exact, for Gaussian scores",
    )
    initial = _heads(tables, "initial")
    ax.scatter(initial["spread"], initial["entropy_share"], 70, "none", edgecolors=INK, label="before training")
    for (layer, rows), colour in zip(_heads(tables).groupby("layer"), ordered_colours(LAYERS), strict=True):
        points = {"s": 70, "color": colour, "edgecolors": "white", "zorder": 3, "label": f"layer {layer}"}
        ax.scatter(rows["spread"], rows["entropy_share"], **points)
    ax.set(xscale="log", xlabel="standard deviation of the scaled scores in a row", ylabel="entropy / ln n")
    ax.set_xticks(_SPREADS, labels=map(str, _SPREADS))
    ax.xaxis.set_minor_formatter("")
    ax.legend(loc="lower left", fontsize=14)
    return figure
