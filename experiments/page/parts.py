"""What the page and the generated Markdown share: the files that they show, and formulas of plain text as HTML.

Captions, notes and names of scalings are plain text, such as `|J|_F under d_k^1/2`, because files and the terminal
show them too. A name of several letters, such as `score_mean`, is a column and keeps its underscore.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from markupsafe import Markup

from experiments.folders import (
    ALL_SWEEPS,
    DIAGNOSIS_FIGURE,
    DIAGNOSIS_TABLE,
    EXAMPLES,
    FIGURES,
    STATEMENTS,
    diagnosis_path,
    figure_path,
)
from experiments.harness.config import Config
from experiments.harness.files import DERIVED

FOLDER = Path(__file__).parent
MADE_WITH = ("Jinja2", "matplotlib", "numpy", "pandas", "pillow", "scipy", "seaborn")
STATEMENTS_CSV = f"{STATEMENTS}/statements.csv"
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
    """The PNG files of the page by sweep, and of `all-sweeps`, the diagnosis and the examples by these names.

    Only files with a text beside them count: a figure that could not be drawn is not on the page.
    """
    found = {
        sweep.name: [figure_path(results, sweep.name, name, ".png") for name in sweep.figures]
        for sweep in config.sweeps
    }
    found[ALL_SWEEPS] = sorted((results / FIGURES / ALL_SWEEPS).glob("*.png"))
    found[DIAGNOSIS_FIGURE] = [diagnosis_path(results, f"{DIAGNOSIS_FIGURE}.png")]
    found[EXAMPLES] = sorted((results / EXAMPLES).glob("*.png"))
    return {name: [path for path in paths if path.with_suffix(".txt").exists()] for name, paths in found.items()}


def shown(config: Config, results: Path) -> Iterator[Path]:
    """Every file whose content appears on the page."""
    yield results / STATEMENTS_CSV
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
