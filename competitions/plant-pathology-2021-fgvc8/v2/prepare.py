from pathlib import Path

from pytest_mlebench.data.authoring.corrections import hold_out_groups, near_duplicates

from .v1 import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    split = hold_out_groups(lambda leaves: near_duplicates(raw / "train_images" / name for name in leaves["image"]))
    first.prepare(raw, public, private, split=split)
