"""Figures of training one attention layer."""

from functools import partial

from experiments.declarations.figure import Default, Figure, Finding, Lines, Panel
from experiments.declarations.tables import (
    BOTH,
    PLAIN,
    ROOT,
    Numbers,
    Table,
    Tables,
    is_below,
    rows_of,
    widest,
)
from experiments.measuring.experiment import MEASURED

_Figure = partial(Figure, of="training")
_RATES = Default(varied=("learning_rate",))
_TASKS = ("recall", "pair")
_BOTH_TASKS = {"task": _TASKS, "d_k": (512,), "learning_rate": (), "scaling": BOTH}
_QUARTER = "d_k^1/4"
_INTERVALS = "95% intervals (94 to 96% for a median of five to nine runs)"
_HOLLOW = "hollow points: fewer than 20 runs."
_OF_RUNS = (
    "At the best learning rate of each rule, if there are several: most runs solve, then fewest "
    f"steps. Bars: {_INTERVALS}; {_HOLLOW}"
)


def _bands(tables: Tables, task: str) -> tuple[Table, Table]:
    """The bands of learning rates unscaled and under d_k^1/2."""
    rows = rows_of(tables, "bands", task=task, d_k=512)
    return rows[rows["scaling"] == PLAIN], rows[rows["scaling"] == ROOT]


def _learning_rates(tables: Tables) -> Numbers:
    width = "band_decades"
    (plain, root), (pair_plain, pair_root) = (_bands(tables, task) for task in _TASKS)
    holds = is_below(plain, root, width) and is_below(pair_plain, pair_root, width)
    return {"plain": plain[width].item(), "root": root[width].item()} if holds else None


def _steps_to_solve(tables: Tables) -> Numbers:
    (plain, root), (pair_plain, pair) = (_bands(tables, task) for task in _TASKS)
    holds = (  # a rule that never solves a task needs more than all steps
        is_below(root, plain, "steps_to_solve")
        and pair_plain["band_from"].isna().all()
        and pair["steps_to_solve_high"].notna().all()
    )
    shown = {"plain": plain, "root": root, "pair": pair}
    return {name: band["steps_to_solve"].item() for name, band in shown.items()} if holds else None


def _divisors(tables: Tables) -> Numbers:
    def band(initial: str, rate: str, rule: str = PLAIN) -> Table:
        return rows_of(tables, "bands", scaling=rule, initial_divisor=initial, rate_divisor=rate)

    start, both = band(_QUARTER, PLAIN), band(_QUARTER, _QUARTER)
    root = band(PLAIN, PLAIN, ROOT)
    from_full_size = {"scaling": PLAIN, "initial_divisor": PLAIN}
    holds = (
        rows_of(tables, "bands", **from_full_size)["solved_high"].max() < 0.5
        and rows_of(tables, **from_full_size)["solved"].max() == 0
        and is_below(both, start, "steps_to_solve")
        and is_below(root, start, "steps_to_solve")
    )
    shown = {"start": start, "both": both, "root": root}
    return {name: rows["steps_to_solve"].item() for name, rows in shown.items()} if holds else None


def _learning_curves(tables: Tables) -> Numbers:
    weight = "max_weight_before"
    plain, root = (widest(rows_of(tables, scaling=rule)) for rule in BOTH)
    holds = plain[f"{weight}_low"].min() > 0.9 and root[f"{weight}_high"].max() < 0.5
    plain, root = (widest(rows_of(tables, scaling=rule, task="recall")) for rule in BOTH)
    return {"plain": plain[weight].mean(), "root": root[weight].mean()} if holds else None


def _variance_ratio(tables: Tables) -> Numbers:
    best = tables["bands"].rename(columns={"best_rate": "learning_rate"})
    cell = ["task", "d_k", "scaling", "learning_rate"]
    rows = tables[MEASURED].merge(best[cell], on=cell)
    before, after = rows["variance_ratio_before"], rows["variance_ratio_after"]
    holds = rows["variance_ratio_after_low"] > rows["variance_ratio_before_high"].clip(lower=1)
    numbers = {"before": before.max(), "least": after.min(), "most": after.max()}
    return numbers if holds.all() else None


FIGURES = (
    _Figure(
        name="learning_rates",
        shows="Learning rates that train one attention layer, by scaling rule",
        metrics=("solved", "final_loss", "diverged"),
        default=_RATES,
        note=f"Median loss over runs; pale, for unscaled and d_k^1/2: {_INTERVALS}. Full points: "
        "at least half of the runs solve the task; crosses: diverge. Losses above three times that "
        "of a guess stand at the top. Dotted: least loss of the best rows, of one-hot rows and of "
        "a guess. At most nine cases have panels.",
        finding=Finding(
            sweep="training",
            title="The widest layers accept more learning rates under d_k^1/2 than unscaled",
            sentence="At d_k = 512, the learning rates that solve recall span {plain:.1f} decades "
            "unscaled and {root:.1f} under d_k^1/2.",
            needs=_BOTH_TASKS,
            numbers=_learning_rates,
        ),
    ),
    _Figure(
        name="steps_to_solve",
        shows="Steps to solve a task, and the band of learning rates",
        metrics=("steps_to_solve", "solved"),
        default=_RATES,
        lines=Lines(
            "scaling",
            (
                Panel("steps_to_solve", "steps to solve", is_logarithmic=True),
                Panel("band_decades", "decades of rates that solve", floor=0),
            ),
            (4.4, 2.9),
            by="d_k",
            beside="task",
            at_best=True,
        ),
        note="Above: median of the steps to an accuracy of 90%; no point: more than all steps. "
        + _OF_RUNS,
        finding=Finding(
            sweep="training",
            title="From equal initial weights, the widest layers need more steps unscaled",
            sentence="At d_k = 512, the median run solves recall in {plain:g} steps unscaled and "
            "{root:g} under d_k^1/2, and pair in {pair:g} under d_k^1/2 but not unscaled.",
            needs=_BOTH_TASKS,
            numbers=_steps_to_solve,
        ),
    ),
    _Figure(
        name="divisors",
        shows="Steps to solve a task with divided initial weights or learning rates",
        metrics=("steps_to_solve", "final_loss"),
        default=Default(varied=("learning_rate", "initial_divisor", "rate_divisor")),
        note="Median of the steps to an accuracy of 90% (not solved: more than all steps), and of "
        f"the loss after training. Bars: {_INTERVALS}; {_HOLLOW} initial_divisor divides the "
        "initial W_Q and W_K, rate_divisor their learning rate.",
        finding=Finding(
            sweep="control",
            title="Unscaled, pair is learned in time only from a smaller start",
            sentence="No unscaled run solves pair unless W_Q and W_K start at 1/d_k^1/4 of their "
            "size. Then, at the better rate, the median takes {start:g} steps, or {both:g} with "
            "their rate divided by d_k^1/4 too, and {root:g} under d_k^1/2.",
            needs={
                "task": "pair",
                "learning_rate": (),
                "steps": (),
                "initial_divisor": (PLAIN, _QUARTER),
                "rate_divisor": (PLAIN, _QUARTER),
                "scaling": BOTH,
            },
            numbers=_divisors,
        ),
    ),
    _Figure(
        name="learning_curves",
        shows="Training step by step: loss, largest weight and largest score",
        metrics=("final_loss", "max_weight_after", "asked_weight_after", "largest_score_after"),
        default=Default(),
        note="The first task at its largest d_k, at the best learning rate of d_k^1/2. Means over "
        "runs; pale: ± one standard error. Losses above three times that of a guess stand at the "
        "top.",
        finding=Finding(
            sweep="training",
            title="Before training, the widest unscaled layers are almost one-hot",
            sentence="At d_k = {d_k.most}, the mean largest weight before training is {plain:.2f} "
            "unscaled and {root:.2f} under d_k^1/2.",
            needs={
                "task": ("recall",),
                "d_k": (),
                "learning_rate": (),
                "steps": (),
                "scaling": BOTH,
            },
            numbers=_learning_curves,
        ),
    ),
    _Figure(
        name="variance_ratio",
        shows="Variance within rows over that of independent entries, after training",
        metrics=("variance_ratio_after",),
        default=Default(),
        lines=Lines(
            "scaling",
            (Panel("variance_ratio_after", "ratio after training", is_logarithmic=True),),
            (4.4, 3.4),
            by="d_k",
            beside="task",
            at_best=True,
        ),
        note=f"Median of runs; independent entries have 1. {_OF_RUNS}",
        finding=Finding(
            sweep="training",
            title="Training spreads scores beyond those of independent entries",
            sentence="The variance of the scores within rows is at most {before:.2f} times that of "
            "independent entries of q and k before training, and {least:.1f} to {most:.0f} times "
            "after it, at the best rates.",
            needs=_BOTH_TASKS,
            numbers=_variance_ratio,
        ),
    ),
)
