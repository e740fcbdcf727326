"""The page index.html of a results folder, from the tables, figures and published statements
there.
"""

import base64
import math
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from PIL import Image

from experiments.config.errors import in_part
from experiments.config.paths import (
    DRAWN_ROWS,
    EXAMPLE_FOLDER,
    MODELS,
    SUMMARY,
    csv_name,
    drawn_texts,
)
from experiments.figures.captions import extent, over
from experiments.figures.words import short
from experiments.kinds.figures import FIGURES
from experiments.measuring.metric import FEW_DRAWS
from experiments.publication.pages import explorer
from experiments.publication.pages.answers import ANSWERS, answers
from experiments.publication.pages.parts import (
    FOLDER,
    LONGER,
    digits,
    pictures,
    provenance,
    source_files,
    typeset,
)
from experiments.publication.pages.statements import (
    SEVERITIES,
    VERDICTS,
    read_statements,
    table_path,
)
from experiments.running.fingerprint import versions
from experiments.tables.layout import shown_metrics
from experiments.tables.products import MADE_WITH, IncompleteError, Product, build
from experiments.tables.reporter import Reporter
from experiments.tables.results import Results, SweepAxes
from experiments.tables.study import Study

_MOST_ROWS = 40
_MOST_COLUMNS = 10
_MOST_EMBEDDED = 12  # figures that are part of the page; others are files beside it
_MAIN = ("dimension", "powers")  # the sweeps whose first figures are shown below the explorer
_DEEP = ("network", "language")  # experiments on many layers


class Picture(NamedTuple):
    """A figure on the page: a unique name, its texts, its file, its image as a data URI or this
    file, the size in pixels and the place in per cent of the drawing between title and caption.
    """

    name: str
    title: str
    caption: str
    file: str
    source: str
    width: int
    height: int
    place: float


def write_page(
    study: Study, config_path: Path, *, first: Collection[str] = (), report: Reporter
) -> None:
    """Write index.html from tables, figures and published statements if one of them changed."""
    folder = study.folder
    options = [study.config.text, config_path.as_posix(), str(folder), *first]
    sources = (*source_files(study.config, folder),)
    path = folder / "index.html"
    page = Product((path,), lambda: [make_page(study, config_path, first)], sources, options)
    build(folder, [page], report, quietly=True)


def make_page(study: Study, config_path: Path, first: Collection[str] = ()) -> bytes:
    """The page of a config's results, as UTF-8 bytes.

    Styles, scripts and the first figures are part of the file; further figures, and tables, are
    files beside it. A notice at its top names the sweeps without sound tables.

    Args:
        study: the results, whose folder also has the figures.
        config_path: the path of the config; the page shows it as given, as it does the folder.
        first: names of the sweeps that the page begins with.

    Raises:
        IncompleteError: some sections could not be made; the page names them at its top.
    """
    failed = []

    def part(name: str, make: Callable[[], Any], instead: Any) -> Any:
        try:
            return make()
        except Exception as error:
            failed.append(in_part(f"page, section {name}", error))
            return instead

    results = study.folder
    paths = pictures(study.config, results)
    ordered = sorted(paths, key=lambda name: name not in first)
    embedded = [path for name in ordered for path in paths[name]][:_MOST_EMBEDDED]
    drawn = {
        name: [_picture(name, path, results, is_embedded=path in embedded) for path in of_one]
        for name, of_one in paths.items()
    }
    known = part("answers", lambda: answers(study), {})
    sections = [
        part(name, partial(_section, each, drawn[name]), Section(name, each.experiment.name))
        for name, each in study.items()
    ]
    sections.sort(key=lambda section: section.name not in first)
    leading = [each for each in sections if each.name in first]
    others = [each for each in sections if each not in leading]
    main = [each for each in others if known and each.name in _MAIN and each.pictures]
    others = [each for each in others if each not in main]
    text = _template().render(
        answers=dict.fromkeys(ANSWERS) | known,
        leading=leading,
        main=main,
        explorer=part("explorer", lambda: explorer.explorer(study.values()), {}),
        folder=results,
        law=explorer.LAW,
        has_law=explorer.follow_law(study.values()),
        positions=explorer.POSITIONS,
        relative_error=explorer.RELATIVE_ERROR,
        everything=sections,
        others=others,
        deep_experiments=_DEEP,
        full=drawn[LONGER],
        models=drawn[MODELS],
        examples=drawn[EXAMPLE_FOLDER],
        statements=part("statements", lambda: statements(results), []),
        statements_csv=table_path(Path()),
        made=provenance(study),
        made_with=versions(*MADE_WITH),
        config=study.config,
        config_path=config_path,
        failed=failed,
    )
    if failed:
        raise IncompleteError([text.encode()], failed)
    return text.encode()


def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"typeset": typeset, "digits": digits}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment.get_template("index.html.j2")


def _picture(of: str, path: Path, results: Path, *, is_embedded: bool) -> Picture:
    title, caption = drawn_texts(path)
    with Image.open(path) as image:
        width, height = image.size
        first, end = map(int, image.info[DRAWN_ROWS].split())
    shown = end - first
    place = round(100 * first / (height - shown), 2)
    file = source = path.relative_to(results).as_posix()
    if is_embedded:
        encoded = base64.b64encode(path.read_bytes())
        source = "data:image/png;base64," + encoded.decode()
    prefix = path.parent.name if of == MODELS else of
    name = f"{prefix}-{path.stem}"
    return Picture(name, title, caption, file, source, width, shown, place)


class Value(NamedTuple):
    """A value of a table as text, with its exact value and its interval if it has them."""

    text: str
    exact: str = ""
    interval: str = ""

    @classmethod
    def of(cls, row: "pd.Series[Any]", name: str) -> Self:
        """A metric of a row with its exact value and its 95% interval, with three digits; † if few
        draws carry it.

        >>> Value.of(pd.Series({"share": 0.0, "share_low": 0.0, "share_high": 0.000921}), "share")
        Value(text='0', exact='', interval='0 to 0.000921')
        >>> Value.of(pd.Series({"share": 1.0, "few_draws": "share"}), "share").text
        '1†'
        """
        value, low, high, exact = (
            row.get(f"{name}{end}", math.nan) for end in ("", "_low", "_high", "_exact")
        )
        if math.isnan(value):
            return cls("–")
        interval = f"{digits(low)} to {digits(high)}" if low < high else ""
        few = "†" if name in row.get(FEW_DRAWS, "").split() else ""
        return cls(digits(value) + few, "" if math.isnan(exact) else digits(exact), interval)


class Section(NamedTuple):
    """A sweep on the page: what it varies, its figures, the names of its tables, and a few rows
    below the head.
    """

    name: str
    experiment: str
    title: str = ""
    asked: str = ""
    pictures: Sequence[Picture] = ()
    csvs: Sequence[str] = ()
    axes: Sequence[str] = ()  # those that vary
    last: str = ""  # the last value of the first one
    metric: str = ""  # of the code that reads, filters and plots the table
    head: Sequence[str] = ()
    roots: Collection[str] = ()  # names in the head of root mean squares
    rows: Sequence[list[Value]] = ()
    of: int = 0  # rows in all


def _section(results: Results, drawn: list[Picture]) -> Section:
    table = results.measured
    of_figures = [name for figure in results.sweep.figures for name in FIGURES[figure].metrics]
    listed = dict.fromkeys(of_figures or shown_metrics(results.sweep))
    metrics = [name for name in listed if name in table]
    head, rows = few_rows(table, results.axes, metrics)
    axes = results.axes.varied(table) or [name for name in ("scaling",) if name in table]
    rules = f"Rules: {', '.join(table['scaling'].unique())}." if "scaling" in table else ""
    return Section(
        name=results.name,
        experiment=results.experiment.name,
        title=f"Sweep {results.name}{over(results)}",
        asked=f"{extent(table, results.axes)} {rules}",
        pictures=drawn,
        csvs=[csv_name(results.name, kind) for kind in (SUMMARY, *results)],
        axes=axes,
        last=repr(table[axes[0]].tolist()[-1]) if axes else "",
        metric=next(filter(results.metrics.get, metrics), metrics[-1]),
        head=head,
        roots={name for name, metric in results.metrics.items() if metric.kind == "root"},
        rows=rows,
        of=len(table),
    )


def few_rows(
    table: pd.DataFrame, axes: SweepAxes, metrics: Sequence[str]
) -> tuple[list[str], list[list[Value]]]:
    """At most 40 rows: all, or of a long table those at both ends of every axis.

    Args:
        table: the main table of a sweep.
        axes: of its cells.
        metrics: columns to show after the varied axes and the scaling, in ten columns.

    Returns:
        A head, and the rows.
    """
    varied = axes.varied(table)
    named = [*varied, "scaling"] if "scaling" in table else varied
    shown = table.drop_duplicates(named) if named else table
    for axis in varied if len(shown) > _MOST_ROWS else ():
        shown = shown[shown[axis].isin(shown[axis].unique()[[0, -1]])]
    few = metrics[: max(_MOST_COLUMNS - len(named), 1)]
    rows = [
        [*(Value(short(row[name])) for name in named), *(Value.of(row, name) for name in few)]
        for _, row in shown.head(_MOST_ROWS).iterrows()
    ]
    return [*named, *few], rows


def statements(results: Path) -> list[tuple[str, list[dict[Hashable, Any]]]]:
    """The published statements by severity and verdict, the gravest first; none without a table.

    Each group has a title and its rows as text.
    """
    table = read_statements(results)
    if table.empty:
        return []
    severity = pd.Categorical(table["severity"], [*SEVERITIES, ""])
    verdict = pd.Categorical(table["verdict"], [*VERDICTS])
    groups = table.groupby([severity, verdict], observed=True)
    return [
        (f"{VERDICTS[found]}{SEVERITIES.get(kind, '')}", rows.to_dict("records"))
        for (kind, found), rows in groups
    ]
