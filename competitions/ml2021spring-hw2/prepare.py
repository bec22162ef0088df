from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pytest_mlebench.authoring.tables import split, write_csv

from .arrays import open_array, take_rows

FOLDER = Path("timit_11", "timit_11")


def prepare(raw: Path, public: Path, private: Path) -> None:
    rows, test_size = frames(raw)
    write_sides(*split(rows, test_size=test_size), raw, public, private)


def frames(raw: Path) -> tuple[NDArray[np.intp], float]:
    """Return the numbers of the labelled rows, and the share to hold out."""
    labelled, test = (len(open_array(raw / FOLDER / f"{side}_11.npy")) for side in ("train", "test"))
    return np.arange(labelled), test / (labelled + test)


def write_sides(train: NDArray[np.intp], test: NDArray[np.intp], raw: Path, public: Path, private: Path) -> None:
    old, new = raw / FOLDER, public / FOLDER
    take_rows(old / "train_11.npy", train, new / "train_11.npy")
    take_rows(old / "train_label_11.npy", train, new / "train_label_11.npy")
    take_rows(old / "train_11.npy", test, new / "test_11.npy")
    answers = pd.DataFrame({"Id": np.arange(len(test)), "ClassId": open_array(old / "train_label_11.npy")[test]})
    write_csv(answers, private / "answers.csv")
    write_csv(answers.assign(ClassId=0), public / "sampleSubmission.csv")
