from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.data.authoring.corrections import Split
from pytest_mlebench.data.authoring.tables import split, write_csv

from .arrays import open_array, take_rows


def prepare(raw: Path, public: Path, private: Path, *, split: Split = split) -> None:
    old, new = raw / "timit_11" / "timit_11", public / "timit_11" / "timit_11"
    frames, old_test_frames = len(open_array(old / "train_11.npy")), len(open_array(old / "test_11.npy"))
    train, test = split(np.arange(frames), test_size=old_test_frames / (frames + old_test_frames))
    take_rows(old / "train_11.npy", train, new / "train_11.npy")
    take_rows(old / "train_label_11.npy", train, new / "train_label_11.npy")
    take_rows(old / "train_11.npy", test, new / "test_11.npy")
    answers = pd.DataFrame({"Id": np.arange(len(test)), "ClassId": open_array(old / "train_label_11.npy")[test]})
    write_csv(answers, private / "answers.csv")
    write_csv(answers.assign(ClassId=0), public / "sampleSubmission.csv")
