"""Every figure of sweeps, in the order in which pages and the config list them.

A new figure is a new entry. One that is not of lines along an axis also needs a function of its
name, in `maps` or `curves`.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from experiments.figures.figure import Default, Figure, Lines, Panel

_Saturation, _Training = partial(Figure, of="saturation"), partial(Figure, of="training")
_MEDIAN = "query_gradient_norm_median"
_D_K, _RATES = Default(varied=("d_k",)), Default(varied=("learning_rate",))
_BOTH_RULES = ("unscaled", "d_k^1/2")
_FOUR = ("score_variance", "max_weight", "entropy", "query_gradient_norm_median")
_POWERS = (
    "score_variance",
    "max_weight",
    "entropy",
    "jacobian_norm",
    "query_gradient_norm_median",
    "saturated_rows",
)
_READING = (
    "Bars: 95% intervals; hollow points: too few draws for reliable ones; pale bands: exact values."
)
_BEST_RATE = (
    "At the best learning rate of each rule, if there are several: most runs solve, then "
    "fewest steps."
)
_INTERVALS = "95% intervals (94 to 96% for a median of five to nine runs)"
_OF_RUNS = f"{_BEST_RATE} Bars: {_INTERVALS}; hollow points: fewer than 20 runs."

_DECLARED = (
    _Saturation(
        name="metrics",
        shows="Variance, largest weight, entropy and gradient, along the first varied axis",
        metrics=_FOUR,
        default=Default(single=("d_k", "n_keys")),
        lines=Lines("", tuple(map(Panel, _FOUR)), (8.5, 5.2), columns=2),
        note=_READING,
    ),
    _Saturation(
        name="variance",
        shows="Score variance against d_k, and over its exact value",
        metrics=("score_variance",),
        default=_D_K,
        lines=Lines(
            "d_k",
            (
                Panel("score_variance"),
                Panel("score_variance", "the same over its exact value", over="exact"),
            ),
            (9, 4),
        ),
        note=(
            f"{_READING} All rules divide the same scores, so that the deviation on the right is "
            f"that of each."
        ),
    ),
    _Saturation(
        name="assumptions",
        shows="Metrics under changed assumptions, over their value in the first row",
        metrics=("max_weight", "score_variance", "row_variance", "query_gradient_norm_median"),
        note="Each point: a metric over its value in the first row, with the 95% interval of the "
        "cell; pale: of "
        "exact values, where known.",
    ),
    _Saturation(
        name="causal",
        shows="Attention with and without a causal mask",
        metrics=("max_weight", "entropy", "query_gradient_norm_median"),
        lines=Lines("n_keys", (Panel("max_weight"), Panel("entropy"), Panel(_MEDIAN)), (10, 3.7)),
        note=_READING,
    ),
    _Saturation(
        name="length",
        shows="Entropy and largest weight against the number of keys",
        metrics=("max_weight", "entropy"),
        default=Default(varied=("n_keys",)),
        lines=Lines(
            "n_keys", (Panel("entropy", equal=True), Panel("max_weight", equal=True)), (9, 4)
        ),
        note=f"{_READING} Dotted: equal weights.",
    ),
    _Saturation(
        name="powers",
        shows="Metrics against the exponent p of the divisor d_k^p",
        metrics=("max_weight", "score_variance", "entropy", "jacobian_norm"),
        lines=Lines("exponent", tuple(map(Panel, _POWERS)), (9, 5.4), by="d_k", columns=3),
        note=_READING,
    ),
    _Saturation(
        name="saturation",
        shows="Largest weight, entropy and share of saturated rows against d_k",
        metrics=("max_weight", "entropy", "saturated_rows"),
        default=_D_K,
        lines=Lines(
            "d_k",
            (
                Panel("max_weight", floor=0),
                Panel("entropy", floor=0, equal=True),
                Panel("saturated_rows", floor=0),
            ),
            (11, 3.6),
        ),
        note=_READING + " Dotted: equal weights.",
    ),
    _Saturation(
        name="slide",
        shows="Largest attention weight against d_k, with and without sqrt(d_k)",
        metrics=("max_weight",),
        default=Default(varied=("d_k",), rules=_BOTH_RULES),
        lines=Lines("d_k", (Panel("max_weight", floor=0),), (10, 4.7), rules=_BOTH_RULES),
        is_slide=True,
    ),
    _Saturation(
        name="correlation",
        shows="Queries that correlate with their keys: own weight and power of d_k",
        metrics=("own_weight", "max_weight"),
        note=(
            f"{_READING} Right: the power of d_k under which the largest weight is equal at two "
            f"neighbouring d_k."
        ),
    ),
    _Saturation(
        name="freezing",
        shows="Entropy and sum of squared weights against the spread of scores",
        metrics=("entropy", "jacobian_trace"),
        note="Points: measured, each a cell of the sweep under one rule. Lines: exact for "
        "Gaussian rows of one spread "
        "σ; dashed: their limit for many keys. Rows of many keys freeze, so that few keys get all "
        "weight, where σ "
        "exceeds σ_c = sqrt(2 ln n_keys). σ = |q| / divisor is the spread of the scaled scores of "
        "a row, for points "
        "with the root mean square of |q|. Points at small d_k lie off the lines, because |q| "
        "varies a lot there.",
    ),
    _Saturation(
        name="phase",
        shows="Where attention gathers on few keys: entropy over d_k and n_keys",
        metrics=("entropy",),
        note="Colour: measured. Contours: exact values, or measured ones if these are unknown. "
        "Dashed, for Gaussian "
        "inputs: where rows of many keys freeze, σ = sqrt(2 ln n_keys), which is d_k = 2 ln "
        "n_keys for unscaled "
        "rows; σ is the standard deviation of their scores.",
    ),
    _Saturation(
        name="rules",
        shows="Scaling rules in longer rows: entropy, largest weight and own key's weight",
        metrics=("entropy", "max_weight", "own_weight"),
        lines=Lines(
            "n_keys",
            (
                Panel(
                    "entropy",
                    "entropy / ln(n_keys)",
                    floor=0,
                    over="ln n_keys",
                    only=("correlation", min),
                ),
                Panel("max_weight", "largest weight", only=("correlation", min)),
                Panel("own_weight", "weight of the own key", only=("correlation", max)),
            ),
            (10, 3.7),
        ),
        note=_READING,
    ),
    _Saturation(
        name="gradients",
        shows="Gradient norms against d_k: medians beside root mean squares",
        metrics=(
            "jacobian_norm_median",
            "jacobian_norm",
            "query_gradient_norm_median",
            "query_gradient_norm",
        ),
        default=_D_K,
        lines=Lines(
            "d_k",
            (
                Panel("jacobian_norm_median", "|J|_F, median", like="jacobian_norm"),
                Panel("jacobian_norm", "|J|_F, root mean square", like="jacobian_norm_median"),
                Panel(_MEDIAN, "|dL/dq|, median", like="query_gradient_norm"),
                Panel("query_gradient_norm", "|dL/dq|, root mean square", like=_MEDIAN),
            ),
            (9, 6),
            columns=2,
        ),
        note=_READING,
    ),
    _Saturation(
        name="map",
        shows="Ratios of unscaled to scaled gradients over d_k and n_keys",
        metrics=(
            "jacobian_norm_median",
            "query_gradient_norm_median",
            "jacobian_norm",
            "query_gradient_norm",
        ),
        default=Default(varied=("d_k", "n_keys"), rules=_BOTH_RULES),
        note="Colour and number: the unscaled norm divided by the norm under d_k^1/2; red: the "
        "unscaled norm is "
        "larger, blue: it is smaller. Points: d_k at which the ratio falls through 1, with 95% "
        "intervals where these "
        "exceed the marker; pale lines join them. Dashed: prediction of theory, where there is "
        "one. "
        "divisor\u00a0·\u00a0|dL/dq| is without the factor 1/divisor of the chain rule.",
    ),
    Figure(
        name="mechanisms",
        shows="Largest weight and gradient against d_k under each mechanism",
        of="mechanisms",
        metrics=("max_weight", _MEDIAN),
        default=_D_K,
        note=_READING,
    ),
    Figure(
        name="distribution",
        shows="Distribution of one score, measured and exact, and its excess kurtosis",
        of="distribution",
        metrics=("score_variance", "score_kurtosis"),
        default=Default(),
        note=(
            "Points: measured, with 95% intervals for bins with at least 10 scores; pale bands: "
            "exact."
        ),
    ),
    Figure(
        name="initialisation",
        shows="Variance of scaled scores and largest weight by scheme of initial weights",
        of="initialisation",
        metrics=("score_variance", "max_weight"),
        default=Default(),
        lines=Lines(
            "scheme",
            (Panel("score_variance"), Panel("max_weight", equal=True)),
            (3.1, 2.9),
            by="d_model",
            beside="scaling",
        ),
        note=f"{_READING} Dotted: equal weights.",
    ),
    Figure(
        name="formats",
        shows="Weights and gradients that number formats lose, and exponentials that overflow",
        of="rounding",
        metrics=("zero_weights", "wrong_gradient_rows", "overflowing_rows"),
        default=Default(),
        note="Colours and numbers: shares; blank: not measured. Queries, keys, scores, weights and "
        "gradients are rounded to the format; sums, quotients and exponentials to single "
        "precision (in float64 to "
        "double), after subtracting the maximum. Gradients to the weights are standard normal.",
    ),
    Figure(
        name="rows",
        shows="Attention weights of a few queries under each scaling and d_k",
        of="rows",
        metrics=("query", "key", "scaled_score", "weight"),
        default=Default(),
        note="The first draw: an illustration that shows no trend; sweeps of the experiment "
        "saturation have means "
        "over many draws.",
    ),
    _Training(
        name="learning_rates",
        shows="Learning rates that train one attention layer, by scaling rule",
        metrics=("solved", "final_loss", "diverged"),
        default=_RATES,
        note=f"Median loss over runs; pale, for unscaled and d_k^1/2: {_INTERVALS}. Full points: "
        f"at "
        "least half of the runs solve the task; crosses: diverge. Losses above three times that "
        "of a guess stand at "
        "the top. Dotted: least loss of the best rows, of one-hot rows and of a guess. At most "
        "nine cases have panels.",
    ),
    _Training(
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
    ),
    _Training(
        name="divisors",
        shows="Steps to solve a task with divided initial weights or learning rates",
        metrics=("steps_to_solve", "final_loss"),
        default=Default(varied=("learning_rate", "initial_divisor", "rate_divisor")),
        note="Median of the steps to an accuracy of 90% (not solved: more than all steps), and of "
        "the loss after "
        f"training. Bars: {_INTERVALS}; hollow points: fewer than 20 runs. initial_divisor "
        f"divides the "
        "initial W_Q and W_K, rate_divisor their learning rate.",
    ),
    _Training(
        name="learning_curves",
        shows="Training step by step: loss, largest weight and largest score",
        metrics=("final_loss", "max_weight_after", "asked_weight_after", "largest_score_after"),
        default=Default(),
        note="The first task at its largest d_k, at the best learning rate of d_k^1/2. Means over "
        "runs; pale: ± one "
        "standard error. Losses above three times that of a guess stand at the top.",
    ),
    _Training(
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
    ),
    Figure(
        name="first_layer",
        shows="Squared weights and cosine of tokens after one layer, and their limit",
        of="depth",
        metrics=("collision", "cosine"),
        default=Default(),
        note="Points: measured, each a rule. Lines, for d_k to infinity: left exact, right to "
        "second order in the "
        "spread of the lengths of tokens. Dashed: the limit of Giorlandino and Goldt (arXiv "
        "2505.24333) for n_keys to "
        "infinity, right as the mean product of two tokens over their mean square. β / β_c = σ / "
        "sqrt(2 ln n_keys), "
        "with σ the spread of the scaled scores within a row.",
    ),
    Figure(
        name="propagation",
        shows="Cosine of two tokens, layer by layer",
        of="depth",
        metrics=("cosine",),
        default=Default(),
        note="Points: mean of measured cosines, ± two standard errors. Lines: iterated map of the "
        "exact C / S for "
        "wide layers in which all pairs of tokens have one cosine. Each layer has weights of its "
        "own. At most nine "
        "cases have panels.",
    ),
    Figure(
        name="calibration",
        shows="Test of the error bars: z-scores and p-values of all sweeps",
        of="all-sweeps",
        note="Every measured value with a known exact value, once, if it has at least 20 trials, "
        "50 rows that share "
        "nothing and 100 effective draws. The z of few trials follows Student's t and is shown as "
        "the normal score "
        "of the same probability. A cell is one combination of the axes, such as d_k and n_keys. "
        "z-scores of one "
        "cell depend on each other, so they stray further from the line than independent ones; "
        "cells are "
        "independent. Shaded: 95% range of each p-value if p-values are uniform.",
    ),
)
FIGURES: Mapping[str, Figure] = {figure.name: figure for figure in _DECLARED}


def figures_of(of: str) -> tuple[str, ...]:
    """The names of the figures of an experiment, or of another subject of figures, in the order of
    their entries.
    """
    return tuple(name for name, figure in FIGURES.items() if figure.of == of)


def default_figures(experiment: str, values: Mapping[str, Sequence[Any]]) -> tuple[str, ...]:
    """The figures of a sweep that names none, from the values of the fields of its cells."""
    defaults = {name: FIGURES[name].default for name in figures_of(experiment)}
    return tuple(name for name, default in defaults.items() if default and default.holds(values))
