from pathlib import Path

from .v1 import prepare as first
from .v1.prepare import TEST_ROWS as TEST_ROWS


def prepare(raw: Path, public: Path, private: Path) -> None:
    first.prepare(raw, public, private)
    (public / "labels.csv").rename(public / "train.csv")
    (public / "GCP-Coupons-Instructions.rtf").unlink()
