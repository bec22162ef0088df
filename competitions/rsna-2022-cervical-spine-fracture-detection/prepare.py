import random
from collections.abc import Collection, Iterable
from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.files import link, link_tree
from pytest_mlebench.authoring.tables import read_csv, write_csv

TRAIN_SHARE = 0.1


def prepare(raw: Path, public: Path, private: Path) -> None:
    studies = read_csv(raw / "train.csv")
    boxes = read_csv(raw / "train_bounding_boxes.csv")
    with_segmentation = sorted(path.stem for path in (raw / "segmentations").glob("*.nii"))
    with_boxes = sorted(set(boxes["StudyInstanceUID"]))
    with_both = sorted({*with_boxes}.intersection(with_segmentation))
    n_both, n_segmentation, n_boxes, n_train = (
        round(TRAIN_SHARE * len(group)) for group in (with_both, with_segmentation, with_boxes, studies)
    )

    generator = random.Random(0)
    both = generator.sample(with_both, n_both)
    segmented = generator.sample(_without(with_segmentation, with_both), n_segmentation - n_both)
    boxed = generator.sample(_without(with_boxes, with_both), n_boxes - n_both)
    chosen = both + segmented + boxed
    train = {*chosen, *generator.sample(_without(studies["StudyInstanceUID"], chosen), n_train - len(chosen))}

    write_csv(boxes[boxes["StudyInstanceUID"].isin(both + boxed)], public / "train_bounding_boxes.csv")
    write_sides(studies, train, both + segmented, raw, public, private)


def write_sides(
    studies: pd.DataFrame, train: Collection[str], segmented: Iterable[str], raw: Path, public: Path, private: Path
) -> None:
    """Write all but the boxes; ``segmented`` are the training studies whose segmentations are public."""
    is_train = studies["StudyInstanceUID"].isin(train)
    write_csv(studies[is_train], public / "train.csv")
    answers = studies[~is_train].melt("StudyInstanceUID", var_name="prediction_type", value_name="fractured")
    answers["row_id"] = answers["StudyInstanceUID"] + "_" + answers["prediction_type"]
    write_csv(answers, private / "answers.csv")
    write_csv(answers.drop(columns="fractured"), public / "test.csv")
    write_csv(answers[["row_id"]].assign(fractured=0.5), public / "sample_submission.csv")

    for study in segmented:
        link(raw / "segmentations" / f"{study}.nii", public / "segmentations" / f"{study}.nii")
    for study in studies["StudyInstanceUID"]:
        side = "train_images" if study in train else "test_images"
        link_tree(raw / "train_images" / study, public / side / study)


def _without(studies: Iterable[str], others: Iterable[str]) -> list[str]:
    excluded = set(others)
    return [study for study in studies if study not in excluded]
