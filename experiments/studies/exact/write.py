"""Tables and pictures of `results/exact`."""

from functools import partial
from pathlib import Path

import pandas as pd

from experiments.config.paths import EXACT
from experiments.figures.picture import Picture
from experiments.running.files import write_atomically
from experiments.studies.exact import half_sums, length, own_key
from experiments.tables.changes import update
from experiments.tables.layout import csv_bytes
from experiments.tables.reporter import Reporter

PICTURES = {"length": length, "own_key": own_key, "half_sums": half_sums}


def write_exact(folder: Path, _: Reporter) -> None:
    """Write the table and the picture of each study."""
    for name, study in PICTURES.items():
        path = folder / EXACT / f"{name}.csv"
        update(path, csv_bytes(study.tabulate()))
        table = pd.read_csv(path)
        picture = Picture(path.with_suffix(".png"), study.WORDS, partial(study.draw, table))
        write_atomically(picture.path, *picture.render())
