"""What the trained decoders give: a table and figures, a picture of longer training on the page, and
the arms in docs.
"""

from pathlib import Path

import pandas as pd

from experiments.config.loader import load_config
from experiments.config.paths import FULL, FULL_CONFIG
from experiments.figures.markup import Source, markdown
from experiments.studies import Contribution
from experiments.tables.all_results import AllResults
from experiments.tables.reporter import Reporter


def _write(folder: Path, _: Reporter) -> None:
    from experiments.studies.training import arms  # loads Matplotlib
    from experiments.studies.training.largest import write_largest  # of the experiment `language`
    from experiments.studies.training.settings import write_settings

    full = AllResults(load_config(FULL_CONFIG), folder / FULL)
    write_settings(full)
    arms.write_arms(full)
    write_largest(folder)


def _trained_arms(source: Source) -> str:
    """Losses of each arm of training beside the divided one at own best rates, and the excess of its
    loss at these and at one rate; in brackets where intervals overlap.
    """
    from experiments.studies.training import arms

    compared = arms.comparisons(arms.fair_runs(source.full))
    compared["setting"] = compared.apply(arms.setting_words, axis=1)
    rows = []
    for (setting, arm), group in compared.groupby(["setting", "arm"], sort=False):
        at = group.set_index("at")
        own, *_ = at.itertuples()
        losses = (f"{own.loss:.3f} at {own.learning_rate:g}", f"{own.divided_loss:.3f}")
        excesses = at.apply(_excess, axis=1).reindex(arms.RATES, fill_value="")
        rows.append([setting, arm, *losses, *excesses, own.vanished])
    head = ["start", "arm", "loss", "loss, divided", *arms.RATES.values(), "gradient vanished"]
    return markdown(head, rows, "--rrrrr")


def _excess(row: pd.Series) -> str:
    words = f"{row['excess']:+.1%}".replace("-", "−")
    return f"({words})" if row["side"] == "open" else words


CONTRIBUTION = Contribution(
    write=_write,
    pictures={"config-full": "config.full/figures/language/*.png"},
    blocks={"trained-arms": _trained_arms},
)
