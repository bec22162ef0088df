from pathlib import Path

from pytest_mlebench.authoring.tables import hold_out, read_csv, write_csv

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    first.prepare(raw, public, private)
    images = [id for side in (public / "train.csv", private / "test.csv") for id in read_csv(side)["id"]]
    _, depths = hold_out(read_csv(raw / "depths.csv"), "id", images)
    write_csv(depths.sort_values("id"), public / "depths.csv")
