"""README.md and other pages: numbers are those of results/, examples print what pages say, links
and cases work.
"""

import doctest
import re
import shutil

import numpy as np
import pandas as pd
import pytest

from experiments.config.loader import load_config
from experiments.config.paths import STORED_CONFIG
from experiments.kinds import experiment_names
from experiments.kinds.support import significant
from experiments.measuring.columns import cell_fields, defaults
from experiments.measuring.experiment import load_experiment
from experiments.publication.pages.blocks import BlockError, rewrite
from experiments.publication.pages.settings import settings
from experiments.tables.crossings import EQUAL
from sdpa import LAWS, PairLaw, Scaling, softmax
from sdpa.scaling import FUNCTIONS
from sdpa.theory import attention_expectations, largest_score_survival, limits
from tests.prose import part, prose
from tests.shipped import IS_SHIPPED, OF_FULL, RESULTS, STUDY, shipped_only
from tests.suite_process import ROOT

RULES = ["unscaled", "d_k^1/2"]
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
AT_PATHS = {ROOT / name: text for name, text in PAGES.items()}
FIGURES = RESULTS / "figures"


@shipped_only
def test_generated_parts_are_those_of_the_results():
    for path, text in rewrite(AT_PATHS, RESULTS).items():
        assert AT_PATHS[path] == text, path


@shipped_only
def test_a_table_that_a_page_lacks_is_named(tmp_path):
    shutil.copy(RESULTS / STORED_CONFIG, tmp_path)
    message = r"^block [a-z-]+: .*\.csv is missing .*; make all writes the tables$"
    with pytest.raises(BlockError, match=message):
        rewrite(AT_PATHS, tmp_path)


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_ci_calls_the_commands_of_the_start_as_written():
    (start,) = blocks(part("README.md", "Start"), "sh")
    commands = [line.partition("#")[0].strip() for line in start.splitlines()]
    assert commands[0].startswith("git clone")
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


def test_the_constant_of_the_speedrun_has_its_exact_numbers():
    for n, words in ((2**10, "| 1k "), (2**16, "| 64k ")):
        (line,) = (one for one in PAGES["docs/your-model.md"].splitlines() if one.startswith(words))
        under = [
            attention_expectations(128, n, divisor, PairLaw(normalize="rms"))
            for divisor in (1 / 0.12, 128**0.5)
        ]
        numbers = [f"{one.entropy:.2f}" for one in under] + [
            f"{one.max_weight:.3g}" for one in under
        ]
        assert line == f"{words}| {' | '.join(numbers)} |"


def test_the_ranges_of_number_formats_are_those_of_the_law():
    text = part("docs/methods.md", "Number formats")
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (.*) \| (.*) \| (.*) \|$", text, re.MULTILINE)
    assert len(rows) == 5
    for d_k, divisor, median, *shares in rows:

        def beyond(score, d_k=int(d_k), divisor=int(divisor)):
            return largest_score_survival(score * divisor, d_k, 4096)

        ends = np.log([65504, 3.39e38])
        assert [f"{beyond(end):.0%}" for end in ends] == shares
        assert beyond(float(median) - 0.05) > 0.5 > beyond(float(median) + 0.05)


def assert_says(page, *statements):
    """A page has these in one line, without the signs of its formulas."""
    text = prose(page).replace("$", "").replace("<sub>k</sub>", "_k")
    for stated in statements:
        assert stated in text


def crossing_of(n_keys):
    """The exact d_k where the median gradient is that with the division, in two digits."""
    return significant(limits.median_crossing("query_gradient_norm", n_keys), 2)


@shipped_only
def test_readme_states_what_one_layer_does():
    dimension = STUDY["dimension"].measured.set_index(["scaling", "d_k"])
    weights = dimension["max_weight_exact"]
    (from_4_on,) = weights["d_k^1/2"].map("{:.0%}".format).unique()
    median = dimension["query_gradient_norm_median_exact"]
    crossing = STUDY["crossing"].measured
    sizes = crossing.set_index(["n_keys", "d_k", "scaling"]).sort_index()
    medians = sizes["query_gradient_norm_median_exact"]
    few_median, wide_median = medians[4, 128], medians[64, 2048]
    means = crossing.pivot_table(
        index=["d_k", "n_keys"], columns="scaling", values="query_gradient_norm_exact"
    )
    larger = means["unscaled"] / means["d_k^1/2"]
    crossings = STUDY["crossing"]["crossings"].query("statistic == 'median'")
    at_a_tenth = crossings.query("norm == 'query_gradient' and level == 0.1")
    tenth = at_a_tenth.set_index("n_keys")["crossing_exact"].map(lambda d_k: significant(d_k, 2))
    equal_at = crossings.query(f"level == {EQUAL}").set_index(["norm", "n_keys"])["crossing_exact"]
    exact = {n: crossing_of(n) for n in (64, 1024)}
    assert_says(
        "README.md",
        f"among 64 keys averages {weights['unscaled', 64]:.0%} at d_k = 64 and "
        f"{weights['unscaled', 512]:.0%} at 512. "
        f"With the division, it averages {from_4_on} at every d_k from 4 to 512.",
        f"up to d_k = {exact[64]:.0f} (first figure, lower right). It is less than a tenth of that "
        f"with the division only above {tenth[64]:.0f};",
        f"only above {tenth[64]:.0f} ({tenth[4]:.0f} with 4 keys), because",
        f"up to d_k = {exact[64]:.0f} with 64 keys (exact; {equal_at['query_gradient', 4]:.0f} "
        f"with 4 keys, {exact[1024]:,.0f} with 1,024)",
        f"mean largest of 64 weights, d_k = 512 | {weights['unscaled', 512]:.0%} "
        f"| {weights['d_k^1/2', 512]:.0%} |",
        f"median of \\|∂L/∂q\\| over queries, d_k = 64, 64 keys | {median['unscaled', 64]:.2f} "
        f"| {median['d_k^1/2', 64]:.2f} |",
        f"the same, d_k = 128, 4 keys | {few_median['unscaled']:.3f} | {few_median['d_k^1/2']:.2f} |",
        f"the same, d_k = 2,048, 64 keys | {wide_median['unscaled']:.5f} "
        f"| {wide_median['d_k^1/2']:.2f} |",
        f"over all queries, the root mean square is {larger.min():.0f} to {larger.max():.0f} "
        f"times that with the division, for d_k from "
        f"{crossing['d_k'].min()} to {crossing['d_k'].max():,} and {crossing['n_keys'].min()} to "
        f"{crossing['n_keys'].max():,} keys (exact).",
        f"is too weak ({weights['d_k^1/3', 512]:.0%} at 512)",
        f"too strong ({weights['d_k^2/3', 512]:.0%} at 512; equal weights would be {1 / 64:.1%})",
        f"is smaller unscaled from d_k = {equal_at['jacobian', 64]:.0f} on.",
    )


@shipped_only
def test_readme_states_what_many_layers_do():
    def growth(table, query):
        return table.measured.query(query).set_index("scaling")["stream_gradient_growth"]

    explosion = growth(STUDY["network"], "layers == 48")
    of_usual = "scheme == 'lecun' and layers == 48"
    by_mask = growth(OF_FULL["networks"], f"{of_usual} and mask == 'causal' and mlp == 'none'")
    by_depth = growth(OF_FULL["starts"], f"{of_usual} and output_scale == 'depth'")
    of_swiglu = growth(OF_FULL["networks"], f"{of_usual} and mlp == 'swiglu' and mask == 'none'")
    assert_says(
        "README.md",
        f"so that q and k have variance 1 | ≈1,000,000× | {explosion['d_k^1/2']:.0f}× |",
        f"causal mask (`config.full.yaml`) | {significant(by_mask['unscaled'], 2):,.0f}× "
        f"| {by_mask['d_k^1/2']:.1f}× |",
        f"√(2 layers) (`config.full.yaml`) | {by_depth['unscaled']:.1f}× | {by_depth['d_k^1/2']:.2f}× |",
        f"SwiGLU MLPs double its growth "
        f"({of_swiglu['d_k^1/2']:.0f} for {explosion['d_k^1/2']:.0f}).",
    )
    assert 0.9e6 < explosion["unscaled"] < 1.1e6


@shipped_only
def test_readme_states_the_losses_of_training():
    trained = pd.concat(OF_FULL[name]["bands"] for name in ("language", "language_wide")).query(
        "initial_divisor == 'unscaled'"
    )
    losses = trained.set_index(["initial", "d_k", "scaling"]).filter(like="final_loss")
    losses = losses.apply(lambda loss: "{:.2f} ({:.2f}–{:.2f})".format(*loss), axis=1)
    columns = [(d_k, rule) for d_k in (64, 512) for rule in RULES]
    of_64 = trained.query("d_k == 64").set_index(["initial", "scaling"])["final_loss"]
    plain, scaled = of_64["unit"][RULES]
    small_plain, small_scaled = of_64["small"][RULES]
    of_unit, _ = of_unit_start()
    at_one_rate = of_unit.query("learning_rate == 0.001").set_index("scaling")["final_loss"]
    own_rates = OF_FULL["language_rates"].measured.query("initial_divisor == 'd_k^1/4'")
    blind = OF_FULL["language_uniform"]["bands"].query("layers == 4")
    small_decoder = STUDY["language"]["bands"].query("initial == 'unit'")
    of_all = small_decoder.set_index("scaling")["final_loss"]
    assert_says(
        "README.md",
        *(
            "".join(f"| {losses[start][column]} " for column in columns)
            for start in losses.index.unique("initial")
        ),
        f"two things train as well as \\sqrt{{d_k}} ({scaled:.2f})",
        f"dividing by d_k ({of_64['unit']['d_k^1']:.2f}; at the rate 0.001 it is worse, "
        f"{at_one_rate['d_k^1']:.2f} for {at_one_rate['d_k^1/2']:.2f})",
        f"learn at a rate divided by it ({own_rates['final_loss'].min():.2f}).",
        f"of the same decoder from variance 1 | {plain:.2f} | {scaled:.2f} |",
        f"the same from small weights | {small_plain:.2f} | {small_scaled:.2f} |",
        f"the smaller decoder of `make all` (d_k = 64, two blocks, 180 steps of Adam at the better of two rates) ends, "
        f"from variance 1, at {of_all['unscaled']:.2f} without and "
        f"{of_all['d_k^1/2']:.2f} with the division",
        *(f"ignores q and k ends at {loss:.1f}:" for loss in blind["final_loss"]),
    )
    assert 0 < small_plain - small_scaled < (plain - scaled) / 2


def of_unit_start():
    """Decoders whose q and k start with variance 1; and those at the best rate, by rule."""
    rows = OF_FULL["language"].measured.query("initial == 'unit' and initial_divisor == 'unscaled'")
    return rows, rows.loc[rows.groupby("scaling")["final_loss"].idxmin()].set_index("scaling")


@shipped_only
def test_readme_counts_the_settings_of_training():
    without, scaled = settings(OF_FULL)
    worse = without["final_loss_low"] > scaled["final_loss_high"]
    more = (without["final_loss"] - scaled["final_loss"])[worse]
    median = "query_gradient_median_after"
    vanish = without[f"{median}_high"] < scaled[f"{median}_low"] / 10
    lasts = without[f"{median}_low"] > scaled[f"{median}_high"] / 10
    is_small = without.index.get_level_values("initial") == "small"
    widths = without.index.get_level_values("d_k")
    n_small, n_unit = is_small.sum(), (~is_small).sum()
    n_ranked = (without["trials"] >= 9).sum()
    assert_says(
        "README.md",
        f"with it in {worse.sum()} of {len(worse)} settings.",
        f"trained in {len(worse)} settings, which differ in d_k ({widths.min()} to {widths.max()}),",
        f"the final loss is higher in {worse.sum()} settings, by {more.min():.2f} to {more.max():.2f} "
        f"nats per character. In {vanish[worse].sum()} of these,",
        f"In {(worse & lasts).sum()} it has not, and in {(worse & ~vanish & ~lasts).sum()} the intervals",
        f"**True in {vanish[~is_small].sum()} of {n_unit} settings** from q and k of variance 1",
        f"**True in {vanish[is_small].sum()} of {n_small}** from small weights | "
        f"{lasts[is_small].sum()} of these do not, {(~vanish & ~lasts)[is_small].sum()} are undecided |",
        f"The [{len(worse)} settings](docs/training.md) are decoders of width 64 with 64 characters of "
        f"context, trained for "
        f"400 steps on one text",
        f"**True in {worse.sum()} of {len(worse)} settings** (intervals apart; in {len(worse) - n_ranked} of the "
        f"{len(worse)}, ranges of three runs), all but momentum from small weights",
        f"variance 1 ({n_unit} settings)",
        f"N(0, 0.02²) ({n_small}).",
        f"in the {n_ranked} settings of nine runs, and from the lowest to the highest of three runs "
        f"in {len(worse) - n_ranked}.",
    )
    (exception,) = worse[~worse].reset_index()[["optimizer", "initial"]].to_numpy().tolist()
    assert exception == ["momentum", "small"]
    assert worse[vanish].all()
    assert (without["query_gradient_after"] > scaled["query_gradient_after"]).all()


@shipped_only
def test_readme_states_what_training_does_to_gradients():
    _, best = of_unit_start()
    unscaled, scaled = best.loc["unscaled"], best.loc["d_k^1/2"]
    before, after = unscaled["spread_before"], unscaled["spread_after"]
    assert_says(
        "README.md",
        f"without the division grows from {before:.0f} to {after:.0f}.",
        f"<10⁻⁷ | {scaled['query_gradient_median_after']:.2f} |",
    )
    assert unscaled["query_gradient_median_after_high"] < 1e-7
    assert unscaled["query_gradient_after_low"] > scaled["query_gradient_after_high"]
    # Of docs/training.md.
    assert unscaled["max_weight_after_low"] > 0.95
    assert 1.8 < unscaled["query_gradient_after"] / unscaled["query_gradient_before"] < 2.5


@shipped_only
def test_the_exact_crossing_is_one_number_wherever_it_stands():
    """Tables interpolate it between their d_k; its first two digits are those of theory."""
    for sweep in ("crossing", "dimension", "phase"):
        rows = STUDY[sweep]["crossings"].query(
            f"norm == 'query_gradient' and statistic == 'median' and level == {EQUAL}"
        )
        known = rows.dropna(subset="crossing_exact").query("n_keys >= 8").set_index("n_keys")
        assert 64 in known.index
        for n_keys, crossing in known["crossing_exact"].items():
            assert significant(crossing, 2) == crossing_of(int(n_keys))
    exact = {n: crossing_of(n) for n in (16, 64)}
    said = f"equal only at d_k = {exact[64]:.0f} (exact), and for 16 keys at {exact[16]:.0f}"
    assert said in prose("docs/training.md")


@shipped_only
def test_the_page_on_networks_states_what_the_tables_show():
    layers = STUDY["network"]["by_layer"]
    by_rule = layers.set_index(["scaling", "layers", "layer"])
    median = by_rule["query_gradient_median"]
    share = median["unscaled"] / by_rule["query_gradient"]["unscaled"] ** 0.5
    assert (median["unscaled"] > median["d_k^1/2"]).all()
    assert_says(
        "docs/network.md", f"is {share.min():.2f} to {share.max():.2f} of its root mean square"
    )
    for results in (STUDY["network"], OF_FULL["networks"], OF_FULL["llama"]):
        table = results.measured
        assert (table["trials"] < 100).all()
        assert table["few_draws"].str.contains("stream_gradient_growth").all()


@shipped_only
def test_the_page_on_training_states_what_the_tables_show():

    def losses(sweep, **axes):
        """The loss at the best rate by rule, with two digits."""
        bands = OF_FULL[sweep]["bands"]
        rows = bands[(bands[[*axes]] == pd.Series(axes)).all(axis=1)].set_index("scaling")
        assert rows.index.is_unique
        return rows["final_loss"].round(2).map("{:.2f}".format)

    language, best = of_unit_start()
    by_rate = language.pivot_table("final_loss", "learning_rate", "scaling")
    numbers = best.select_dtypes("number")
    ratio = numbers.loc["unscaled"] / numbers.loc["d_k^1/2"]
    starts = {
        (initial, divisor): losses("language", initial=initial, initial_divisor=divisor)
        for initial, divisor in (("unit", "unscaled"), ("small", "unscaled"), ("unit", "d_k^1/4"))
    }
    unit, small, divided = starts.values()
    rates = [losses("language_rates", initial_divisor=of) for of in ("unscaled", "d_k^1/4")]
    narrow, wide = (
        losses("language_sizes", d_k=d_k, initial="unit", layers=4, n_heads=1) for d_k in (16, 256)
    )
    widest, widest_small = (losses("language_wide", initial=start) for start in ("unit", "small"))
    momentum, momentum_small = (
        losses("language_optimizers", optimizer="momentum", initial=start)
        for start in ("unit", "small")
    )
    blind, wide_blind = (
        losses("language_uniform", d_k=d_k, layers=4)["1000000"] for d_k in (64, 512)
    )
    at_rate = OF_FULL["language_uniform"].measured.query("d_k == 512")
    same_rate = at_rate.set_index("learning_rate")["final_loss"][0.001]
    start = OF_FULL["language_wide"].measured.query(
        "initial == 'unit' and scaling == 'unscaled' and learning_rate == 0.001"
    )
    (saturated,) = start["max_weight_before"]
    plain, root = "unscaled", "d_k^1/2"
    gain = float(blind) - float(unit[root])
    weights = numbers["max_weight_after"]
    assert_says(
        "docs/training.md",
        f"it ends at {unit[plain]} ({unit[root]}). Attention that cannot select ends at {blind}, so "
        f"that unscaled attention gains half of the {gain:.2f} nats",
        f"end at {narrow[plain]}, {unit[plain]} and at most {wide[plain]} ({narrow[root]}, "
        f"{unit[root]}, {wide[root]};",
        f"(mean largest weight {saturated:.2f}). The decoder ends at {widest[plain]} "
        f"({widest[root]}) and still falls; attention that cannot select ends at {wide_blind} "
        f"(three runs), or at {same_rate:.2f} at the same rate. From the small start, 512 ends at "
        f"{widest_small[plain]} ({widest_small[root]}).",
        f"ends at {small[plain]} from the small start ({small[root]}), at {divided[plain]} "
        f"from the divided start, at {rates[0][plain]} with the divided rate alone, and at "
        f"{rates[1][plain]} with both",
        f"the decoder ends at {unit['d_k^1']} from the unit start ({unit[root]}), and at "
        f"{small['d_k^1']} from the small one ({small[root]}).",
        f"({by_rate['d_k^1'][0.0005]:.2f} beside {by_rate[root][0.0005]:.2f} at 0.0005)",
        f"is {ratio['query_gradient_before']:.0f} times as large, and the median head's median "
        f"{ratio['query_gradient_median_before']:.1f} times. After it, the r.m.s. is "
        f"{ratio['query_gradient_after']:.1f} times as large, and the median below 10",
        f"(mean largest weight {weights[plain]:.2f} beside {weights[root]:.2f})",
        f"unscaled ends at {momentum[plain]} ({momentum[root]}). From the small one, it ends at "
        f"{momentum_small[plain]} ({momentum_small[root]}),",
    )
    assert by_rate[plain][by_rate.index >= 0.008].min() > 2.32
    assert by_rate[root].max() < 2.19
    assert (float(blind) - float(unit[plain])) / gain == pytest.approx(0.5, abs=0.02)


@shipped_only
def test_the_code_of_first_steps_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    for page in ("docs/cases.md", "results/README.md"):
        for block in blocks(PAGES[page], "python"):
            exec(block, names)
    (general,) = re.findall(r"^table.*unstack.*$", PAGES["docs/cases.md"], re.MULTILINE)
    (first,) = re.findall(r"`(pd\.read_csv.*pivot.*?)`", PAGES["README.md"])
    for line in (general, first):
        assert [*eval(line, names)] == ["d_k^1/2", "d_k^1/3", "d_k^2/3", "unscaled"]


WITH_LINKS = PAGES | {f"docs/{path.name}": path.read_text("utf-8") for path in DOCS.glob("*.ipynb")}


@pytest.mark.parametrize("name", WITH_LINKS)
def test_links_lead_somewhere(name):
    links = [
        (ROOT / name).parent / link
        for link in re.findall(r"\]\((?!https:)([^)#]+)\)", WITH_LINKS[name])
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
    wrong = [
        f"{name}: {page}#{anchor}"
        for name, text in WITH_LINKS.items()
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
    table = PAGES["docs/cases.md"].split("| key | meaning")[1].split("\n\n")[0]
    described = dict(re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", table, re.MULTILINE))
    cells = [load_experiment(name).cell for name in experiment_names()]
    of_every_sweep = {"experiment", "variants", "trials", "precision", "max_trials", "figures"}
    assert set(described) == of_every_sweep.union(*map(cell_fields, cells))
    assert all(
        f"`{name}`" in PAGES["docs/cases.md"] for name in (*FUNCTIONS, *LAWS, *experiment_names())
    )
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


CASES = dict(re.findall(r"^##+ (.+)\n\n```yaml\n([^`]*)```", PAGES["docs/cases.md"], re.MULTILINE))


@pytest.mark.parametrize("title", CASES)
def test_the_config_of_a_case_loads_and_is_short(title, tmp_path):
    assert len(CASES[title].splitlines()) <= 12
    path = tmp_path / "case.yaml"
    path.write_text(CASES[title])
    assert all(sweep.cells for sweep in load_config(path).sweeps)


@shipped_only
def test_readme_states_when_gradients_at_one_key_vanish():
    """Medians of 4,000 rows at d_k = 16; their ratio is near 0.03."""
    assert_says("README.md", "If only one random key has a gradient, both widths are below 16.")
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((4000, 1, 16)), rng.standard_normal((4000, 64, 16))
    medians = []
    for divisor in (1, 4):
        w = softmax((q * k).sum(axis=2) / divisor)
        to_q = w[:, :1] * (k[:, 0] - (w[..., None] * k).sum(axis=1)) / divisor
        medians.append(np.median(np.linalg.norm(to_q, axis=1)))
    assert medians[0] < medians[1] / 10
