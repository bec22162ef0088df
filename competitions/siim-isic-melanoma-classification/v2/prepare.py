from pathlib import Path

from pytest_mlebench.authoring.corrections import hold_out_groups
from pytest_mlebench.authoring.tfrecord import Feature, copy_records, keep_features

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Hold out patients with as large a share of the images as in version 1."""
    train, test = hold_out_groups("patient_id")(first.read_images(raw), test_size=0.125)
    first.write_sides(train, test, raw, public, private)
    (public / "tfrecords").mkdir()
    for side, rows in (("train", train), ("test", test)):
        _write_records(side, set(rows["image_name"]), raw / "tfrecords", public / "tfrecords")


def _write_records(side: str, names: set[str], raw: Path, public: Path) -> None:
    """Write a file for each raw one with images of this side. Test files keep only images and their names."""

    def is_on_side(example: dict[str, Feature]) -> bool:
        (name,) = example["image_name"]
        return isinstance(name, bytes) and name.decode() in names

    new = public / "new"
    number = 0
    for source in sorted(raw.glob("train*.tfrec")):
        count = copy_records(source, new, is_on_side)
        if not count:
            new.unlink()
            continue
        if side == "test":
            keep_features(new, ["image", "image_name"])
        new.rename(public / f"{side}{number:02d}-{count}.tfrec")
        number += 1
