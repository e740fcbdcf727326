"""The parts of the page and of generated Markdown: files, the origin of results, and formulas of
plain text as HTML.

Captions, notes and names of scalings are plain text, such as `|J|_F under d_k^1/2`, because files
and the terminal show them too. A name of several letters, such as `score_mean`, is a column and
keeps its underscore.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from experiments.analysis.agreement import DisagreementError, agreement
from experiments.analysis.overview import check_table
from experiments.analysis.results import Results
from experiments.claims.table import table_path
from experiments.config.loader import Config
from experiments.engine.tables import read_sweep, why_stale
from experiments.errors import TableError, counted
from experiments.paths import (
    ALL_SWEEPS,
    DERIVED,
    DIAGNOSIS,
    DIAGNOSIS_TABLE,
    EXAMPLES,
    FIGURES,
    THEORY,
    diagnosis_path,
    figure_path,
)

FOLDER = Path(__file__).parent
MADE_WITH = ("Jinja2", "matplotlib", "numpy", "pandas", "pillow", "scipy", "seaborn")
_SHOWN_DIGITS = 12  # of a SHA-256
_MINUS = re.compile(r"(?<![\w.)])-(?=\d)|(?<=\de)-(?=\d)")
_TEN = re.compile(r"(?<=\d)e(−?)\+?0*(\d+)\b")
_INDEX = re.compile(r"(?<![\w.])([A-Za-z]|\|J\|)_([A-Za-z]+|\d)")
_GRADIENT = re.compile(r"\bdL/d(?=[a-z]\b)")
_ROOT = re.compile(r"\bsqrt\(([^()]+)\)|((?<![\w.>])[A-Za-z]<sub>[a-z]+</sub>)\^1/2(?!\d)")
_POWER = re.compile(r"(?<=[\w>)])\^(?:\(([^()]+)\)|(−?\d+(?:\.\d+)?(?:/\d+)?|[A-Za-z]\b))")


def page_path(results: Path) -> Path:
    """The page of a results folder."""
    return results / "index.html"


def pictures(config: Config, results: Path) -> dict[str, list[Path]]:
    """The PNG files of the page by sweep, and of `all-sweeps`, diagnosis, theory and examples by
    these names.

    Only files with a text beside them count: a figure that could not be drawn is not on the page.
    """
    found = {
        sweep.name: [figure_path(results, sweep.name, name, ".png") for name in sweep.figures]
        for sweep in config.sweeps
    }
    found[ALL_SWEEPS] = sorted((results / FIGURES / ALL_SWEEPS).glob("*.png"))
    found[DIAGNOSIS] = sorted(diagnosis_path(results, "").glob("*.png"), reverse=True)
    found[THEORY] = sorted((results / THEORY).glob("*.png"), reverse=True)
    found[EXAMPLES] = sorted((results / EXAMPLES).glob("*.png"))
    return {
        name: [path for path in paths if path.with_suffix(".txt").exists()]
        for name, paths in found.items()
    }


def shown(config: Config, results: Path) -> Iterator[Path]:
    """Every file whose content appears on the page."""
    yield table_path(results)
    yield diagnosis_path(results, DIAGNOSIS_TABLE)
    for sweep in config.sweeps:
        yield from (results / f"{sweep.name}.{suffix}" for suffix in ("json", "csv"))
        yield from sorted((results / DERIVED / sweep.name).glob("*.csv"))
    for paths in pictures(config, results).values():
        yield from (path.with_suffix(suffix) for path in paths for suffix in (".png", ".txt"))


def typeset(text: str) -> Markup:
    """A sentence with indices, powers, powers of ten and typographic minus signs.

    >>> str(typeset("|J|_F under d_k^1/2 is -0.5 or 1e-07"))
    '|J|<sub>F</sub> under √<span class="root">d<sub>k</sub></span> is −0.5 or 1\xa0×\xa010<sup>−7</sup>'
    >>> str(typeset("score_mean at n_keys = 4 grows as d_k^(-1/3), |dL/dq|"))
    'score_mean at n<sub>keys</sub> = 4 grows as d<sub>k</sub><sup>−1/3</sup>, |∂L/∂q|'
    """
    text = _TEN.sub("\u00a0×\u00a0" r"10^\1\2", _MINUS.sub("−", text))
    text = _INDEX.sub(r"\1<sub>\2</sub>", _GRADIENT.sub("∂L/∂", str(Markup.escape(text))))
    text = _ROOT.sub(lambda root: f'√<span class="root">{root[1] or root[2]}</span>', text)
    return Markup(_POWER.sub(lambda power: f"<sup>{power[1] or power[2]}</sup>", text))


def sound_results(
    config: Config, results: Path, *, incomplete: bool
) -> tuple[dict[str, Results], dict[str, str]]:
    """The results of every sweep with sound and whole tables, by name, and a message for each of
    the others.

    Raises:
        TableError: there is a problem, and `incomplete` is false.
    """
    found, problems = {}, {}
    for sweep in config.sweeps:
        try:
            read = read_sweep(results, config, sweep)
            check_table(read)
            found[sweep.name] = read
        except TableError as error:
            problems[sweep.name] = str(error)
    if problems and not incomplete:
        remedy = (
            "to write a page marked as incomplete: .venv/bin/python -m experiments page "
            "--incomplete"
        )
        raise TableError("\n".join([*problems.values(), remedy]))
    return found, problems


def provenance(
    config: Config, results: Path, found: Mapping[str, Results], problems: Mapping[str, str]
) -> dict[str, Any]:
    """Seed, versions, the state of every sweep, and the verdict of `check` on the tables.

    Returns:
        `versions` of the libraries that made the tables; `sweeps`, rows of a table with the fields
        below; `verdict` of the comparison of all sweeps with theory, and `alarm`, its message; both
        empty if there is none.
    """
    fields = ("sweep", "experiment", "trials", "table", "check", "measured by", "analysed by")
    versions: dict[str, str] = {}
    rows = []
    for sweep in config.sweeps:
        if sweep.name in problems:
            values = [
                sweep.name,
                sweep.experiment.name,
                "–",
                f"missing: {problems[sweep.name]}",
                "–",
                "–",
                "–",
            ]
        else:
            made = json.loads((results / f"{sweep.name}.json").read_bytes())
            versions |= made["versions"]
            table = found[sweep.name].measured
            trials = sorted({*table["trials"]}) if "trials" in table else [sweep.trials]
            state = (
                f"complete: {counted(len(table), 'row')} for {counted(len(sweep.cells()), 'cell')}"
            )
            if reason := why_stale(results, config, sweep):
                state += f"; {reason}"
            span = " to ".join(f"{n:,}" for n in dict.fromkeys((trials[0], trials[-1])))
            values = [
                sweep.name,
                sweep.experiment.name,
                span,
                state,
                agreement([found[sweep.name]]).verdict() or "–",
            ]
            values += [
                made["fingerprint"][part][:_SHOWN_DIGITS] for part in ("measuring", "tables")
            ]
        rows.append(dict(zip(fields, values, strict=True)))
    whole = agreement(found.values())
    try:
        whole.raise_alarm()
        alarm = ""
    except DisagreementError as error:
        alarm = str(error)
    return {
        "versions": versions,
        "sweeps": rows,
        "missing": list(problems),
        "verdict": "; ".join(filter(None, [whole.verdict(), whole.gaps_in_short()])),
        "alarm": alarm,
    }
