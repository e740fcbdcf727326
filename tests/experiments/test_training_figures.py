"""Figures of training say and show what their tables do, whatever these are."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from experiments.analysis.bands import at_best_rates, bands
from experiments.figures import learning_curves, learning_rates, steps_to_solve, variance_ratio
from experiments.figures.figure import Tables
from experiments.figures.training_rows import LARGEST_LOSS, main_rules
from sdpa import Scaling

FIGURES = (learning_rates, steps_to_solve, learning_curves, variance_ratio)
FIXED = {"n_keys": 16, "optimizer": "adam", "initial": "unit", "steps": 400, "n_sequences": 64}
SETTING = "16 keys and 400 steps of adam on batches of 64"
RULES = ("unscaled", "d_k^1/3", "d_k^1/2", "d_k^1")
RECORDED = ("loss", "max_weight", "asked_weight", "score_gradient", "largest_score")
_REACH = {"low": 0.9, "high": 1.1}
Cell = tuple[str, int, float]
Found = Mapping[str, float]


def grid(tasks: Sequence[str], widths: Sequence[int], rates: Sequence[float]) -> list[Cell]:
    return list(itertools.product(tasks, widths, rates))


def made(
    cells: Iterable[Cell], rules: Sequence[str], found: Callable[[Cell, str], Found], *, trials: int = 9, **fixed: Any
) -> Tables:
    """The tables of a sweep of these tasks, d_k and learning rates, from what `found` gives for a rule.

    Intervals reach a tenth to both sides; whatever runs record goes from 1 to their loss at steps 0, 100 and 400.
    """
    rows, curves = [], []
    for cell, rule in itertools.product(cells, rules):
        run = {"solved": 1.0, "diverged": 0.0, "steps": 50.0, "loss": 0.1, "ratio": 2.0, **found(cell, rule)}
        named = dict(zip(("task", "d_k", "learning_rate"), cell, strict=True))
        axes = {**named, **FIXED, **fixed, "scaling": rule, "trials": trials}
        values = {
            "solved": run["solved"],
            "diverged": run["diverged"],
            "steps_to_solve": run["steps"] if run["solved"] >= 0.5 else math.nan,
            "final_loss": run["loss"],
            "variance_ratio_before": 1.0,
            "variance_ratio_after": run["ratio"],
        }
        ends = {
            f"{name}_{end}": value * by for name, value in values.items() for end, by in (("low", 0.9), ("high", 1.1))
        }
        rows.append({**axes, "exponent": Scaling.parse(rule).exponent, "divisor": 1.0, **values, **ends})
        for step in (0, 100, 400):
            value = 1 + (run["loss"] - 1) * step / 400
            recorded = dict.fromkeys(RECORDED, value) | {f"{name}_se": abs(value) / 50 for name in RECORDED}
            curves.append({**axes, "step": step, **recorded})
    measured = pd.DataFrame(rows).astype({"exponent": float})  # NaN unless a rule is a power of d_k
    tables = {"measured": measured, "bands": bands(measured), "learning_curves": pd.DataFrame(curves)}
    return {kind: table for kind, table in tables.items() if len(table)}


def saturated(cell: Cell, rule: str) -> Found:
    """Unscaled at large d_k, recall is slow and needs a small rate, and pair is never solved."""
    task, d_k, rate = cell
    if rule != "unscaled" or d_k == 8:
        return {"steps": 30.0 if rate > 0.01 else 60.0, "loss": rate, "ratio": d_k / 4}
    if task == "recall" and rate < 0.1:
        return {"steps": 90.0 if rate > 0.01 else 95.0, "loss": 0.5, "ratio": 30.0}
    return {"solved": 0.0, "loss": 1.7, "ratio": 10.0}


@pytest.fixture(scope="module")
def tables() -> Tables:
    rates = [0.01, 0.03, 0.1]
    return made([*grid(["recall"], [8, 512], rates), *grid(["pair"], [512], rates)], RULES, saturated)


ODD = {
    "one of everything": made([("recall", 16, 0.01)], ["d_k^1/2"], lambda *_: {}),
    "nothing solved": made(grid(["pair"], [8, 64], [0.01, 0.1]), RULES[:2], lambda *_: {"solved": 0.0, "loss": 2.1}),
    "all diverge": made(
        grid(["recall"], [8, 64], [10.0, 1e6]),
        RULES,
        lambda *_: {"solved": 0.0, "loss": 1e48, "diverged": 1.0},
        trials=2,
        optimizer="sgd",
    ),
    "many rules and widths": made(
        grid(["pair", "recall"], [2**i for i in range(10)], [0.01, 0.1]),
        ["8", *(f"d_k^{i}/12" for i in (1, 5, 7, 8, 9, 10, 11, 13)), "d_k^1/2/ln(n_keys)^1/2"],
        lambda *_: {},
        initial="small",
    ),
    "one rate of a task": made(
        [*grid(["recall"], [8], [0.01, 0.1]), ("pair", 8, 0.03)], RULES, lambda *_: {"loss": 0.0}
    ),
}


@pytest.mark.parametrize("module", FIGURES, ids=lambda module: module.__name__.rpartition(".")[2])
@pytest.mark.parametrize("name", ODD)
@pytest.mark.filterwarnings("error")
def test_any_table_has_a_drawing_and_a_caption(module, name):
    caption = module.caption(ODD[name])
    assert caption.endswith(".")
    assert "nan" not in caption
    assert ", ." not in caption
    drawing = module.plot(ODD[name])
    FigureCanvasAgg(drawing).draw()
    for ax in drawing.axes:
        assert np.isfinite([*ax.get_xlim(), *ax.get_ylim()]).all()


RATES = [1e-4, 1e-3, 1e-2, 1e-1, 1.0]
TWO = ("unscaled", "d_k^1/2")


def slower(rule: str, **more: float) -> Callable[[Cell, str], Found]:
    """One rule needs many steps and solves at a single rate; the other needs few at every rate."""

    def found(cell: Cell, of: str) -> Found:
        if of != rule:
            return {"steps": 30.0, "loss": 0.1, **more}
        return {"steps": 90.0, "loss": 0.5, "solved": float(cell[-1] == 1e-2), **more}

    return found


TITLES = {
    steps_to_solve: "need more steps unscaled than under d_k^1/2",
    learning_rates: "accept more learning rates under d_k^1/2 than unscaled",
    variance_ratio: "Training spreads scores beyond those of independent entries",
}


@pytest.mark.parametrize("module", TITLES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_titles_say_which_of_the_two_main_rules_does_better(module):
    widths = made(grid(["recall"], [8, 64], RATES), TWO, slower("unscaled"))
    prefix = "The widest layers " if module in (steps_to_solve, learning_rates) else ""
    assert module.title(widths) == f"{prefix}{TITLES[module]}"
    one = module.title(made(grid(["recall"], [8], RATES), TWO, slower("unscaled")))
    assert one == f"{prefix and 'Layers '}{TITLES[module]}"
    other = module.title(made(grid(["recall"], [8, 64], RATES), TWO, slower("d_k^1/2", ratio=1.0)))
    names = {"unscaled than under d_k^1/2": "under d_k^1/2 than unscaled"}
    names |= {there: here for here, there in names.items()}
    swapped = [one.replace(here, there) for here, there in names.items() if here in TITLES[module]]
    assert other == (swapped[0].replace("Layers", "The widest layers") if swapped else "")


@pytest.mark.parametrize("module", TITLES, ids=lambda module: module.__name__.rpartition(".")[2])
@pytest.mark.parametrize("name", ODD)
def test_a_table_of_equal_rules_or_few_runs_has_no_finding_about_rules(module, name):
    title = module.title(ODD[name])
    assert "than" not in title
    assert not title or name in ("many rules and widths", "one of everything", "one rate of a task", "nothing solved")


def test_a_rule_that_never_solves_needs_more_steps(tables):
    assert steps_to_solve.title(tables) == "The widest layers need more steps unscaled than under d_k^1/2"
    few = {kind: table.assign(trials=7) for kind, table in tables.items()}
    assert steps_to_solve.title(few) == ""


def test_captions_tell_the_main_rules_at_the_largest_width_of_each_task(tables):
    assert learning_rates.caption(tables) == (
        f"Smallest and largest learning rate at which at least half of 9 runs solve a task, with {SETTING}: recall at "
        "d_k = 512, 0.01 to 0.03 unscaled, 0.01 to 0.1 under d_k^1/2, 0.01 to 0.1 under d_k^1; pair at d_k = 512, none "
        "unscaled, 0.01 to 0.1 under d_k^1/2, 0.01 to 0.1 under d_k^1."
    )
    assert steps_to_solve.caption(tables) == (
        f"Median steps to an accuracy of 90%, with {SETTING}, at the best learning rate of each rule: recall at "
        "d_k = 512, 90 unscaled, 30 under d_k^1/2, 30 under d_k^1; pair at d_k = 512, more than 400 unscaled, 30 under "
        "d_k^1/2, 30 under d_k^1."
    )
    assert learning_curves.caption(tables) == (
        f"Recall at d_k = 512 with {SETTING}, at the learning rate 0.03 (the best under d_k^1/2): largest weight of a "
        "row at the start 1.00 unscaled, 1.00 under d_k^1/2, 1.00 under d_k^1; loss at the end 0.50 unscaled, 0.0300 "
        "under d_k^1/2, 0.0300 under d_k^1; weight of the tokens asked for at the end 0.50 unscaled, 0.0300 under "
        "d_k^1/2, 0.0300 under d_k^1 (means over 9 runs). At least half of them solve it at 0.01 to 0.03 unscaled, "
        "0.01 to 0.1 under d_k^1/2, 0.01 to 0.1 under d_k^1."
    )
    assert variance_ratio.caption(tables) == (
        "Variance of the scores within rows over that of independent entries of q and k, after training with "
        f"{SETTING}, at the best learning rate of each rule: recall at d_k = 8, 2.00 unscaled, 2.00 under d_k^1/2, "
        "2.00 under d_k^1; "
        "recall at d_k = 512, 30 unscaled, 128 under d_k^1/2, 128 under d_k^1; pair at d_k = 512, 10.0 unscaled, 128 "
        "under d_k^1/2, 128 under d_k^1. Before training: 1.00."
    )


def test_captions_of_other_tables_stay_true():
    one, many = ODD["one of everything"], ODD["many rules and widths"]
    assert learning_rates.caption(one) == (
        f"Median loss after training at the learning rate 0.01, with {SETTING}: recall at d_k = 16, 0.100 under "
        "d_k^1/2."
    )
    assert steps_to_solve.caption(one) == (
        f"Median steps to an accuracy of 90%, with {SETTING}, at the learning rate 0.01: recall at d_k = 16, 50 under "
        "d_k^1/2."
    )
    assert "at the learning rate 0.01: largest weight" in learning_curves.caption(one)
    assert "at the learning rate 0.01: recall at d_k = 16, 2.00 under d_k^1/2." in variance_ratio.caption(one)
    assert "more than 400 unscaled, more than 400 under" in steps_to_solve.caption(ODD["nothing solved"])
    assert "none unscaled, none under d_k^1/3." in learning_rates.caption(ODD["nothing solved"])
    assert "400 steps of sgd" in learning_rates.caption(ODD["all diverge"])
    assert "loss at the end 1e+48 unscaled" in learning_curves.caption(ODD["all diverge"])
    caption = learning_rates.caption(many)
    assert (
        "from small initial weights: pair at d_k = 512, 0.01 to 0.1 under the divisor 8, 0.01 to 0.1 under" in caption
    )
    assert caption.endswith("0.01 to 0.1 under d_k^1/2/ln(n_keys)^1/2.")
    assert "pair at d_k = 8, 50 unscaled" in steps_to_solve.caption(ODD["one rate of a task"])
    assert steps_to_solve.caption(ODD["one rate of a task"]).count("pair") == 1


def test_a_band_of_one_rate_has_one_number():
    narrow = made(grid(["recall"], [8], [0.01, 0.1]), RULES[:1], lambda cell, _: {"solved": float(cell[2] == 0.1)})
    assert learning_rates.caption(narrow).endswith("recall at d_k = 8, 0.1 alone unscaled.")


def marked(ax: Any, marker: str) -> list[tuple[float, float]]:
    """The points with a marker."""
    lines = [line for line in ax.lines if line.get_marker() == marker]
    return [(float(x), float(y)) for line in lines for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


def test_losses_mark_what_solves_and_what_diverges(tables):
    panels = learning_rates.plot(tables).axes
    assert [ax.get_title() for ax in panels] == ["recall, d_k = 8", "recall, d_k = 512", "pair, d_k = 512"]
    assert not any(marked(ax, "x") for ax in panels)
    names = [text.get_text() for text in panels[-1].texts]
    assert names == ["best row", "one-hot row", "guess"]
    diverged = learning_rates.plot(ODD["all diverge"]).axes[0]
    assert {y for _, y in marked(diverged, "x")} == {LARGEST_LOSS}
    assert not marked(diverged, "o")


def test_losses_have_panels_of_few_widths_and_name_the_others():
    drawing = learning_rates.plot(ODD["many rules and widths"])
    titles = [ax.get_title() for ax in drawing.axes if ax.get_title()]
    assert titles[:4] == [f"pair, d_k = {d_k}" for d_k in (1, 8, 64, 512)]
    assert len(titles) == 8
    assert "Without panels: d_k = 2, 4, 16, 32, 128 and 256." in " ".join(drawing.get_supxlabel().split())


def test_a_rule_that_never_solves_has_a_cross_at_the_last_step(tables):
    steps, decades = steps_to_solve.plot(tables).axes
    assert [y for _, y in marked(steps, "x")] == [400.0]
    assert steps.get_ylim()[1] > 400
    assert decades.get_ylim()[0] <= 0
    assert len(steps_to_solve.plot(ODD["one of everything"]).axes) == 1


def test_curves_are_of_the_largest_width_at_the_best_rate_of_the_square_root(tables):
    loss, *_ = learning_curves.plot(tables).axes
    curves = {line.get_color(): list(line.get_ydata()) for line in loss.lines if len(line.get_xdata())}
    assert sorted(curves.values()) == [[1, pytest.approx(0.7575), pytest.approx(0.03)]] * 3 + [[1, 0.875, 0.5]]
    clipped, *_ = learning_curves.plot(ODD["all diverge"]).axes
    assert max(max(line.get_ydata()) for line in clipped.lines if len(line.get_xdata())) == LARGEST_LOSS


def test_ratios_stand_above_those_before_training(tables):
    (ax,) = variance_ratio.plot(tables).axes
    hollow = [line for line in ax.lines if line.get_marker() == "o" and line.get_markerfacecolor() == "white"]
    assert {y for line in hollow for y in line.get_ydata()} == {1.0}
    assert max(y for _, y in marked(ax, "o")) == 128


def test_rows_at_best_rates_keep_the_order_of_the_table(tables):
    best = at_best_rates(tables["measured"], tables["bands"])
    assert list(best["scaling"]) == list(RULES) * 3
    at = best.set_index(["task", "d_k", "scaling"])["best_rate"]
    assert at["recall", 512, "unscaled"] == at["recall", 512, "d_k^1/2"] == 0.03
    assert at["pair", 512, "unscaled"] == 0.01
    one = ODD["one of everything"]["measured"]
    assert list(at_best_rates(one, pd.DataFrame())["best_rate"]) == [0.01]


def test_captions_have_room_for_three_rules():
    def told(*rules: str) -> list[str]:
        return main_rules(pd.DataFrame({"scaling": rules}))

    assert told(*RULES) == ["unscaled", "d_k^1/2", "d_k^1"]
    assert told("d_k^1/3", "unscaled") == ["d_k^1/3", "unscaled"]
    assert told("d_k^1", "2", "3", "4", "5") == ["d_k^1", "3", "5"]
