from pathlib import Path

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    first.prepare(raw, public, private)
    (public / "labels.csv").rename(public / "train.csv")
    (public / "GCP-Coupons-Instructions.rtf").unlink()
