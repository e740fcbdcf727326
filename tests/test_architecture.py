"""Imports go one way and never in a circle: the library imports nothing of the suite, and measuring
loads no tables, figures or pages.
"""

import ast
import graphlib
import io
import re
import sys
import tokenize
from functools import cache

import pytest

import sdpa
from experiments.kinds import experiment_names
from experiments.studies import study_names
from tests.examples import hashed_files
from tests.suite_process import ROOT

MODULES = {
    path.relative_to(ROOT)
    .with_suffix("")
    .as_posix()
    .replace("/", ".")
    .removesuffix(".__init__"): path
    for folder in ("sdpa", "experiments", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
}
SLOW = {"pandas", "matplotlib", "seaborn", "typer", "rich"}
ORDER = [
    "one_page",
    "measuring",
    "kinds",
    "config",
    "running",
    "tables",
    "figures",
    "studies",
    "page",
    "commands",
    "__main__",
]
LATER = SLOW | {f"experiments.{name}" for name in ORDER[3:]}


@cache
def imported(source, *, at_import=False):
    """Every module that a source imports; with `at_import`, without those that functions and type
    checkers import.
    """
    tree = ast.parse(source)
    modules = set()
    for node in tree.body if at_import else ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            modules |= {name if name in MODULES else str(node.module) for name in names}
    return modules


SOURCES = {name: path.read_text() for name, path in MODULES.items()}


def reached(start):
    """The module, what it imports when it is imported, and what that imports."""
    modules, waiting = set(), [start]
    while waiting:
        name = waiting.pop()
        if name not in modules:
            modules.add(name)
            waiting += imported(SOURCES.get(name, ""), at_import=True)
    return modules


def trespasses(names, forbidden):
    return {
        name
        for name in names
        if any(name == one or name.startswith(f"{one}.") for one in forbidden)
    }


def test_the_library_computes_with_numpy_and_scipy_alone():
    """It imports nothing of the suite; other libraries are loaded by the function that needs them.
    Only `sdpa.tools.heads` and the command read and write files.
    """
    late = {"ml_dtypes", "pandas", "torch", "transformers"}
    of_files = {
        "sdpa.tools.heads": {"pathlib", "json"},
        "sdpa.tools.command": {"pathlib", "json", "csv", "io"},
    }
    of_files["sdpa.__main__"] = of_files["sdpa.tools.command"]
    files = {"io", "pathlib", "os", "csv", "json"}
    allowed = {"sdpa", "numpy", "scipy"} | set(sys.stdlib_module_names) - files
    for name, source in SOURCES.items():
        if name.startswith("sdpa"):
            here = allowed.union(*(of_files[part] for part in of_files if name.startswith(part)))
            own = {one.split(".")[0] for one in imported(source)}
            assert own <= here | late, name
            assert {one.split(".")[0] for one in reached(name)} <= here, name
        if name.startswith("sdpa.theory"):
            draws = r"default_rng|np\.random|import random|\.sample\("
            assert not re.search(draws, source), name


@pytest.mark.parametrize("part, later", [("cell", LATER), ("figures", SLOW)])
@pytest.mark.parametrize("name", experiment_names())
def test_measuring_and_declarations_load_no_table_or_drawing(name, part, later):
    assert trespasses(reached(f"experiments.kinds.{name}.{part}"), later) == set()


@pytest.mark.parametrize("experiment", experiment_names())
def test_what_measures_imports_what_its_hash_covers(experiment):
    """Apart from theory, and the names that `sdpa` itself offers."""
    files = hashed_files(experiment)
    hashed = {name for name, path in MODULES.items() if path in files}
    assert f"experiments.kinds.{experiment}.cell" in hashed
    for name in hashed:
        others = imported(SOURCES[name]) & {*MODULES} - hashed
        assert others <= {"sdpa", "sdpa.theory"}, name


def offered_names(source):
    """The names that a source takes from `sdpa` itself.

    >>> sorted(offered_names("from sdpa import audit, softmax"))
    ['audit', 'softmax']
    """
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return {alias.name for node in nodes if node.module == "sdpa" for alias in node.names}


def test_nothing_needs_the_tools_but_their_samples_and_studies():
    """`sdpa` offers their functions by name, and `python -m sdpa` is their command."""
    apart = "sdpa.tools", "sdpa.__main__", "experiments.studies", "experiments.page.diagnosis"
    for name, source in SOURCES.items():
        if name != "sdpa" and not name.startswith(apart):
            assert trespasses(imported(source), {"sdpa.tools"}) == set(), name
            assert offered_names(source).isdisjoint(sdpa._LATE), name


def test_a_checker_knows_the_names_that_are_loaded_late_and_dir_has_no_other():
    """A checker reads the block of its own; what only helps is no name of the library."""
    block = next(node for node in ast.parse(SOURCES["sdpa"]).body if isinstance(node, ast.If))
    typed = imported(ast.unparse(block.body))
    assert {f"sdpa.tools.{module}" for module in sdpa._LATE.values()} | {"sdpa.theory"} == typed
    of_all = {alias.name for node in block.body for alias in node.names}
    assert of_all == {*sdpa._LATE, "theory"}
    others = {name for name in dir(sdpa) if not name.startswith("_")} - {*sdpa.__all__}
    assert others <= {name.removeprefix("sdpa.") for name in MODULES}


def folder_of(name):
    """The folder of a module; derived tables and drawings of an experiment count as those of all."""
    folder, *parts = name.split(".")[1:]
    of_all = {"tables": "tables", "drawing": "figures"}
    return of_all.get(parts[-1], folder) if folder == "kinds" and parts else folder


def test_a_folder_imports_only_those_before_it():
    """Within functions, too."""
    folders = set()
    for name, source in SOURCES.items():
        if name.startswith("experiments."):
            own = folder_of(name)
            folders.add(own)
            after = ORDER[ORDER.index(own) + 1 :]
            later = {f"experiments.{one}" for one in after}
            assert trespasses(imported(source), later) == set(), name
    assert folders == {*ORDER}


@pytest.mark.parametrize("study", study_names())
def test_only_a_study_and_its_command_know_it(study):
    own = f"experiments.studies.{study}"
    for name, source in SOURCES.items():
        if name != "experiments.__main__" and not name.startswith(own):
            assert trespasses(imported(source), {own}) == set(), name


def test_no_modules_import_each_other_in_a_circle():
    graph = {name: imported(source, at_import=True) - {name} for name, source in SOURCES.items()}
    assert list(graphlib.TopologicalSorter(graph).static_order())


BUDGETS = re.findall(
    r"^\| (`[^|]+`) \| ([\d,]+) \|", (ROOT / "experiments" / "README.md").read_text(), re.MULTILINE
)
TOOLS = ROOT / "sdpa" / "tools"
assert [names for names, _ in BUDGETS] == ["`sdpa`, `experiments`", "`sdpa/tools`", "`tests`"]


def tokens_of(source):
    """Tokens without comments, layout and docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = sum(
        isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None
        for node in ast.walk(ast.parse(source))
    )
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    code = [one.string for one in tokens if one.type != tokenize.COMMENT and one.string.strip()]
    return len(code) - docstrings


@pytest.mark.parametrize("folders, budget", BUDGETS)
def test_folders_stay_within_their_budget(folders, budget):
    """The tools have one of their own."""
    named = [ROOT / folder for folder in re.findall(r"[\w/]+", folders)]
    files = {path for folder in named for path in folder.rglob("*.py")}
    if TOOLS not in named:
        files -= {*TOOLS.rglob("*.py")}
    actual = sum(tokens_of(path.read_text()) for path in files)
    asked = f"{folders}: {actual} tokens; raise the budget in experiments/README.md, and say why"
    assert 0 < actual <= int(budget.replace(",", "")), asked


LOCKS = sorted(ROOT.glob("requirements*.lock"))


def test_the_locks_name_no_index_and_agree_and_every_requirement_has_a_hash():
    assert len(LOCKS) == 7
    versions = {}
    for lock in LOCKS:
        text = lock.read_text()
        assert "://" not in text
        for requirement in re.split(r"\n(?=\S)", text.strip()):
            assert "--hash=sha256:" in requirement
            name, version = re.match(r"([\w.-]+)==(\S+)", requirement).groups()
            versions.setdefault(name, {}).setdefault(lock.name, set()).add(version)
    for name, of_locks in versions.items():
        assert len({frozenset(locked) for locked in of_locks.values()}) == 1, name
    assert not any(
        "requirements.lock" in versions[tool] for tool in ("pytest", "mypy", "ruff", "hypothesis")
    )


def test_names_say_what_a_value_is():
    vague = {"apart", "each", "found", "knows", "one", "parts", "told", "what"}
    for name, source in SOURCES.items():
        nodes = ast.walk(ast.parse(source))
        names = {getattr(node, field, "") for node in nodes for field in ("id", "arg", "name")}
        assert vague.isdisjoint(names), name
