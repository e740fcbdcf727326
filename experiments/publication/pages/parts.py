"""The parts of the page and of generated Markdown: files, the origin of results, and formulas of
plain text as HTML.

Captions, notes and names of scalings are plain text, such as `|J|_F under d_k^1/2`, because files
and the terminal show them too. A name of several letters, such as `score_mean`, is a column and
keeps its underscore.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

import pandas as pd
from markupsafe import Markup

from experiments.config.errors import TableError, counted
from experiments.config.loader import Config
from experiments.config.paths import (
    DERIVED,
    EXAMPLE_FOLDER,
    FULL,
    MODELS,
    figure_path,
    model_path,
    sidecar_path,
)
from experiments.publication.pages.statements import table_path
from experiments.tables.analyse import agreement
from experiments.tables.stored import read_sidecar
from experiments.tables.study import Study

FOLDER = Path(__file__).parent
LONGER = "config-full"  # in place of a sweep's name: the figure of longer training
_PROVENANCE = ("sweep", "experiment", "trials", "table", "check", "measured at")
_SHOWN_DIGITS = 12  # of a commit
# In order: later ones see the results of earlier ones.
_TYPESET = (
    (r"(?<![\w.)])-(?=\d)|(?<=\de)-(?=\d)", "−"),
    # A number begins a word; the digits of a commit, such as 55cfb400e508, do not.
    (r"(?<![\w.])([\d.]*\d)e(−?)\+?0*(\d{1,3})\b", "\\1\u00a0×\u00a010^\\2\\3"),
    (r"\bdL/d(?=[a-z]\b)", "∂L/∂"),
    # No symbol: a name of several words, such as a_few or d_k_of_two.
    (r"(?<![\w.])([A-Zb-z]|\|J\|)_([A-Za-z]+|\d)(?!\w)", r"\1<sub>\2</sub>"),
    (
        r"\bsqrt\(([^()]+)\)|((?<![\w.>])[A-Za-z]<sub>[a-z]+</sub>)\^1/2(?!\d)",
        r'√<span class="root">\1\2</span>',
    ),
    (
        r"(?<=[\w>)])\^(?:\(([^()]+)\)|(−?\d+(?:\.\d+)?(?:/\d+)?|[A-Za-z]\b))",
        r"<sup>\1\2</sup>",
    ),
)


@dataclass(frozen=True)
class Source:
    """The shipped results, those of config.full.yaml, and the folder of a page, where links start."""

    study: Study
    full: Study
    page: Path

    def link(self, path: Path) -> str:
        """The path of a file from the page."""
        return os.path.relpath(path, self.page)


def pictures(config: Config, results: Path) -> dict[str, list[Path]]:
    """The PNG files of the page by sweep, and of config.full.yaml, models and
    examples by names of their own.

    Only files with a text beside them count: a figure that could not be drawn is not on the page.
    """
    found = {
        sweep.name: [figure_path(results, sweep.name, name, ".png") for name in sweep.figures]
        for sweep in config.sweeps
    }
    found[LONGER] = [figure_path(results / FULL, "language", "losses", ".png")]
    found[MODELS] = [model_path(results, "divisors.png")]
    found[EXAMPLE_FOLDER] = sorted((results / EXAMPLE_FOLDER).glob("*.png"))
    return {
        name: [path for path in paths if path.with_suffix(".txt").exists()]
        for name, paths in found.items()
    }


def source_files(config: Config, results: Path) -> Iterator[Path]:
    """Every file whose content appears on the page."""
    yield table_path(results)
    for sweep in config.sweeps:
        yield from (results / f"{sweep.name}.{suffix}" for suffix in ("json", "csv"))
        yield from sorted((results / DERIVED / sweep.name).glob("*.csv"))
    for paths in pictures(config, results).values():
        yield from (path.with_suffix(suffix) for path in paths for suffix in (".png", ".txt"))


def digits(value: float) -> str:
    """A number with at most three digits, and commas between thousands.

    >>> digits(22.18), digits(10929.3), digits(4.584e11), digits(4096)
    ('22.2', '10,900', '4.58e+11', '4,096')
    """
    if isinstance(value, Integral):
        return f"{value:,}"
    if 1000 <= value < 1e7:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def typeset(text: str) -> Markup:
    """A sentence with indices, powers, powers of ten and typographic minus signs.

    >>> str(typeset("|J|_F under d_k^1/2 is -0.5 or 1e-07"))
    '|J|<sub>F</sub> under √<span class="root">d<sub>k</sub></span> is −0.5 or 1\xa0×\xa010<sup>−7</sup>'
    >>> str(typeset("Sweep d_k_of_two, sweep a_few"))
    'Sweep d_k_of_two, sweep a_few'
    >>> str(typeset("55cfb400e508 is no number, 2e+06 is one"))
    '55cfb400e508 is no number, 2\xa0×\xa010<sup>6</sup> is one'
    >>> str(typeset("score_mean at n_keys = 4 grows as d_k^(-1/3), |dL/dq|"))
    'score_mean at n<sub>keys</sub> = 4 grows as d<sub>k</sub><sup>−1/3</sup>, |∂L/∂q|'
    """
    html = str(Markup.escape(text))
    for pattern, replacement in _TYPESET:
        html = re.sub(pattern, replacement, html)
    return Markup(html)


def markdown(head: Sequence[str], rows: Iterable[Iterable[object]], right: str = "") -> str:
    """A table in Markdown, with an `r` in `right` for a column that is aligned to the right; a |
    stays a character.

    >>> print(markdown(["a", "b"], [["|x|", 2]], "-r"))
    | a | b |
    |---|---:|
    | \\|x\\| | 2 |
    """
    sides = right.ljust(len(head), "-")
    marks = ["---:" if side == "r" else "---" for side in sides[: len(head)]]
    lines = [f"| {' | '.join(map(_escaped, row))} |" for row in (head, *rows)]
    return "\n".join([lines[0], f"|{'|'.join(marks)}|", *lines[1:]])


def _escaped(field: object) -> str:
    return str(field).replace("|", "\\|")


def formulas(text: str) -> str:
    """A text with its formulas as the HTML that Markdown allows.

    >>> formulas("d_k^1/2 'here'")
    "√d<sub>k</sub> 'here'"
    """
    html = re.sub("</?span[^>]*>", "", str(typeset(text)))
    return html.replace("&#39;", "'").replace("&#34;", '"')


def code(text: str) -> str:
    """A text as code; nothing for an empty one."""
    return f"`{text}`" if text else ""


@dataclass(frozen=True)
class Provenance:
    """The origin of results.

    Attributes:
        versions: of the libraries that made the tables.
        sweeps: rows of a table, a row per sweep of the config.
        missing: the sweeps without a sound table.
        verdict: of the comparison of all sweeps with theory; empty if no value is tested.
        gaps: the number of values that are not tested; empty without any.
        alarm: its message; empty without one.
    """

    versions: Mapping[str, str]
    sweeps: Sequence[Mapping[str, str]]
    missing: Sequence[str]
    verdict: str
    gaps: str
    alarm: str


def provenance(study: Study) -> Provenance:
    """Seed, versions, the state of every sweep, and the verdict of `check` on the sound tables."""
    versions: dict[str, str] = {}
    rows = []
    for sweep in study.config.sweeps:
        row = dict.fromkeys(_PROVENANCE, "–")
        row |= {"sweep": sweep.name, "experiment": sweep.experiment.name}
        rows.append(row)
        try:
            results = study.require(sweep.name)
        except TableError as error:
            row["table"] = f"missing: {error}"
            continue
        made = read_sidecar(sidecar_path(study.folder, sweep.name))
        versions |= made["versions"]
        table = results.measured
        trials = table.get("trials", pd.Series(sweep.trials))
        ends = dict.fromkeys((trials.min(), trials.max()))
        row["trials"] = " to ".join(f"{n:,}" for n in ends)
        cells = counted(len(sweep.cells), "cell")
        state = f"complete: {counted(len(table), 'row')} for {cells}"
        row["table"] = "; ".join([state, *made.get("failed", [])])
        row["check"] = agreement([results]).verdict() or "–"
        if at := made.get("measured_at"):
            row["measured at"] = at["commit"][:_SHOWN_DIGITS] + ("" if at["clean"] else ", changed")
    whole = agreement(study.values())
    missing = [sweep.name for sweep in study.config.sweeps if sweep.name not in study]
    return Provenance(
        versions, rows, missing, whole.verdict(), whole.untested_in_words(), whole.alarm()
    )
