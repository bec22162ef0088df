from pathlib import Path

import pandas as pd

from .. import synthetic as first
from ..synthetic import submissions as submissions

EIGHTH_DAY = "f" * 20
"""A customer who buys only on the eighth day from the end, which is the first test day of version 1."""


def make(raw: Path, seed: int) -> None:
    """The sample submission names articles that nobody buys, so it earns no medal."""
    first.make(raw, seed)
    sales = pd.read_csv(raw / "transactions_train.csv", dtype=str)
    day = str((pd.Timestamp(sales["t_dat"].max()) - pd.Timedelta(days=7)).date())
    row = sales[sales["t_dat"] == day].head(1).assign(customer_id=EIGHTH_DAY)
    pd.concat([sales, row]).sort_values("t_dat", kind="stable").to_csv(raw / "transactions_train.csv", index=False)
    for name in ("customers", "sample_submission"):
        table = pd.read_csv(raw / f"{name}.csv", dtype=str)
        table = pd.concat([table, table.tail(1).assign(customer_id=EIGHTH_DAY)])
        if "prediction" in table:
            table["prediction"] = " ".join(f"{k:010d}" for k in range(1, 13))
        table.to_csv(raw / f"{name}.csv", index=False)
