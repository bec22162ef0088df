from pathlib import Path

from pytest_mlebench.authoring.corrections import hold_out_groups
from pytest_mlebench.authoring.files import link

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Keep images of the same angle on one side. Those without a known angle are for training."""
    images = first.read_images(raw)
    known = [image for image in images if image["inc_angle"] != "na"]
    split = hold_out_groups(lambda images: [image["inc_angle"] for image in images])
    train, test = split(known, test_size=round(0.2 * len(images)))
    unknown = [image for image in images if image["inc_angle"] == "na"]
    first.write_sides(train + unknown, test, raw, public, private)
    link(private / "sample_submission.csv", public / "sample_submission.csv")
