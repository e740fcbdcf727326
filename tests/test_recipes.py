"""The recipes of CONTRIBUTING.md, each performed on a copy of this repository: edit, run, table, figure, page, check.

Every recipe names the files that it edits; a recipe that needs one more fails.
"""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pytest
import yaml

ROOT = Path(__file__).parents[1]
FOLDERS = ("sdpa", "experiments", "tests", "results", "docs")
FILES = (
    "config.yaml",
    "quick.yaml",
    "pyproject.toml",
    "conftest.py",
    "README.md",
    *(path.name for path in ROOT.glob("*.lock")),
)
SWEEP = """
    d_k: [4, 16]
    n_keys: 8
    n_queries: 4
    trials: 40
"""

pytestmark = pytest.mark.recipes


@dataclass
class Repository:
    """A copy of this repository, and the files that were edited in it by hand."""

    folder: Path
    edited: set[str] = field(default_factory=set)

    def write(self, path: str, text: str) -> None:
        """Add a file, or lines at the end of one."""
        self.edited.add(path)
        with (self.folder / path).open("a", encoding="utf-8") as file:
            file.write(text)

    def insert(self, path: str, before: str, text: str) -> None:
        """Insert lines before a line of a file, the only one that reads so."""
        self.edited.add(path)
        content = (self.folder / path).read_text(encoding="utf-8")
        assert content.count(f"\n{before}\n") == 1, (path, before)
        (self.folder / path).write_text(content.replace(f"\n{before}\n", f"\n{text}{before}\n"), encoding="utf-8")

    def test(self, *paths: str) -> None:
        """Run the tests in these files of the copy, which must pass."""
        self.run("-m", "pytest", "-q", *paths)

    def run(self, *words: str) -> str:
        """The output of `python WORDS`, which must succeed."""
        ran = subprocess.run([sys.executable, *words], cwd=self.folder, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
        return ran.stdout

    def sweep(self, experiment: str, keys: str) -> pd.DataFrame:
        """The table of a tiny config of one sweep, measured, drawn, checked and put on a page."""
        config = f"seed: 0\nsweeps:\n  tiny:\n    experiment: {experiment}\n{keys}"
        (self.folder / "tiny.yaml").write_text(config, encoding="utf-8")
        self.run("-m", "experiments", "all", "--config", "tiny.yaml", "--jobs", "1", "--format", "svg")
        return pd.read_csv(self.folder / "results" / "tiny" / "tiny.csv")

    def figures(self) -> set[str]:
        """The names of the figures of the tiny sweep."""
        return {path.stem for path in (self.folder / "results" / "tiny" / "figures" / "tiny").glob("*.png")}

    def page(self) -> str:
        """The page of the tiny sweep."""
        return (self.folder / "results" / "tiny" / "index.html").read_text(encoding="utf-8")

    def stale(self) -> set[str]:
        """The sweeps of the shipped config whose tables are not complete."""
        sweeps = set(yaml.safe_load((self.folder / "config.yaml").read_text(encoding="utf-8"))["sweeps"])
        planned = self.run("-m", "experiments", "plan").partition("total to measure")[0]
        lines = [line for line in planned.splitlines() if line.split()[0] in sweeps]
        assert len(lines) == len(sweeps)
        return {line.split()[0] for line in lines if "complete" not in line}


@pytest.fixture
def repository(tmp_path):
    hidden = shutil.ignore_patterns("__pycache__", ".*", "quick", "walk")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=hidden)
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path)
    return Repository(tmp_path)


def test_a_rule_of_known_factors_needs_no_source(repository):
    table = repository.sweep("saturation", f"{SWEEP}    scaling: [unscaled, d_k^1/2, d_k^1/2/ln(n_keys)]\n")
    assert set(table["scaling"]) == {"unscaled", "d_k^1/2", "d_k^1/2/ln(n_keys)"}
    assert {"variance", "saturation", "gradients", "slide"} == repository.figures()
    assert "d_k^1/2/ln(n_keys)" in repository.page()


def test_a_rule_with_a_factor_of_its_own(repository):
    repository.insert("sdpa/scaling.py", "}", '    "ln(d_k)": lambda d_k, _: math.log(d_k),\n')
    table = repository.sweep("saturation", f"{SWEEP}    scaling: [unscaled, d_k^1/2, d_k^1/2/ln(d_k)]\n")
    rows = table[table["scaling"] == "d_k^1/2/ln(d_k)"]
    assert rows["score_variance_exact"].tolist() == pytest.approx([1.9218120557, 7.6872482226])  # ln(d_k)^2
    assert rows["exponent"].isna().all()
    assert rows["max_weight_exact"].notna().all()
    assert repository.stale() == set()
    assert repository.edited == {"sdpa/scaling.py"}


METRIC = """    Metric(
        "smallest_weight",
        "smallest weight of a row, mean over rows",
        "E min_j w_j",
        "smallest weight of a row",
        of=lambda block: block.of_weights(lambda weights: weights.min(axis=-1)),
        within=(0, lambda cells: 1 / cells.n_keys),
    ),
"""
METRIC_TEST = '''"""The smallest of equal weights is 1/n, and of a one-hot row 0."""

import numpy as np

from experiments.metrics import METRICS
from experiments.row_statistics import Block


def test_the_smallest_weight():
    (metric,) = (metric for metric in METRICS if metric.name == "smallest_weight")
    scores = np.array([[[3.0] * 4, [0.0, -np.inf, -np.inf, -np.inf]]])
    block = Block(np.zeros((1, 2, 1)), scores, [1.0, 2.0], None, 1.0)
    assert metric.of(block).tolist() == [[[0.25, 0.0]]] * 2
'''


def test_a_metric(repository):
    source = repository.folder / "experiments" / "metrics.py"
    text = source.read_text(encoding="utf-8")
    assert text.endswith("\n)\n")
    source.write_text(text[:-2] + METRIC + ")\n", encoding="utf-8")
    repository.edited.add("experiments/metrics.py")
    repository.write("tests/experiments/test_smallest_weight.py", METRIC_TEST)
    table = repository.sweep("saturation", f"{SWEEP}    scaling: [unscaled, d_k^1/2]\n    figures: metrics\n")
    assert table["smallest_weight"].between(0, 1 / 8).all()
    assert (table["smallest_weight_low"] < table["smallest_weight_high"]).all()
    assert "smallest weight of a row" in (repository.folder / "results/tiny/figures/tiny/metrics.svg").read_text()
    columns = pd.read_csv(repository.folder / "results/tiny/columns.csv")
    assert "smallest weight of a row, mean over rows" in set(columns["meaning"])
    repository.run(
        "-m",
        "pytest",
        "-q",
        "tests/experiments/test_smallest_weight.py",
        "tests/experiments/test_saturation.py",
        "tests/experiments/test_each_key.py",
    )
    blocks = yaml.safe_load((repository.folder / "config.yaml").read_text(encoding="utf-8"))["sweeps"]
    with_metrics = ("saturation", "initialisation", "rounding", "distribution")
    measuring = {name for name, sweep in blocks.items() if sweep["experiment"] in with_metrics}
    assert repository.stale() == measuring
    assert repository.edited == {"experiments/metrics.py", "tests/experiments/test_smallest_weight.py"}


LAW = '''

@input_law(0.0, 3 / 2, 0.0, 5 / 2, 0.0, 35 / 8)
def arcsine(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """x = sqrt(2) cos(U), U uniform from 0 to pi; independent entries of the given shape."""
    return math.sqrt(2) * np.cos(rng.uniform(0, math.pi, shape))
'''


def test_an_input_law(repository):
    repository.write("sdpa/inputs.py", LAW)
    test = "tests/sdpa/test_inputs_and_theory.py"
    rule = "(math.sqrt(2) * np.cos(np.pi * (np.arange(5) + 0.5) / 5), np.full(5, 0.2))"
    repository.insert(test, "}\nDISTRIBUTIONS = {", f'    "arcsine": {rule},\n')
    keys = f"{SWEEP}    scaling: [unscaled, d_k^1/2]\n    inputs: [gaussian, arcsine]\n"
    table = repository.sweep("saturation", keys)
    rows = table[table["inputs"] == "arcsine"]
    assert rows["score_kurtosis_exact"].tolist() == pytest.approx([-0.75 / 4] * 2 + [-0.75 / 16] * 2)
    repository.run(
        "-m", "pytest", "-q", test, "tests/sdpa/test_score_moments.py", "tests/experiments/test_saturation.py"
    )
    assert repository.stale() == set()
    assert repository.edited == {"sdpa/inputs.py", test}


EXPERIMENT = '''"""The squared length of a query over d_k, which the spread of its scores follows from."""

import math
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
from annotated_types import Ge, Le

from experiments.harness.columns import Column, Meaning
from experiments.harness.experiment import MEASURED, Experiment, Row
from experiments.harness.metric import Exact, Metric, fields, metric_columns
from experiments.statistics.moments import Estimate, Estimates, Moments

LENGTH = Metric(
    "squared_length",
    "squared length of a query over d_k",
    "E |q|^2 / d_k",
    "$|q|^2 / d_k$",
    exact=Exact("stretch^2", lambda _, cell: cell.stretch**2),
    within=(0, math.inf),
    is_precise=True,
)


@dataclass(frozen=True)
class Cell:
    """One point of the grid."""

    d_k: Annotated[int, Ge(1), Le(2**20), Meaning("width of queries")]
    stretch: Annotated[float, Ge(1e-6), Le(1e6), Meaning("standard deviation of the entries of q")] = 1.0


@dataclass(frozen=True)
class Lengths:
    """Moments of the squared lengths."""

    moments: Moments

    def merge(self, following: Self) -> Self:
        """Both chunks together."""
        return type(self)(self.moments.merge(following.moments))


def measure(cell: Cell, trials: int, rng: np.random.Generator) -> Lengths:
    """The squared lengths of that many queries."""
    queries = cell.stretch * rng.standard_normal((trials, cell.d_k))
    return Lengths(Moments.of((queries**2).mean(axis=1)[None]))


def tabulate(cell: Cell, measured: Lengths) -> dict[str, list[Row]]:
    """One row with the mean."""
    moments = measured.moments
    mean = Estimates.of(moments, {LENGTH.name: Estimate(float(moments.mean[0]), np.ones(1))})
    found = {LENGTH.name: mean.pair(LENGTH.name)}
    return {MEASURED: [{"trials": moments.trials, **fields((LENGTH,), cell, moments.trials, found)}]}


EXPERIMENT = Experiment(
    name="lengths",
    cell=Cell,
    columns=(Column("trials", "int", "queries"), *metric_columns((LENGTH,))),
    metrics=(LENGTH,),
    chunk_trials=lambda _: 1000,
    measure=measure,
    tabulate=tabulate,
    seconds_per_trial=lambda cell: 1e-8 * cell.d_k,
    memory=lambda cell: 16 * 1000 * cell.d_k,
    table_rows=lambda _cell, _trials: 1,
    min_trials=2,
)
'''
FIGURE = """\
        name="lengths",
        shows="The squared length of a query",
        of="lengths",
        metrics=("squared_length",),
        default=Default(),
        lines=Lines("d_k", (Panel("squared_length"),), (6, 3.5)),
    ),
    Figure(
"""
DECLARED = "experiments/figures/declared.py"
LAST = '        name="speed",'


def test_an_experiment_and_its_figure(repository):
    repository.write("experiments/lengths.py", EXPERIMENT)
    repository.insert(DECLARED, LAST, FIGURE)
    table = repository.sweep("lengths", "    d_k: [4, 64]\n    stretch: [1, 2]\n    precision: 0.02\n")
    assert table["squared_length"].tolist() == pytest.approx([1, 4, 1, 4], rel=0.1)
    verdicts = pd.read_csv(repository.folder / "results/tiny/derived/tiny/verdicts.csv")
    assert verdicts["test"].tolist() == ["t"] * 4
    assert verdicts["stretch"].tolist() == [1, 2, 1, 2]
    assert repository.figures() == {"lengths"}
    assert "The squared length of a query" in repository.page()
    tests = ("test_every_experiment.py", "test_lean.py", "test_store.py")
    repository.test("tests/test_architecture.py", *(f"tests/experiments/{name}" for name in tests))
    assert repository.stale() == set()
    assert repository.edited == {"experiments/lengths.py", DECLARED}


def test_a_figure(repository):
    text = FIGURE.replace('"lengths"', '"spread"', 1).replace('of="lengths"', 'of="distribution"')
    repository.insert(DECLARED, LAST, text.replace("squared_length", "score_variance"))
    repository.sweep("distribution", "    d_k: [4, 64]\n    trials: 1000\n    figures: [distribution, spread]\n")
    assert repository.figures() == {"distribution", "spread"}
    assert "The squared length of a query" in repository.page()
    repository.run(
        "-m", "pytest", "-q", "tests/test_architecture.py", "tests/experiments/test_figures.py", "-k", "spread"
    )
    assert repository.edited == {DECLARED}


def test_a_published_statement(repository):
    shipped = (repository.folder / "results/statements/statements.csv").read_text(encoding="utf-8")
    name = f"qa-{1 + max(map(int, re.findall(r'qa-([0-9]+)', shipped)))}"
    repository.write("experiments/claims/claims.csv", f"{name},Two and two are five.,5,count,slip,2 + 2\n")
    repository.write("experiments/claims/notes.csv", f"{name},The sum is 4\n")
    repository.run("-m", "experiments", "statements")
    table = pd.read_csv(repository.folder / "results/statements/statements.csv").set_index("id")
    assert table.loc[name, ["computed", "verdict"]].tolist() == ["4", "wrong"]
    repository.test("tests/experiments/claims")
    assert repository.edited == {"experiments/claims/claims.csv", "experiments/claims/notes.csv"}
