"""The page index.html of a results folder, from the tables, figures and published statements
there.
"""

import base64
import io
import math
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image

from experiments.analysis.crossings import EQUAL, SCALED, UNSCALED
from experiments.analysis.results import Results, SweepAxes
from experiments.claims.judge import SEVERITIES
from experiments.claims.table import read_statements, table_path
from experiments.config.loader import Config
from experiments.config.sweep import Sweep
from experiments.declarations import FIGURES, FINDINGS
from experiments.engine.fingerprint import versions
from experiments.engine.products import Product, build
from experiments.engine.reporter import VERBOSE, Reporter
from experiments.figures.findings import finding_of
from experiments.pages import explorer
from experiments.pages.parts import (
    FOLDER,
    MADE_WITH,
    page_path,
    pictures,
    provenance,
    shown,
    sound_results,
    typeset,
)
from experiments.paths import ALL_SWEEPS, EXAMPLES, MODELS, THEORY, csv_name, drawn_texts

_MOST_ROWS, _MOST_METRICS = 12, 5
# The figures whose findings support the sentences of the first screen.
_OPENING = (
    ("dimension", "variance"),
    ("dimension", "saturation"),
    ("crossing", "map"),
    ("network", "growth"),
)


class Picture(NamedTuple):
    """A figure on the page: a unique name, its texts, its image as a data URI, its size in pixels,
    and whether its title is a finding.
    """

    name: str
    title: str
    caption: str
    image: str
    width: int
    height: int
    is_finding: bool


def whole_sweeps(config: Config, results: Path, *, incomplete: bool) -> list[Sweep]:
    """The sweeps with sound and whole tables; `TableError` if a sweep has none and `incomplete` is
    false.
    """
    tables, _ = sound_results(config, results, incomplete=incomplete)
    return [sweep for sweep in config.sweeps if sweep.name in tables]


def write_page(
    config: Config,
    results: Path,
    config_path: Path,
    *,
    incomplete: bool = False,
    report: Reporter = VERBOSE,
) -> None:
    """Write index.html from tables, figures and published statements if one of them changed.

    Raises:
        TableError: a sweep has no sound table, and `incomplete` is false.
    """

    def made() -> list[bytes]:
        return [make_page(config, results, config_path, incomplete=incomplete)]

    options = [config.text, config_path.as_posix(), incomplete]
    page = Product((page_path(results),), made, (*shown(config, results),), options)
    build(results, [page], report, quietly=True)


def make_page(
    config: Config, results: Path, config_path: Path, *, incomplete: bool = False
) -> bytes:
    """The page of a config's results, as UTF-8 bytes.

    Styles, scripts and images are part of the file; tables are links to the CSV files beside it.

    Args:
        config, results: the config of the results, and the folder of its tables and figures.
        config_path: the path of the config; the page shows it as given, or only the file name of an
            absolute path.
        incomplete: if sweeps are missing, make a page of the others, with a notice at its top.

    Raises:
        TableError: a sweep has no sound table, and `incomplete` is false.
    """
    found, problems = sound_results(config, results, incomplete=incomplete)
    drawn = {
        name: [_picture(path.parent.name if name == MODELS else name, path) for path in paths]
        for name, paths in pictures(config, results).items()
    }
    of_dimension = {picture.name: picture for picture in drawn.get("dimension", ())}
    first_screen = opening(found)
    own = [] if first_screen else explorer.own_laws(found.values())
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["typeset"] = typeset
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    text = environment.get_template("index.html.j2").render(
        opening=first_screen,
        main=of_dimension.get("dimension-slide"),
        explorer=explorer.explorer(found.values()) | {"own": own},
        law=explorer.LAW,
        positions=explorer.POSITIONS,
        relative_error=explorer.RELATIVE_ERROR,
        sections=[_section(each, drawn[each.name]) for each in found.values()],
        of_all=drawn[ALL_SWEEPS],
        models=drawn[MODELS],
        theory=drawn[THEORY],
        examples=drawn[EXAMPLES],
        statements=statements(results),
        statements_csv=table_path(results).relative_to(results).as_posix(),
        made=provenance(config, results, found, problems),
        made_with=versions(*MADE_WITH),
        config=config,
        config_name=config_path.name if config_path.is_absolute() else config_path.as_posix(),
    )
    return text.encode()


def opening(found: Mapping[str, Results]) -> dict[str, str] | None:
    """The numbers of the first screen, by name; None if the tables do not support its sentences.

    Means of the sweep `dimension` at its largest d_k are exact; the d_k of `crossing` at which the
    medians of |J|_F are equal is measured.
    """
    for name, figure in _OPENING:
        if name not in found or not finding_of(f"{name}/{figure}", found[name]):
            return None
    measured = found["dimension"].measured
    widest = measured[measured["d_k"] == measured["d_k"].max()].set_index("scaling")
    numbers = {name: str(widest[name].iloc[0]) for name in ("d_k", "n_keys")}
    for metric in ("score_variance", "max_weight"):
        for name, rule in (("unscaled", UNSCALED), ("scaled", SCALED)):
            numbers[f"{metric}_{name}"] = f"{widest.loc[rule, f'{metric}_exact']:.3g}"
    table = found["crossing"]["crossings"]
    of_medians = table[(table["norm"] == "jacobian") & (table["statistic"] == "median")]
    equal = of_medians[of_medians["level"] == EQUAL].sort_values("n_keys")
    for name, place in (("shortest", 0), ("longest", -1)):
        row = equal.iloc[place]
        numbers[name] = str(row["n_keys"])
        numbers[f"crossing_{name}"] = f"{row['crossing']:.0f}"
    network = found["network"]
    growth = FINDINGS["network/growth"].numbers(network) or {}
    numbers["layers"] = str(network.measured["layers"].max())
    numbers["network_d_k"] = str(network.measured["d_k"].iloc[0])
    numbers["growth_millions"] = f"{growth['plain']:.1f}"
    numbers["growth_scaled"] = f"{growth['root']:.1f}"
    return numbers


def _picture(of: str, path: Path) -> Picture:
    """A figure with its image as lossless WebP."""
    title, caption = drawn_texts(path)
    content = io.BytesIO()
    with Image.open(path) as image:
        width, height = image.size
        image.convert("RGB").save(content, "WEBP", lossless=True)
    data = "data:image/webp;base64," + base64.b64encode(content.getvalue()).decode()
    declared = FIGURES.get(path.stem)
    is_finding = declared is not None and title != declared.shows
    return Picture(f"{of}-{path.stem}", title, caption, data, width, height, is_finding)


class Section(NamedTuple):
    """A sweep on the page: its figures, the names of its tables, and a few rows of the main one
    below the head.
    """

    name: str
    pictures: list[Picture]
    csvs: list[str]
    head: list[str]
    rows: list[list[str]]
    of: int  # rows in all


def _section(results: Results, drawn: list[Picture]) -> Section:
    table = results.measured
    shown = [metric for figure in results.block.figures for metric in FIGURES[figure].metrics]
    metrics = [metric for metric in dict.fromkeys(shown) if metric in table]
    head, rows = few_rows(table, results.axes, metrics[:_MOST_METRICS])
    csvs = [*dict.fromkeys(csv_name(results.name, kind) for kind in results)]
    return Section(results.name, drawn, csvs, head, rows, len(table))


def few_rows(
    table: pd.DataFrame, axes: SweepAxes, metrics: Iterable[str]
) -> tuple[list[str], list[list[str]]]:
    """The rows at both ends of every axis.

    Args:
        table: the main table of a sweep.
        axes: of its cells.
        metrics: columns to show after the varied axes and the scaling.

    Returns:
        A head, and at most 12 rows; of more, only those unscaled and under d_k^1/2 count.
    """
    varied = axes.varied(table)
    named = [*varied, "scaling"] if "scaling" in table else varied
    shown = table.drop_duplicates(named) if named else table.head(1)
    for axis in varied:
        values = shown[axis].drop_duplicates()
        if values.dtype.kind in "iuf":
            values = values.sort_values()
        shown = shown[shown[axis].isin(values.iloc[[0, -1]])]
    if len(shown) > _MOST_ROWS and "scaling" in shown:
        shown = shown[shown["scaling"].isin([UNSCALED, SCALED])]
    head = [*named, *metrics]
    rows = shown.head(_MOST_ROWS).iterrows()
    return head, [[_value(row, name) for name in head] for _, row in rows]


def _value(row: "pd.Series[Any]", name: str) -> str:
    """A value of a row with its 95% interval and its exact value, as `0.2751 (0.274 to 0.276),
    exactly 0.2747`.

    >>> _value(pd.Series({"share": 0.0, "share_low": 0.0, "share_high": 0.00092}), "share")
    '0 (0 to 0.00092)'
    """
    value, low, high, exact = (
        row.get(f"{name}{end}", math.nan) for end in ("", "_low", "_high", "_exact")
    )
    if isinstance(value, str):
        return value
    if math.isnan(value):
        return "–"
    if math.isnan(low) and math.isnan(exact):
        return f"{value:g}"
    digits, interval = 4, ""
    if low < high:
        size = max(abs(low), abs(high))
        digits = max(3, 2 + math.floor(math.log10(size / (high - low))))
        interval = f" ({low:.{digits}g} to {high:.{digits}g})"
    known = "" if math.isnan(exact) else f", exactly {exact:.{digits}g}"
    return f"{value:.{digits}g}{interval}{known}"


def statements(results: Path) -> list[tuple[str, list[dict[Hashable, Any]]]]:
    """The published statements by verdict and severity, the gravest first; none without a table.

    Each group has a title and its rows as text.
    """
    table = read_statements(results)
    if table.empty:
        return []
    severities, verdicts = [*SEVERITIES, ""], ["wrong", "misleading", "open"]

    def rank(group: tuple[str, str]) -> tuple[int, int]:
        severity, verdict = group
        place = verdicts.index(verdict) if verdict in verdicts else len(verdicts)
        return severities.index(severity), place

    groups = dict(list(table.groupby(["severity", "verdict"])))
    return [
        (", ".join(filter(None, reversed(group))), groups[group].to_dict("records"))
        for group in sorted(groups, key=rank)
    ]
