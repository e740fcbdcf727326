"""Calibration of the error bars of all sweeps together.

If theory, sampler and error bars are right, z = (measured - exact) / standard error follows N(0, 1), and the p-values
of independent cells are uniform. The tables come from `experiments.analysis.agreement`.
"""

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from scipy import stats

from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.style import INK, note, panels

Floats = npt.NDArray[np.floating]

_POINTS = 200


def plot(tables: Tables) -> Drawing:
    """The z-scores as a histogram and in order, and the p-values of cells in order.

    Args:
        tables: `z_scores` with the column `of_own_error`, and `cells` with `p_value`.
    """
    figure, [[left, middle, right]] = panels(1, 3, (11, 4.2))
    z = np.sort(tables["z_scores"]["of_own_error"].dropna().to_numpy())
    x = np.linspace(-4, 4, _POINTS)
    left.hist(z, bins=np.arange(-5, 5.01, 0.25), density=True, color=INK, alpha=0.3)
    left.plot(x, stats.norm.pdf(x), color=INK)
    left.set_xlim(-4.5, 4.5)
    left.set_title(f"density of {len(z)} z-scores, line: N(0, 1)")
    left.set_xlabel("z = (measured − exact) / standard error")
    _in_order(middle, stats.norm.ppf(_places(len(z))), z)
    middle.set_title("z-scores in order")
    middle.set_xlabel("expected under N(0, 1)")
    p = np.sort(tables["cells"]["p_value"].to_numpy())
    _in_order(right, _places(len(p)), p)
    ranks = np.arange(1, len(p) + 1)
    low, high = (stats.beta.ppf(end, ranks, len(p) + 1 - ranks) for end in (0.025, 0.975))
    right.fill_between(_places(len(p)), low, high, color=INK, alpha=0.15, linewidth=0)
    right.set_title(f"p-values of {len(p)} cells in order")
    right.set_xlabel("expected if uniform")
    note(
        figure,
        "Every measured value with a known exact value, once, if it has at least 20 trials, 50 rows that share nothing "
        "and 100 effective draws. The z of few trials follows Student's t and is shown as the normal score of the same "
        "probability. A cell is one combination of the axes, such as d_k and n_keys. z-scores of one cell depend on "
        "each other, so they stray further from the line than independent ones; cells are independent. Shaded: 95% "
        "range of each p-value if p-values are uniform.",
    )
    return figure


def _places(count: int) -> Floats:
    """The expected places of that many uniform numbers in order: (i + 1/2) / n for i from 0.

    >>> _places(2)
    array([0.25, 0.75])
    """
    return (np.arange(count) + 0.5) / count


def _in_order(ax: Axes, expected: Floats, found: Floats) -> None:
    """Sorted values against their expected values, as points, and the line on which they lie if both are equal."""
    # Thousands of vector points would take most of the page's space for drawings.
    ax.plot(expected, found, color=INK, marker=".", linestyle="", rasterized=True)
    ax.axline((0, 0), slope=1, color=INK, linewidth=0.8)


def caption(tables: Tables) -> str:
    """The shares of extreme z-scores, and the verdict of the check, as the terminal prints it."""
    size, together = tables["z_scores"]["of_own_error"].dropna().abs(), tables["agreement"].iloc[0]
    alarm = ", and the check raises its alarm" if together["disagrees"] else ""
    shares = [f"{(size > limit).mean():.1%} lie beyond ±{limit}" for limit in (1.96, 2.58)]
    return (
        f"Of {len(size)} z-scores of measured against exact values, {shares[0]} and {shares[1]} (N(0, 1): 5.0% and "
        f"1.0%); the check compares {together['verdict']}{alarm}."
    )


def title(tables: Tables) -> str:
    """The verdict of all tests together."""
    if tables["agreement"].iloc[0]["disagrees"]:
        return "Measured and exact values differ by more than chance explains"
    return "Measured values deviate from exact ones as their errors predict"


FIGURE = Figure(
    shows="Test of the error bars: z-scores and p-values of all sweeps",
    of="all-sweeps",
    tables=("cells", "z_scores", "agreement"),
    plot=plot,
    caption=caption,
    title=title,
)
