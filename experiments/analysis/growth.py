"""How something grows with a size: the slope in double logarithms."""

import numpy as np
import pandas as pd


def exponents(table: pd.DataFrame) -> pd.DataFrame:
    """Slopes of ln seconds and ln bytes against ln of what is swept, over the three largest sizes.

    Args:
        table: `swept` names the column that was varied; `seconds` and `peak_bytes` are what grows.
    """
    rows = []
    for swept, group in table.groupby("swept", sort=False):
        upper = group.nlargest(3, str(swept))
        size = np.log(upper[str(swept)].to_numpy(dtype=float))
        slopes = {name: np.polyfit(size, np.log(upper[name]), 1)[0] for name in ("seconds", "peak_bytes")}
        rows.append({"swept": swept, **slopes})
    return pd.DataFrame(rows)
