"""The recipes of CONTRIBUTING.md, each followed in a copy of this repository: edit, run, table,
figure, page, check.

A recipe that needs an edit more than it names fails.
"""

import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from tests.suite_process import ROOT, captured

FOLDERS = ("sdpa", "experiments", "tests", "results", "docs")
FILES = (
    "config.yaml",
    "config.full.yaml",
    "quick.yaml",
    "pyproject.toml",
    "conftest.py",
    "README.md",
)
SATURATION = (
    "    d_k: [4, 16]\n    n_keys: 8\n    n_queries: 4\n    trials: 40\n    scaling: "
    "[unscaled, {rule}]\n"
)
DECLARED, METRICS = (
    "experiments/declarations/saturation.py",
    "experiments/measuring/row_metrics.py",
)

pytestmark = pytest.mark.recipes


@dataclass
class Repository:
    """A copy of this repository."""

    folder: Path
    stale_before: set[str] = field(default_factory=set)

    def write(self, path: str, text: str, before: str | None = None) -> None:
        """Write lines before a line of a file, the last one that reads so, or at the end of the
        file.
        """
        target = self.folder / path
        content = target.read_text(encoding="utf-8") if target.exists() else ""
        at = content.rindex(f"\n{before}\n") + 1 if before else len(content)
        target.write_text(content[:at] + text + content[at:], encoding="utf-8")

    def run(self, *words: str) -> str:
        """The output of `python -m WORDS`, which must succeed."""
        ran = captured(sys.executable, "-m", *words, cwd=self.folder)
        assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
        return ran.stdout

    def sweep(self, experiment: str, keys: str) -> pd.DataFrame:
        """The table of a tiny config of one sweep, measured, drawn, checked and put on a page."""
        config = f"seed: 0\nsweeps:\n  tiny:\n    experiment: {experiment}\n{keys}"
        (self.folder / "tiny.yaml").write_text(config, encoding="utf-8")
        self.run("experiments", "all", "--config", "tiny.yaml", "--jobs", "1")
        return pd.read_csv(self.folder / "results" / "tiny" / "tiny.csv")

    def sweeps(self) -> dict[str, dict[str, Any]]:
        """The sweeps of the shipped config by name."""
        content = yaml.safe_load((self.folder / "config.yaml").read_text(encoding="utf-8"))
        return dict(content["sweeps"])

    def shown(self, figure: str, title: str) -> bool:
        """True if the sweep has the figure, and its page the title."""
        results = self.folder / "results" / "tiny"
        page = (results / "index.html").read_text(encoding="utf-8")
        return (results / "figures" / "tiny" / f"{figure}.png").exists() and title in page

    def stale(self) -> set[str]:
        """The experiments of shipped sweeps whose tables are not complete any more."""
        sweeps = self.sweeps()
        planned = self.run("experiments", "plan").partition("total to measure")[0]
        lines = [line for line in planned.splitlines() if line.split()[0] in sweeps]
        assert len(lines) == len(sweeps)
        return {
            sweeps[line.split()[0]]["experiment"] for line in lines if "complete" not in line
        } - self.stale_before


@pytest.fixture(scope="module")
def stale_before():
    return Repository(ROOT).stale()


@pytest.fixture
def repository(tmp_path, stale_before):
    hidden = shutil.ignore_patterns("__pycache__", ".*", "quick", "walk")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=hidden)
    for name in (*FILES, *(path.name for path in ROOT.glob("*.lock"))):
        shutil.copy(ROOT / name, tmp_path)
    return Repository(tmp_path, stale_before)


METRIC = """    RowMetric(
        "smallest_weight",
        "smallest weight of a row, mean over rows",
        "E min_j w_j",
        "smallest weight of a row",
        compute=lambda batch: batch.of_weights(lambda weights: weights.min(axis=-1)),
        within=(0, lambda cells: 1 / cells.n_keys),
    ),
"""


SIMULATION = "tests/plain_rows.py"
SIMULATED = '        found["smallest_weight"].append(min(w) if seen == n_keys else 0.0)\n'


def test_a_metric(repository):
    repository.write(METRICS, METRIC, before=")")
    repository.write(SIMULATION, SIMULATED, before='        found["max_weight"].append(max(w))')
    table = repository.sweep(
        "saturation", SATURATION.format(rule="d_k^1/2") + "    figures: metrics\n"
    )
    assert table["smallest_weight"].between(0, 1 / 8).all()
    assert (table["smallest_weight_low"] < table["smallest_weight_high"]).all()
    columns = pd.read_csv(repository.folder / "results" / "tiny" / "columns.csv")
    assert "smallest weight of a row, mean over rows" in set(columns["meaning"])
    # Tables of decoders and of single rows are made again, too, as analysis reads the metrics.
    shipped = {sweep["experiment"] for sweep in repository.sweeps().values()}
    assert repository.stale() == shipped - repository.stale_before
    repository.run("experiments", "readme")
    tests = ("test_each_key",)
    repository.run("pytest", "-q", *(f"tests/experiments/{name}.py" for name in tests))


LAW = '''

@input_law(0.0, 3 / 2)
def arcsine(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x = sqrt(2) cos(U), U uniform from 0 to pi; independent entries of the given shape."""
    return math.sqrt(2) * np.cos(rng.uniform(0, math.pi, shape))
'''
NODES = (
    '    "arcsine": (math.sqrt(2) * np.cos(np.pi * (np.arange(5) + 0.5) / 5), np.full(5, 0.2)),\n'
)


SCHEME = '''

@scheme("normal")
def wide(d_model: int, d_k: int) -> tuple[float, float]:
    """2 / d_model and 1 / (2 d_k)."""
    return 2 / d_model, 1 / (2 * d_k)
'''
HEADS = "    d_model: [8, 16]\n    n_heads: 2\n    scheme: wide\n"
RULE = "sqrt(d_k)/log2(2*d_k)"
INPUTS = "tests/sdpa/test_inputs.py"


def test_a_rule_with_a_function_of_its_own_an_input_law_and_initial_weights(repository):
    """Three recipes on one copy."""
    repository.write("sdpa/scaling.py", '    "log2": math.log2,\n', before="}")
    repository.write("sdpa/inputs.py", LAW)
    repository.write(INPUTS, NODES, before="}\nDISTRIBUTIONS = {")
    repository.write("sdpa/initialisation.py", SCHEME)
    schemes = '}\n\n\n@pytest.mark.parametrize("name", SCHEMES)'
    repository.write(INPUTS, '    "wide": (2, 4),\n', before=schemes)
    laws = SATURATION.format(rule=RULE) + "    inputs: [gaussian, arcsine]\n"
    table = repository.sweep("saturation", laws)
    gaussian = table.query(f"inputs == 'gaussian' and scaling == '{RULE}'")
    assert gaussian["score_variance_exact"].tolist() == pytest.approx([9, 25])
    arcsine = table.query("inputs == 'arcsine' and scaling == 'unscaled'")
    assert arcsine["score_kurtosis_exact"].tolist() == pytest.approx([-0.75 / 4, -0.75 / 16])
    heads = HEADS + SATURATION.partition("\n")[2].format(rule="d_k^1/2")
    assert (repository.sweep("initialisation", heads)["score_variance_exact"] > 0).all()
    tests = (INPUTS, "tests/sdpa/test_score_moments.py", "tests/sdpa/test_scaling.py")
    repository.run("pytest", "-q", *tests, "-k", "arcsine or wide or scaling")
    assert repository.stale() == set()


EXPERIMENT = '''"""Attention of a query that is one of its keys, stretched."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from experiments.measuring.columns import Meaning
from experiments.measuring.row_metrics import METRICS
from experiments.measuring.row_statistics import RowStatistics
from experiments.measuring.rules import Floats
from experiments.measuring.sampling import AttentionCell
from sdpa import Scaling


@dataclass(frozen=True)
class Cell(AttentionCell):
    """One point of the grid."""

    d_k: Annotated[int, Ge(1), Le(2**20), Meaning("width of queries and keys")]
    n_keys: Annotated[int, Ge(2), Le(2**20), Meaning("keys per draw")]
    scaling: tuple[Scaling, ...]
    stretch: Annotated[float, Ge(1e-6), Le(1e6), Meaning("queries over their own keys")] = 1.0
    n_queries: Annotated[int, Ge(1), Le(2**20), Meaning("queries per draw")] = 64

    def draw(self, trials: int, rng: np.random.Generator) -> tuple[Floats, Callable[[slice], Floats]]:
        """As `AttentionCell.draw`."""
        keys = rng.standard_normal((trials, self.n_keys, self.d_k))
        return keys, lambda rows: self.stretch * keys[:, np.arange(rows.start, rows.stop) % self.n_keys]


EXPERIMENT = RowStatistics(tuple(replace(metric, exact=None) for metric in METRICS)).experiment("stretched", Cell)
'''
FIGURE = """    Figure(
        name="stretch",
        shows="The largest weight of stretched queries",
        of="stretched",
        metrics=("max_weight",),
        default=Default(),
        lines=Lines("d_k", (Panel("max_weight"),), (6, 3.5)),
    ),
"""


EVERY = "tests/experiments/test_every_experiment.py"
VARIED = """    "stretched": (
        load_experiment("stretched").cell(5, 7, RULES, n_queries=3),
        {"d_k": 6, "n_keys": 8, "scaling": OTHER_RULES, "stretch": 2.0, "n_queries": 4},
    ),
"""


def test_an_experiment_and_its_figure(repository):
    repository.write("experiments/kinds/stretched.py", EXPERIMENT)
    repository.write(DECLARED, FIGURE, before=")")
    table = repository.sweep(
        "stretched", SATURATION.format(rule="d_k^1/2") + "    stretch: [1, 3]\n"
    )
    pivot = table.pivot_table(index=["scaling", "d_k"], columns="stretch", values="max_weight")
    assert (pivot[3] > pivot[1]).all()
    # A cell that does not say that its rows are independent has one for each of 40 draws.
    assert table["few_draws"].str.contains("entropy").all()
    assert repository.shown("stretch", "The largest weight of stretched queries")
    repository.write(EVERY, VARIED, before='}\n\n\n@pytest.mark.parametrize("name", CELLS)')
    repository.run("pytest", "-q", EVERY, "-k", "stretched or among")
    names = ("test_process", "test_config_schema")
    files = ["tests/test_architecture.py", *(f"tests/experiments/{name}.py" for name in names)]
    repository.run("pytest", "-q", *files, "-k", "stretched")
    assert repository.stale() == set()
