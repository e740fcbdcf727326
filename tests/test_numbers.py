"""Numbers in prose: each is that of its source in docs/numbers.yaml, and outcomes of predictions are
those that results/config.full/plan_outcomes.csv records.
"""

import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from experiments.config.paths import FULL
from experiments.kinds.network.tables import beside_law
from experiments.kinds.support import BOTH
from experiments.measuring.columns import as_json, defaults
from experiments.measuring.experiment import load_experiment
from sdpa import PairLaw, softmax, theory
from tests.prose import agrees, numbers, plain
from tests.shipped import OF_CONFIG, OF_FULL, RESULTS, ROOT, shipped_only

PLAIN, SCALED = BOTH
SOURCES = yaml.safe_load((ROOT / "docs/numbers.yaml").read_text())
_MEDIAN = "query_gradient_median_after"


def tables(folder):
    """Its tables by name."""
    return {path.stem: pd.read_csv(path) for path in (RESULTS / folder).glob("*.csv")}


MODEL = tables("models/smollm2")


def rows(table, **axes):
    """The rows of a table with these values of axes."""
    for name, values in axes.items():
        table = table[table[name].isin(np.ravel(values))]
    return table


def ratio(table, name):
    """Values unscaled over those with the division, in the order of the table."""
    plain_values, scaled = (rows(table, scaling=rule)[name].to_numpy() for rule in BOTH)
    return plain_values / scaled


@cache
def decoders():
    """All decoders of config.full.yaml."""
    named = OF_FULL.require_all(lambda sweep: sweep.name.startswith("language"))
    return pd.concat(results.measured for results in named)


def best(scaling=PLAIN, **axes):
    """The row of a decoder of most runs at its best rate; axes that are not named have their default."""
    usual = defaults(load_experiment("language").cell)
    case = {name: as_json(value) for name, value in usual.items()} | {"d_k": 64} | axes
    runs = rows(decoders(), scaling=scaling, **case)
    return runs.sort_values(["trials", "final_loss"], ascending=[False, True]).iloc[0]


def loss(scaling=PLAIN, **axes):
    """Its loss."""
    return best(scaling, **axes)["final_loss"]


@cache
def pairs():
    """The 20 settings of training, with columns of the decoder without the division and, with _root,
    with it.
    """
    from experiments.studies.training import settings  # its folder may be gone

    without, scaled = settings.settings(OF_FULL)
    return without.join(scaled.add_suffix("_root")).reset_index()


def vanishes():
    """The settings whose median gradient vanishes without the division, by both intervals."""
    return pairs()[f"{_MEDIAN}_high"] < pairs()[f"{_MEDIAN}_low_root"] / 10


def lasts():
    """The settings where it does not."""
    return pairs()[f"{_MEDIAN}_low"] > pairs()[f"{_MEDIAN}_high_root"] / 10


def networks(results):
    """The growth of each network, with columns of the rule without the division and, with _root, with
    it.
    """
    table = results.measured
    axes = ["layers", *results.axes.varied(table)]
    plain_rows, scaled = (
        rows(table, scaling=rule).set_index(axes)[["stream_gradient_growth"]] for rule in BOTH
    )
    return plain_rows.join(scaled.add_suffix("_root"))


def at_the_low_rate():
    """Losses without the division less those with it, of Adam from the small start at a rate of 0.001,
    d_k of 64 or less.
    """
    of_pairs = pairs().query("optimizer == 'adam' and initial == 'small' and d_k <= 64")
    axes = ["d_k", "layers", "n_heads", "warmup", "clip"]
    losses = [
        [
            loss(rule, learning_rate=0.001, **dict(zip(axes, case, strict=True)), initial="small")
            for rule in BOTH
        ]
        for case in of_pairs[axes].itertuples(index=False)
    ]
    return -np.diff(losses)[:, 0]


def trained_with():
    """The trained SmolLM2 with each divisor."""
    return rows(MODEL["by-divisor"], weights="trained")


def damage(divisor):
    """Its r.m.s. gradient at a query, over that with its own divisor."""
    gradients = trained_with().set_index("divisor")["query_gradient"]
    return gradients[divisor] / gradients[8]


def ratio_at_one_key(d_k):
    """The median |dL/dq| of 4,000 rows of 64 keys, of which one has a gradient, without the division over
    that with it.
    """
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((4000, 1, d_k)), rng.standard_normal((4000, 64, d_k))
    medians = []
    for divisor in (1, d_k**0.5):
        w = softmax((q * k).sum(axis=2) / divisor)
        to_q = w[:, :1] * (k[:, 0] - (w[..., None] * k).sum(axis=1)) / divisor
        medians.append(np.median(np.linalg.norm(to_q, axis=1)))
    return medians[0] / medians[1]


def largest_scores(name):
    """The values of an arm after the last step."""
    return rows(pd.read_csv(RESULTS / FULL / "largest_scores.csv"), arm=name, step=400).iloc[0]


def arm(name, initial, **case):
    """The comparison of an arm of training at own best rates; of the usual decoder, but for the case."""
    from experiments.studies.training.arms import USUAL  # its folder may be gone

    table = pd.read_csv(RESULTS / FULL / "arms.csv")
    usual = USUAL | {"at": "own best rates"} | case
    [row] = rows(table, arm=name, initial=initial, **usual).iloc
    return row


# Of the usual decoder, by fair-plan.md.
VARIANTS = (
    {},
    *({"d_k": d_k} for d_k in (16, 256, 512)),
    {"d_k": 16, "n_heads": 4},
    *({"layers": layers} for layers in (2, 8)),
    {"warmup": 0},
    {"clip": 1},
    {"optimizer": "momentum"},
)


def fair(initial, scaling, rate_divisor=None):
    """The row of a fair decoder at the learning rate 0.002."""
    sweep = "fair_slower" if rate_divisor else "fair"
    table = OF_FULL[sweep].measured.query("learning_rate == 0.002")
    chosen = {"rate_divisor": rate_divisor} if rate_divisor else {}
    [row] = rows(table, initial=initial, scaling=scaling, **chosen).iloc
    return row


NAMES = globals() | {
    "OF_CONFIG": OF_CONFIG,
    "EXACT": tables("exact"),
    **{name.upper(): pd.read_csv(ROOT / "docs" / f"{name}.csv") for name in ("audited", "faults")},
    "theory": theory,
    "PairLaw": PairLaw,
    "beside_law": beside_law,
    "stats": stats,
}


@shipped_only
@pytest.mark.parametrize("words", SOURCES)
def test_a_sentence_has_the_numbers_of_its_source(words):
    places = numbers(words)
    assert places, "no page has these words"
    values = np.ravel(eval(SOURCES[words], NAMES))
    assert len(values)
    for printed in places:
        if not printed:  # a sentence without a number
            assert all(values)
            continue
        every = printed * len(values) if len(printed) == 1 else printed
        wrong = [pair for pair in zip(every, values, strict=True) if not agrees(*pair)]
        assert not wrong


def test_docs_report_the_recorded_outcomes_of_predictions():
    outcomes = pd.read_csv(RESULTS / "config.full/plan_outcomes.csv", keep_default_na=False)
    counted = r"Of (\d+) predictions, (\d+) (held|failed) and (\d+) (held|failed)"
    counts = re.findall(counted, plain("docs/training.md"))
    for said, (_, of_plan) in zip(counts, outcomes.groupby("plan", sort=False), strict=True):
        n_all, first, one, second, other = said
        assert {one: int(first), other: int(second)} == of_plan["outcome"].value_counts().to_dict()
        assert int(n_all) == len(of_plan)
