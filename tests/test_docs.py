"""README.md and other pages: numbers are those of results/, examples print what pages say, commands,
links and cases work.
"""

import doctest
import re
import shutil

import numpy as np
import pandas as pd
import pytest

from experiments.analysis.crossings import EQUAL
from experiments.config.loader import load_config
from experiments.kinds import experiment_names
from experiments.measuring.columns import cell_fields, defaults
from experiments.measuring.experiment import load_experiment
from experiments.pages.blocks import BlockError, rewrite
from experiments.paths import STORED_CONFIG, csv_name
from sdpa import Scaling
from sdpa.theory import attention_expectations, largest_score_survival
from tests.shipped import IS_SHIPPED, RESULTS, shipped_only
from tests.suite_process import ROOT

README, DOCS = ROOT / "README.md", ROOT / "docs"
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (
        README,
        *sorted(DOCS.glob("*.md")),
        *sorted(RESULTS.glob("*.md")),
        *sorted(RESULTS.glob("*/*.md")),
        ROOT / "experiments" / "README.md",
    )
}
FIGURES = RESULTS / "figures"
_RULES = re.findall(r"^([a-z][a-z\\\s-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
TARGETS = set(re.findall("[a-z-]+", " ".join(_RULES)))


@shipped_only
def test_generated_parts_are_those_of_the_results():
    pages = {ROOT / name: text for name, text in PAGES.items()}
    for path, text in rewrite(pages, RESULTS).items():
        assert pages[path] == text, path


@shipped_only
def test_a_table_that_a_page_lacks_is_named(tmp_path):
    shutil.copy(RESULTS / STORED_CONFIG, tmp_path)
    with pytest.raises(
        BlockError, match=r"^block [a-z-]+: found no .*\.csv; make all writes the tables$"
    ):
        rewrite({ROOT / name: text for name, text in PAGES.items()}, tmp_path)


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_pages_are_short():
    assert len(README.read_bytes()) < 6_000
    sizes = {path.name: path.stat().st_size for path in DOCS.glob("*.md")}
    assert {name: size for name, size in sizes.items() if size >= 12_000} == {}


def test_deployed_scales_and_bugs_are_what_their_rules_give():
    """A row of docs/deployed.csv, computed again and on the page, for each."""
    lengths = {"1k": 2**10, "32k": 2**15, "1M": 2**20}
    for row in pd.read_csv(DOCS / "deployed.csv", keep_default_na=False, dtype=str).itertuples():
        d_k, rule = int(row.d_k), Scaling.parse(row.rule)
        shown = [row.d_k, f"`{row.rule}`"]
        if row.got:
            spread = rule.divisor(d_k, 1) / Scaling.parse(row.got).divisor(d_k, 1)
            assert f"{spread:.2f}" == row.spread
            shown = [row.d_k, f"`{row.got}`", f"`{row.rule}`", row.spread]
        else:
            entropies = [
                attention_expectations(d_k, n, rule.divisor(d_k, n)).entropy
                for n in lengths.values()
            ]
            recorded = [row._asdict()[f"_{place}"] for place in (6, 7, 8)]
            assert [f"{entropy:.3f}" for entropy in entropies] == recorded
            shown += recorded
        (line,) = (
            line
            for line in PAGES["docs/models.md"].splitlines()
            if row.what in line and row.source in line
        )
        assert line.endswith(f"| {' | '.join(shown)} |"), line


def test_the_ranges_of_number_formats_are_those_of_the_law():
    part = PAGES["docs/methods.md"].partition("## Number formats")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (.*) \| (.*) \| (.*) \|$", part, re.MULTILINE)
    assert len(rows) == 5
    for d_k, divisor, median, *shares in rows:

        def beyond(score, d_k=int(d_k), divisor=int(divisor)):
            return largest_score_survival(score * divisor, d_k, 4096)

        ends = np.log([65504, 3.39e38])
        assert [f"{beyond(end):.0%}" for end in ends] == shares
        assert beyond(float(median) - 0.05) > 0.5 > beyond(float(median) + 0.05)


@shipped_only
def test_readme_states_what_the_tables_show():
    dimension = pd.read_csv(RESULTS / "dimension.csv").set_index(["scaling", "d_k"])
    weights = dimension["max_weight_exact"]
    (from_4_on,) = weights["d_k^1/2"].map("{:.0%}".format).unique()
    median = dimension["query_gradient_norm_median_exact"]
    crossing = pd.read_csv(RESULTS / "crossing.csv").query("n_keys == 64 and d_k == 2048")
    wide = crossing.set_index("scaling")
    wide_mean = wide["query_gradient_norm_exact"]
    wide_median = wide["query_gradient_norm_median_exact"]
    crossings = pd.read_csv(RESULTS / csv_name("phase", "crossings")).query(
        f"statistic == 'median' and level == {EQUAL}"
    )
    equal_at = crossings.set_index(["norm", "n_keys"])["crossing_exact"]
    of_gradient = equal_at["query_gradient"]
    full = RESULTS / "config.full"
    small = pd.read_csv(full / "llama.csv").query("scheme == 'gpt2'")
    small = small.set_index("scaling")["stream_gradient_growth"]
    trained = pd.concat(
        pd.read_csv(full / csv_name(name, "bands")) for name in ("language", "language_wide")
    ).query("initial_divisor == 'unscaled'")
    losses = trained.set_index(["initial", "d_k", "scaling"]).filter(like="final_loss")
    losses = losses.apply(lambda loss: "{:.2f} ({:.2f}–{:.2f})".format(*loss), axis=1)
    rules = ["unscaled", "d_k^1/2"]
    columns = [(d_k, rule) for d_k in (64, 512) for rule in rules]
    of_64 = trained.query("d_k == 64").set_index(["initial", "scaling"])["final_loss"]
    plain, scaled = of_64["unit"][rules]
    small_plain, small_scaled = of_64["small"][rules]
    blind = pd.read_csv(full / csv_name("language_uniform", "bands")).query("layers == 4")
    decoders = pd.read_csv(full / "language.csv").query(
        "initial == 'unit' and initial_divisor == 'unscaled'"
    )
    after = {
        rule: rows.loc[rows["final_loss"].idxmin()] for rule, rows in decoders.groupby("scaling")
    }
    runs = pd.concat(map(pd.read_csv, sorted(full.glob("language*.csv"))))
    setting = [
        "d_k",
        "layers",
        "n_heads",
        "initial_divisor",
        "warmup",
        "clip",
        "initial",
        "optimizer",
    ]
    best = runs.query("rate_divisor == 'unscaled'").sort_values("final_loss")
    of_rules = best.drop_duplicates([*setting, "scaling"]).set_index(setting).groupby("scaling")
    ends = ["final_loss", "query_gradient_median_after", "query_gradient_after"]
    at_end, scaled_at_end = (of_rules.get_group(rule)[ends] for rule in rules)
    ratios = (at_end / scaled_at_end).dropna()
    worse = ratios["final_loss"] > 1
    vanish = ratios["query_gradient_median_after"] < 1 / 10
    assert (ratios["query_gradient_after"] > 1).all()
    deep = pd.read_csv(RESULTS / "network.csv").query("layers == 48").set_index("scaling")
    explosion = deep["stream_gradient_growth"]
    text = " ".join(README.read_text(encoding="utf-8").replace("$", "").split())
    for stated in (
        *(
            "".join(f"| {losses[start][column]} " for column in columns)
            for start in losses.index.unique("initial")
        ),
        f"at d_k = 512, the largest of 64 weights averages {weights['unscaled', 512]:.0%}; "
        f"with it, {from_4_on} at every d_k from 4 to 512.",
        f"up to d_k ≈ {of_gradient.round(-1)[64]:.0f} with 64 keys ({of_gradient[4]:.0f} with 4 keys)",
        f"mean largest of 64 weights, d_k = 512 | {weights['unscaled', 512]:.0%} "
        f"| {weights['d_k^1/2', 512]:.0%} |",
        f"median of \\|∂L/∂q\\| over queries, 64 keys, d_k = 64 | {median['unscaled', 64]:.2f} "
        f"| {median['d_k^1/2', 64]:.2f} |",
        f"the same, d_k = 2,048 | {wide_median['unscaled']:.4f} | {wide_median['d_k^1/2']:.2f} |",
        f"back to 1 (pre-norm) | ≈1,000,000× | {explosion['d_k^1/2']:.0f}× |",
        f"a tenth of the scaled ones) in {vanish.sum()} of {len(vanish)} settings",
        f"**True in {vanish.sum()} of {len(vanish)} settings** | median \\|∂L/∂q\\|",
        f"<10⁻⁷ | {after['d_k^1/2'].query_gradient_median_after:.2f} |",
        f"**True in {worse.sum()} of {len(worse)} settings** | loss of this decoder, nats per "
        f"character | {plain:.2f} | {scaled:.2f} |",
        f"the same loss from weights N(0, 0.02²) | {small_plain:.2f} | {small_scaled:.2f} |",
        f"is smaller unscaled from d_k = {equal_at['jacobian', 64]:.0f} on:",
        *(f"ignoring q and k: {loss:.1f}:" for loss in blind["final_loss"]),
    ):
        assert stated in text
    assert 0.9e6 < explosion["unscaled"] < 1.1e6
    assert small["d_k^1/2"] < small["unscaled"] < 2
    unscaled = after["unscaled"]
    assert unscaled["query_gradient_median_after_high"] < 1e-7
    assert unscaled["query_gradient_after_low"] > after["d_k^1/2"]["query_gradient_after_high"]
    assert wide_mean["unscaled"] > wide_mean["d_k^1/2"]
    assert 0 < small_plain - small_scaled < (plain - scaled) / 2
    # Of docs/training.md.
    assert unscaled["max_weight_after_low"] > 0.95
    assert 1.8 < unscaled["query_gradient_after"] / unscaled["query_gradient_before"] < 2.5


@shipped_only
def test_the_code_of_first_steps_runs(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(ROOT)
    for block in blocks(PAGES["docs/README.md"], "python"):
        exec(block, {})
    assert "unscaled" in capsys.readouterr().out
    (config,) = blocks(PAGES["docs/README.md"], "yaml")
    (tmp_path / "mine.yaml").write_text(config)
    assert load_config(tmp_path / "mine.yaml").sweeps[0].name == "wide"


@pytest.mark.parametrize("name", PAGES)
def test_commands_are_targets_and_links_lead_somewhere(name):
    commands = re.findall(r"(?:^|`)make ([a-z-]+)", PAGES[name], re.MULTILINE)
    assert set(commands) <= TARGETS
    links = [
        (ROOT / name).parent / link for link in re.findall(r"\]\((?!https:)([^)#]+)\)", PAGES[name])
    ]
    missing = [link.resolve() for link in links if not link.exists()]
    # Figures of sweeps are those of the shipped config; a user may have deleted a sweep.
    assert [link for link in missing if IS_SHIPPED or FIGURES not in link.parents] == []


def anchors(text):
    """The anchors that a forge gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"<[^>]+>", "", one)).lower().replace(" ", "-")
        for one in headings
    }


def test_links_lead_to_headings():
    notebooks = {
        f"docs/{path.name}": path.read_text(encoding="utf-8") for path in DOCS.glob("*.ipynb")
    }
    wrong = [
        f"{name}: {page}#{anchor}"
        for name, text in {**PAGES, **notebooks}.items()
        for page, anchor in re.findall(r"\]\((?!https:)([\w/.-]*\.md)?#([^)]+)\)", text)
        if anchor
        not in anchors(
            ((ROOT / name).parent / page if page else ROOT / name).read_text(encoding="utf-8")
        )
    ]
    assert wrong == []


def test_every_named_module_exists():
    """Paths of Python files in README.md and docs, below the root, `experiments/` or `sdpa/`."""
    named = {
        (page, path) for page, text in PAGES.items() for path in re.findall(r"`([\w/]+\.py)`", text)
    }
    assert len(named) > 30
    assert [
        one
        for one in sorted(named)
        if not any((ROOT / below / one[1]).exists() for below in ("", "experiments", "sdpa"))
    ] == []


def shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def test_every_config_key_is_described_with_its_default():
    table = PAGES["docs/config.md"].split("| key | meaning")[1].split("\n\n")[0]
    described = dict(re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", table, re.MULTILINE))
    cells = [load_experiment(name).cell for name in experiment_names()]
    of_every_sweep = {"experiment", "variants", "trials", "precision", "max_trials", "figures"}
    assert set(described) == of_every_sweep.union(*map(cell_fields, cells))
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
        assert exceptions == expected


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
    report: list[str] = []
    assert failures(PAGES[name], name, report) == 0, "".join(report)


def test_a_planted_wrong_output_is_found():
    page = "# A page\n\n```python\n>>> x = 2\n>>> x + 1\n3\n```\n\nProse.\n"
    assert failures(page, "right", []) == 0
    for right, wrong in (("3\n", "4\n"), ("3\n", ""), ("x + 1", "y + 1")):
        assert failures(page.replace(right, wrong, 1), "wrong", []) == 1


CASES = dict(
    re.findall(r"^## (.*?)\n\n```yaml\n(.*?)```", PAGES["docs/cases.md"], re.MULTILINE | re.DOTALL)
)


@pytest.mark.parametrize("title", CASES)
def test_the_config_of_a_case_loads_and_is_short(title, tmp_path):
    assert len(CASES[title].splitlines()) <= 12
    path = tmp_path / "case.yaml"
    path.write_text(CASES[title])
    assert all(sweep.cells for sweep in load_config(path).sweeps)
