from pathlib import Path

from pytest_mlebench.data.authoring.corrections import hold_out_groups, near_duplicates

from .v1 import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    split = hold_out_groups(lambda photos: near_duplicates(raw / "train" / f"{id}.jpg" for id in photos["Id"]))
    first.prepare(raw, public, private, split=split)
