from pathlib import Path
from typing import Any

from pytest_mlebench.data.authoring.corrections import hold_out_groups
from pytest_mlebench.data.authoring.files import link

from .v1 import prepare as first

Images = list[dict[str, Any]]


def prepare(raw: Path, public: Path, private: Path) -> None:
    first.prepare(raw, public, private, split=split)
    link(private / "sample_submission.csv", public / "sample_submission.csv")


def split(images: Images, test_size: float) -> tuple[Images, Images]:
    """Images of the same angle are on one side; those whose angle is not known are for training."""
    known = [image for image in images if image["inc_angle"] != "na"]
    train, test = hold_out_groups(lambda images: [image["inc_angle"] for image in images])(
        known, test_size=round(test_size * len(images))
    )
    return train + [image for image in images if image["inc_angle"] == "na"], test
