from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.tables import write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    table = pd.DataFrame({"id": range(100)})
    table["odd"] = table["id"] % 2
    write_csv(table[:80], public / "train.csv")
    write_csv(table[80:], private / "test.csv")
    write_csv(table[80:][["id"]], public / "test.csv")
    write_csv(table[80:].assign(odd=0), public / "sample_submission.csv")
