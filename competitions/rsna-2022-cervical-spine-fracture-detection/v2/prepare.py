from pathlib import Path

from pytest_mlebench.authoring.tables import read_csv, split, write_csv

from .. import prepare as first

TEST_SHARE = 0.1


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Hold out a tenth of the studies, stratified by whether they have boxes, segmentations, both or neither."""
    studies, boxes = read_csv(raw / "train.csv"), read_csv(raw / "train_bounding_boxes.csv")
    ids = studies["StudyInstanceUID"]
    has_boxes = ids.isin(boxes["StudyInstanceUID"])
    is_segmented = ids.isin([path.stem for path in (raw / "segmentations").glob("*.nii")])
    kind = has_boxes.astype(int) + 2 * is_segmented.astype(int)
    kind[kind.map(kind.value_counts()) < 2] = 0  # kinds with one study cannot be stratified
    train, _ = split(ids, TEST_SHARE, stratify=kind)
    write_csv(boxes[boxes["StudyInstanceUID"].isin(train)], public / "train_bounding_boxes.csv")
    first.write_sides(studies, set(train), sorted(set(train) & set(ids[is_segmented])), raw, public, private)
