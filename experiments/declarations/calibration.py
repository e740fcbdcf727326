"""The figure of all sweeps together: measured values against exact ones."""

from experiments.declarations.figure import Figure, Finding
from experiments.declarations.tables import Numbers, Tables
from experiments.paths import ALL_SWEEPS


def _calibration(tables: Tables) -> Numbers:
    distance = tables["z_scores"]["of_own_error"].dropna().abs()
    wide, very_wide = ((distance > limit).mean() for limit in (1.96, 2.58))
    # The values of a cell depend on each other, so that honest shares vary, but by less than a
    # half.
    holds = (
        not tables["agreement"]["disagrees"].any()
        and 2 / 3 < wide / 0.05 < 3 / 2
        and 2 / 3 < very_wide / 0.01 < 3 / 2
    )
    return {"count": len(distance), "wide": wide} if holds else None


FIGURES = (
    Figure(
        name="calibration",
        shows="Test of the error bars: z-scores and p-values of all sweeps",
        of=ALL_SWEEPS,
        note="Every measured value with a known exact value, once, if it has at least 20 trials, "
        "50 rows that share nothing, 100 effective draws, and an error more than 10 times that of "
        "the exact value. The z of few trials follows Student's t and is shown as the normal score "
        "of the same probability. A cell is one combination of the axes, such as d_k and n_keys. "
        "z-scores of one cell depend on each other, so they stray further from the line than "
        "independent ones; cells are independent. Shaded: 95% range of each p-value if p-values "
        "are uniform.",
        finding=Finding(
            sweep=ALL_SWEEPS,
            title="Measured values deviate from exact ones as their errors predict",
            sentence="Of {count} z-scores of measured against exact values, {wide:.1%} lie beyond "
            "±1.96, where N(0, 1) has 5.0%.",
            numbers=_calibration,
        ),
    ),
)
