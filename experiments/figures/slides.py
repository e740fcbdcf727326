"""Slides for a talk: one panel and one message each, 16:9, in letters that the back row can
read.
"""

import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from experiments.analysis.results import Results
from experiments.config.loader import Config
from experiments.engine.check import sound
from experiments.engine.products import Product, build
from experiments.engine.reporter import ALOUD, FLAGGED, Reporter
from experiments.figures.figure import Figure, Lines, Panel
from experiments.figures.findings import FindingError, Needs, lack
from experiments.paths import SLIDES as FOLDER

_INCHES = (10, 5.625)
_DPI = 192  # 1920 by 1080 pixels
_BELOW_TITLE = 0.87  # of the height
_TITLE_POINTS = 24
_RULES = ("unscaled", "d_k^1/2")
_LATER = 4  # the factor of d_k that counts as long before


@dataclass(frozen=True)
class Slide:
    """One panel of a sweep and its message.

    Attributes:
        title: the message, a finding without numbers.
        sweep: the one whose measured table it shows.
        lines: the picture.
        holds: True for a measured table that supports the title.
    """

    title: str
    sweep: str
    lines: Lines
    holds: Callable[[pd.DataFrame], bool]

    @property
    def needs(self) -> Needs:
        """The axes that it shows, and the rules."""
        axes = {
            name: ()
            for name in (self.lines.x, self.lines.by)
            if name not in ("scaling", "exponent")
        }
        return {**axes, "scaling": _RULES}


def write_slides(config: Config, results: Path, report: Reporter = ALOUD) -> None:
    """Draw the outdated slides as PNG and PDF into the folder `slides` of the results, and name
    those left out.

    Raises:
        FindingError: no title is about the sweeps and their tables.
    """
    found = sound(config, results)
    products, left_out = [], []
    for name, slide in SLIDES.items():
        if reason := _objection(slide, found.get(slide.sweep)):
            left_out.append(f"{name} ({reason})")
            continue
        files = tuple(results / FOLDER / f"{name}{suffix}" for suffix in (".png", ".pdf"))
        inputs = (results / f"{slide.sweep}.json",)
        products.append(Product(files, partial(slide_files, slide, found[slide.sweep]), inputs))
    if not products:
        raise FindingError(
            f"{results}: expected tables that support the title of a slide; {'; '.join(left_out)}"
        )
    if left_out:
        report.verdict("left out", "; ".join(left_out), FLAGGED)
    build(results, products, report)


def _objection(slide: Slide, results: Results | None) -> str:
    """The reason why a sweep does not support the title of a slide; empty if it does."""
    if not results:
        return f"no table of a sweep {slide.sweep}"
    if reason := lack(results.block, slide.needs):
        return f"sweep {results.name}: {reason}"
    return (
        "" if slide.holds(results.measured) else f"sweep {results.name} does not support its title"
    )


def slide_files(slide: Slide, results: Results) -> list[bytes]:
    """A slide as PNG and as PDF, without anything that varies between equal runs."""
    import matplotlib as mpl  # takes a second to load, as all that draws
    import seaborn as sns

    from experiments.figures.rendering import draw, typeset
    from experiments.figures.style import SLIDE, STYLE

    with mpl.rc_context({**sns.axes_style("ticks"), **STYLE, **SLIDE}):
        drawing = draw(Figure(shows=slide.title, of="saturation", lines=slide.lines), results)
        drawing.set_size_inches(_INCHES)
        drawing.set_layout_engine("constrained", rect=(0, 0, 1, _BELOW_TITLE))
        for legend in drawing.legends:  # above the panel, where the title is
            legend.remove()
        drawing.axes[0].legend(loc="best")
        drawing.text(0.012, 0.97, slide.title, va="top", fontsize=_TITLE_POINTS)
        typeset(drawing)
        files = []
        for kind, about in (("png", {"Software": None}), ("pdf", {"CreationDate": None})):
            drawing.savefig(
                file := io.BytesIO(),
                format=kind,
                dpi=_DPI,
                metadata={"Title": slide.title, **about},
            )
            files.append(file.getvalue())
    return files


def _along(
    panel: Panel, x: str = "d_k", *, by: str = "scaling", rules: tuple[str, ...] = _RULES
) -> Lines:
    return Lines(x, (panel,), _INCHES, by=by, rules=rules)


def _by_rule(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """A metric over d_k, a column per rule."""
    return table.pivot_table(index="d_k", columns="scaling", values=metric)


def _only_the_root_is_level(table: pd.DataFrame) -> bool:
    values = _by_rule(table, "score_variance")
    change = values.iloc[-1] / values.iloc[0]
    others = change.drop("d_k^1/2")
    return bool(abs(change["d_k^1/2"] - 1) < 0.1 and ((others > 2) | (others < 0.5)).all())


def _one_key_takes_most(table: pd.DataFrame) -> bool:
    values = _by_rule(table, "max_weight")
    return bool(values["unscaled"].iloc[-1] > 0.8 and values["d_k^1/2"].max() < 0.2)


def _many_do_not_saturate(table: pd.DataFrame) -> bool:
    values = _by_rule(table, "saturated_rows")["unscaled"]
    return bool(values.is_monotonic_increasing and 0.5 < values.iloc[-1] < 0.9)


def _falls_below(table: pd.DataFrame, metric: str) -> float:
    """The first d_k at which the unscaled metric is smaller than that under d_k^1/2; infinite if
    none is.
    """
    values = _by_rule(table, metric)
    return min(values.index[values["unscaled"] < values["d_k^1/2"]], default=math.inf)


def _typical_vanishes(table: pd.DataFrame) -> bool:
    values = _by_rule(table, "jacobian_norm_median")
    return bool(
        values["unscaled"].iloc[0] > values["d_k^1/2"].iloc[0]
        and values["unscaled"].iloc[-1] < 0.1 * values["d_k^1/2"].iloc[-1]
    )


def _mean_square_falls_later(table: pd.DataFrame) -> bool:
    return _falls_below(table, "jacobian_norm") >= _LATER * _falls_below(
        table, "jacobian_norm_median"
    )


def _queries_get_larger_ones(table: pd.DataFrame) -> bool:
    values = _by_rule(table, "query_gradient_norm")
    return bool((values["unscaled"] > values["d_k^1/2"]).all())


def _root_treats_all_alike(table: pd.DataFrame) -> bool:
    weights = table.groupby("exponent")["max_weight"]
    return bool((weights.max() / weights.min()).idxmin() == 1 / 2)


def _longer_are_flatter(table: pd.DataFrame) -> bool:
    groups = table.sort_values("n_keys").groupby(["d_k", "scaling"])["max_weight"]
    return all(values.is_monotonic_decreasing for _, values in groups)


SLIDES: Mapping[str, Slide] = {
    "variance": Slide(
        "Only the square root keeps the variance of scores level",
        "dimension",
        _along(Panel("score_variance"), rules=()),
        _only_the_root_is_level,
    ),
    "largest-weight": Slide(
        "Without the scale, one key takes most weight on average",
        "dimension",
        _along(Panel("max_weight", floor=0)),
        _one_key_takes_most,
    ),
    "saturated-rows": Slide(
        "Yet many unscaled rows do not saturate",
        "dimension",
        _along(Panel("saturated_rows", floor=0)),
        _many_do_not_saturate,
    ),
    "typical-gradient": Slide(
        "Unscaled, the typical softmax gradient vanishes",
        "dimension",
        _along(Panel("jacobian_norm_median")),
        _typical_vanishes,
    ),
    "mean-square-gradient": Slide(
        "The mean square softmax gradient falls far later",
        "dimension",
        _along(Panel("jacobian_norm", floor=0)),
        _mean_square_falls_later,
    ),
    "query-gradient": Slide(
        "Unscaled queries get larger mean square gradients",
        "dimension",
        _along(Panel("query_gradient_norm")),
        _queries_get_larger_ones,
    ),
    "powers": Slide(
        "Only the square root treats every width alike",
        "powers",
        _along(Panel("max_weight"), "exponent", by="d_k", rules=()),
        _root_treats_all_alike,
    ),
    "longer-rows": Slide(
        "Longer rows are flatter, with the scale and without",
        "length",
        _along(Panel("max_weight"), "n_keys"),
        _longer_are_flatter,
    ),
}
