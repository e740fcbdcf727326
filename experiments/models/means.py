"""Means over groups of sequences, with their standard errors."""

from collections.abc import Sequence

import numpy as np
import pandas as pd


def with_errors(
    table: pd.DataFrame, by: Sequence[str], geometric: Sequence[str] = ()
) -> pd.DataFrame:
    """The mean of each column over groups, followed by its standard error between them, NAME_se.

    Args:
        table: a row for each group, which its column `group` names, of all that `by` tells apart.
        by: columns that stay.
        geometric: columns whose mean is geometric; the error is that of the logarithm, times the
            mean.
    """
    values = table.set_index([*by, "group"])
    logarithmic = [*geometric]
    values[logarithmic] = np.log(values[logarithmic])
    groups = values.groupby([*by], sort=False)
    means, errors = groups.mean(), groups.sem()
    means[logarithmic] = np.exp(means[logarithmic])
    errors[logarithmic] *= means[logarithmic]
    both = means.join(errors.add_suffix("_se"))
    order = [f"{name}{suffix}" for name in means for suffix in ("", "_se")]
    return both[order].reset_index()
