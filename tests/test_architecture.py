"""Imports run one way: sdpa <- experiments <- command line; no figure imports a runner, no runner a figure."""

import ast
import re
from pathlib import Path

import pytest

from experiments.figures.declared import FIGURES
from experiments.harness.discovery import experiment_names

ROOT = Path(__file__).parents[1]

# What the modules under a folder (or the module itself) may import of this repository.
ALLOWED = {
    "sdpa": {"sdpa"},
    "experiments/statistics": {"experiments.statistics"},
    "experiments/*.py": {
        "sdpa",
        "experiments.folders",  # of findings
        "experiments.harness",
        "experiments.statistics",
        "experiments.sampling",
        "experiments.metrics",
        "experiments.second_kernel",
        "experiments.row_statistics",
        "experiments.other_words",
        "experiments.rounding_metrics",
        "experiments.training_metrics",
    },
    "experiments/commands.py": {
        "sdpa",
        "experiments.folders",
        "experiments.commands",
        "experiments.examples",
        "experiments.harness",
    },
    "experiments/steps": {
        "sdpa",
        "experiments.findings",
        "experiments.folders",
        "experiments.steps",
        "experiments.harness",
        "experiments.analysis",
        "experiments.diagnosis",
        "experiments.examples",
        "experiments.figures",
        "experiments.page",
        "experiments.claims",
    },
    "experiments/claims": {
        "sdpa",
        "experiments.folders",
        "experiments.claims",
        "experiments.analysis.bands",
        "experiments.examples",
    },
    "experiments/examples": {"sdpa", "experiments.examples", "experiments.figures"},
    "experiments/diagnosis": {
        "sdpa",
        "experiments.diagnosis",
        "experiments.harness",
        "experiments.training",
    },
    "experiments/harness": {
        "sdpa._names",
        "experiments.harness",
        "experiments.statistics",
        "experiments.__path__",
        "experiments.figures.declared",
    },
    "experiments/analysis": {
        "sdpa",
        "experiments.analysis",
        "experiments.harness",
        "experiments.statistics",
        "experiments.distribution",
        "experiments.training",
    },
    "experiments/figures": {
        "experiments.figures",
        "experiments.harness",
        "experiments.analysis.bands",
        "experiments.analysis.crossings",
        "experiments.analysis.slopes",
        "experiments.diagnosis.table",
        "sdpa.training",
    },
    "experiments/page": {
        "sdpa",
        "experiments.findings",
        "experiments.folders",
        "experiments.examples",
        "experiments.diagnosis.table",
        "experiments.figures",
        "experiments.harness",
        "experiments.page",
        "experiments.analysis.bands",
        "experiments.training_metrics",
        "experiments.analysis.crossings",
        "experiments.analysis.slopes",
        "experiments.analysis.agreement",
        "experiments.analysis.overview",
        "experiments.analysis.derived",
        "experiments.claims",
    },
}
# Within what is allowed above: what a drawing or page must not reach.
_MEASURING = {f"experiments.harness.{name}" for name in ("run", "local")}
FORBIDDEN = {"experiments/figures": _MEASURING, "experiments/page": _MEASURING}
# The library computes; it reads no file, table or figure.
LIBRARY = {"numpy", "scipy"}
OPTIONAL = {"sdpa/arithmetic.py": {"ml_dtypes"}}  # imported only by the function that needs it


def imported(source: str) -> set[str]:
    """Every module that a source imports; of `from package import name` the longer name, which may be a module."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def trespasses(place: str, source: str) -> list[str]:
    """What a source under a place imports of this repository and may not."""

    def within(name: str, parts: set[str]) -> bool:
        return any(name == part or name.startswith(f"{part}.") for part in parts)

    ours = [name for name in imported(source) if within(name, {"sdpa", "experiments"})]
    return [name for name in ours if not within(name, ALLOWED[place]) or within(name, FORBIDDEN.get(place, set()))]


def modules(place: str) -> list[Path]:
    if place.endswith(".py"):
        own = {ROOT / other for other in ALLOWED if other != place}
        return sorted(path for path in ROOT.glob(place) if not path.name.startswith("__") and path not in own)
    return sorted((ROOT / place).rglob("*.py"))


@pytest.mark.parametrize("place", ALLOWED)
def test_imports_stay_within_what_is_allowed(place):
    for path in modules(place):
        assert trespasses(place, path.read_text()) == [], path


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("experiments/harness", "from experiments import saturation"),
        ("experiments/harness", "import experiments.figures.style"),
        ("experiments/figures", "from experiments.harness import run"),
        ("experiments/figures", "from experiments.harness.run import measure_missing"),
        ("experiments/figures", "from sdpa import theory"),
        ("sdpa", "from experiments.harness import grid"),
        ("experiments/*.py", "from experiments.analysis import analyse"),
    ],
)
def test_a_planted_import_is_found(place, source):
    assert trespasses(place, source)


def test_every_module_is_under_a_rule():
    ruled = {path for place in ALLOWED for path in modules(place)}
    every = {path for folder in ("sdpa", "experiments") for path in modules(folder)}
    assert {path.name for path in every - ruled} == {"__init__.py", "__main__.py"}


def test_the_library_needs_numpy_and_scipy_alone():
    import sys

    for path in modules("sdpa"):
        source = path.read_text()
        optional = OPTIONAL.get(path.relative_to(ROOT).as_posix(), set())
        for name in imported(source):
            top = name.split(".")[0]
            assert top in LIBRARY | optional | {"sdpa"} | set(sys.stdlib_module_names), f"{path}: {name}"
            assert top not in {"io", "pathlib", "os", "csv", "json"}, f"{path}: {name}"
        at_import = "\n".join(ast.unparse(node) for node in ast.parse(source).body if "Import" in type(node).__name__)
        assert not optional & {name.split(".")[0] for name in imported(at_import)}, path


def test_theory_draws_no_random_number():
    for path in modules("sdpa/theory"):
        assert not re.search(r"default_rng|np\.random|import random|\.sample\(", path.read_text()), path


LOCKS = sorted(ROOT.glob("requirements*.lock"))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_the_lock_names_no_index_and_every_requirement_has_a_hash(lock):
    text = lock.read_text()
    assert "://" not in text
    for requirement in re.split(r"\n(?=\S)", text.strip()):
        assert "==" in requirement
        assert "--hash=sha256:" in requirement


def test_the_locks_agree_and_a_run_installs_no_tool_of_development():
    pins = [re.findall(r"^([\w.-]+)==(\S+)", lock.read_text(), re.MULTILINE) for lock in LOCKS]
    versions = [{name: {pin for other, pin in pinned if other == name} for name, _ in pinned} for pinned in pins]
    for name in set().union(*versions):
        found = [of[name] for of in versions if name in of]
        assert all(one == found[0] for one in found), name
    assert len(LOCKS) == 5
    assert not {"pytest", "mypy", "ruff", "hypothesis", "jsonschema"} & set(
        dict(pins[LOCKS.index(ROOT / "requirements.lock")])
    )


def names_of_clients(source: str) -> set[str]:
    """Strings of a source, docstrings aside, that name an experiment, a figure or a sibling package of the harness."""
    siblings = {f"experiments.{path.name}" for path in (ROOT / "experiments").iterdir() if path.is_dir()}
    clients = {*experiment_names(), *FIGURES, *siblings} - {"experiments.harness"}
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = [node.value for node in nodes if isinstance(node, ast.Expr)]
    constants = (node for node in nodes if isinstance(node, ast.Constant) and node not in docstrings)
    return {node.value for node in constants if isinstance(node.value, str) and node.value in clients}


def test_the_harness_names_no_client():
    for path in modules("experiments/harness"):
        assert names_of_clients(path.read_text()) == set(), path
    assert names_of_clients(
        '_ANALYSIS = "experiments.analysis"\nif name == "saturation" or "map" in figures: pass'
    ) == {
        "experiments.analysis",
        "saturation",
        "map",
    }
