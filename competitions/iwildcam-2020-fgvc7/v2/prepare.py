from pathlib import Path

from pytest_mlebench.authoring.tables import hold_out

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Hold out the intended share of images, with one annotation for each test image."""
    images, annotations = first.read_tables(raw)
    locations = first.test_locations(images["location"], lambda held_out, total: held_out / total)
    train, test = hold_out(images, "location", locations)
    train_annotations, truth = hold_out(annotations, "image_id", test["id"])
    truth = truth.drop_duplicates("image_id")
    test = test[test["id"].isin(truth["image_id"])]
    first.write_sides(train, test, train_annotations, truth, raw, public, private)
