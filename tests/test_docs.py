"""README.md and other pages: generated parts are those of results/, examples print what pages say,
links and cases work. `test_numbers.py` compares numbers in sentences.
"""

import doctest
import re
import shutil

import pandas as pd
import pytest

from experiments.config.loader import load_config
from experiments.config.paths import STORED_CONFIG
from experiments.kinds import experiment_names
from experiments.kinds.support import significant
from experiments.measuring.columns import cell_fields, defaults
from experiments.measuring.experiment import load_experiment
from experiments.page.blocks import BlockError, rewrite
from experiments.tables.crossings import EQUAL
from sdpa import LAWS, PairLaw, Scaling
from sdpa.scaling import FUNCTIONS
from sdpa.theory import attention_expectations, limits
from tests.prose import PAGES
from tests.shipped import IS_SHIPPED, OF_CONFIG, RESULTS, shipped_only
from tests.suite_process import ROOT

DOCS, OF_CASES = ROOT / "docs", PAGES["docs/cases.md"]
AT_PATHS = {ROOT / name: text for name, text in PAGES.items()}
FIGURES = RESULTS / "figures"


@shipped_only
def test_generated_parts_are_those_of_the_results():
    for path, text in rewrite(AT_PATHS, RESULTS).items():
        assert AT_PATHS[path] == text, path


@shipped_only
def test_a_table_that_a_page_lacks_is_named(tmp_path):
    shutil.copy(RESULTS / STORED_CONFIG, tmp_path)
    message = r"^block [a-z-]+: .*\.csv is missing .*; make all writes tables; "
    with pytest.raises(BlockError, match=message):
        rewrite(AT_PATHS, tmp_path)


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_readme_is_short_and_soon_says_what_to_type():
    words = PAGES["README.md"].split()
    assert len(words) <= 900
    assert words.index("make") <= 200


def test_ci_calls_the_commands_of_the_start_as_written():
    (start,) = (block for block in blocks(PAGES["README.md"], "sh") if "git clone" in block)
    commands = [line.partition("#")[0].strip() for line in start.splitlines()]
    assert {"make quick", "make test"} < {*commands}
    called = [re.sub(r" \|.*", "", line) for line in (ROOT / ".ci/run").read_text().splitlines()]
    assert [one for one in commands if one.startswith("make")] == [
        line for line in called if line in commands
    ]


def test_deployed_scales_and_bugs_are_what_their_rules_give():
    """A row of docs/deployed.csv, computed again and on the page, for each."""
    lengths = {"1k": 2**10, "32k": 2**15, "1M": 2**20}
    for row in pd.read_csv(DOCS / "deployed.csv", keep_default_na=False, dtype=str).itertuples():
        d_k, rule = int(row.d_k), Scaling.parse(row.rule)
        law = PairLaw(normalize=row.normalize or "none")
        shown = [row.d_k, f"`{row.rule}`"]
        if row.got:
            spread = rule.divisor(d_k, 1) / Scaling.parse(row.got).divisor(d_k, 1)
            assert f"{spread:.2f}" == row.spread
            shown = [row.d_k, f"`{row.got}`", f"`{row.rule}`", row.spread]
        else:
            entropies = [
                attention_expectations(d_k, n, rule.divisor(d_k, n), law).entropy
                for n in lengths.values()
            ]
            recorded = [row._asdict()[f"_{place}"] for place in (6, 7, 8)]
            assert [f"{entropy:.3f}" for entropy in entropies] == recorded
            shown += recorded
        (line,) = (
            line
            for line in PAGES["docs/your-model.md"].splitlines()
            if row.what in line and row.source in line
        )
        assert line.endswith(f"| {' | '.join(shown)} |"), line


@shipped_only
def test_the_exact_crossing_is_one_number_in_all_tables():
    """Tables interpolate it between their d_k; its first two digits are those of theory."""
    for sweep in ("crossing", "dimension", "phase"):
        rows = OF_CONFIG[sweep]["crossings"].query(
            f"norm == 'query_gradient' and statistic == 'median' and level == {EQUAL}"
        )
        known = rows.dropna(subset="crossing_exact").query("n_keys >= 8").set_index("n_keys")
        assert 64 in known.index
        for n_keys, crossing in known["crossing_exact"].items():
            of_theory = limits.median_crossing("query_gradient_norm", int(n_keys))
            assert significant(crossing, 2) == significant(of_theory, 2)


@shipped_only
def test_the_code_of_first_steps_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    names = {}
    for page in ("docs/cases.md", "results/README.md"):
        for block in blocks(PAGES[page], "python"):
            exec(block, names)
    (general,) = re.findall(r"^table.*unstack.*$", OF_CASES, re.MULTILINE)
    (first,) = re.findall(r"`(pd\.read_csv.*pivot.*?)`", PAGES["README.md"])
    for line in (general, first):
        assert [*eval(line, names)] == ["d_k^1/2", "d_k^1/3", "d_k^2/3", "unscaled"]


WITH_LINKS = PAGES | {f"docs/{path.name}": path.read_text() for path in DOCS.glob("*.ipynb")}


def anchors(path):
    """The anchors that a forge gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    plain = (re.sub(r"<[^>]+>|[^\w\- ]", "", one) for one in headings)
    return {one.lower().replace(" ", "-") for one in plain}


@pytest.mark.parametrize("name", WITH_LINKS)
def test_links_lead_to_files_and_headings(name):
    page = ROOT / name
    for link, anchor in re.findall(r"\]\((?!https:)([^)#]*)#?([^)]*)\)", WITH_LINKS[name]):
        path = (page.parent / link).resolve() if link else page
        # Figures of sweeps are those of the shipped config; a user may have deleted a sweep.
        if IS_SHIPPED or FIGURES not in path.parents:
            assert path.exists(), link
            assert not anchor or anchor in anchors(path), f"{link}#{anchor}"


def test_every_named_module_exists():
    """Paths of Python files in README.md and docs, below the root, `experiments/` or `sdpa/`."""
    named = {
        (page, path) for page, text in PAGES.items() for path in re.findall(r"`([\w/]+\.py)`", text)
    }
    assert [
        one
        for one in sorted(named)
        if not any((ROOT / below / one[1]).exists() for below in ("", "experiments", "sdpa"))
    ] == []


def shown(value):
    return f"{value:g}" if isinstance(value, float) else str(value)


def test_every_config_key_is_described_with_its_default():
    """The page may also describe an experiment whose folder is deleted."""
    table = OF_CASES.split("| key | meaning")[1].split("\n\n")[0]
    described = dict(re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", table, re.MULTILINE))
    cells = [load_experiment(name).cell for name in experiment_names()]
    of_every_sweep = {"experiment", "variants", "trials", "precision", "max_trials", "figures"}
    assert set(described) >= of_every_sweep.union(*map(cell_fields, cells))
    assert all(f"`{name}`" in OF_CASES for name in (*FUNCTIONS, *LAWS))
    usual = {name: value for cell in reversed(cells) for name, value in defaults(cell).items()}
    for name, value in usual.items():
        default, *exceptions = described[name].split("; ")
        assert default.strip("`") == shown(value)
        expected = []
        for experiment, cell in zip(experiment_names(), cells, strict=True):
            if name in cell_fields(cell) and name not in defaults(cell):
                expected.append(f"required for `{experiment}`")
            elif name in defaults(cell) and defaults(cell)[name] != value:
                expected.append(f"{shown(defaults(cell)[name])} for `{experiment}`")
        assert {*exceptions} >= {*expected}


_FENCE = re.compile(r"^[ \t]*(```|~~~).*$", re.MULTILINE)


def failures(text, name, report):
    """The number of `>>>` examples that print something else than the page says, all in one
    namespace.
    """
    # Without fences, which doctest would read as output; every line keeps its number.
    test = doctest.DocTestParser().get_doctest(
        _FENCE.sub("", text), {"__name__": "__main__"}, name, name, 0
    )
    return doctest.DocTestRunner().run(test, out=report.append).failed


@pytest.mark.parametrize("name", [name for name, text in PAGES.items() if ">>> " in text])
def test_a_page_prints_what_its_examples_print(name):
    report = []
    assert failures(PAGES[name], name, report) == 0, "".join(report)


# Those of experiments that are there.
CASES = {
    title: text
    for title, text in re.findall(r"^##+ (.+)\n\n```yaml\n([^`]*)```", OF_CASES, re.MULTILINE)
    if {*re.findall(r"experiment: (\w+)", text)} <= {*experiment_names()}
}


@pytest.mark.parametrize("title", CASES)
def test_the_config_of_a_case_loads_and_is_short(title, tmp_path):
    assert len(CASES[title].splitlines()) <= 12
    path = tmp_path / "case.yaml"
    path.write_text(CASES[title])
    load_config(path)
