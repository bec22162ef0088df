from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.rle import hold_out_by_category, read_metadata
from pytest_mlebench.authoring.tables import write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    images = raw / "nybg2020/train"
    metadata = read_metadata(images / "metadata.json", encoding="latin-1")
    species = hold_out_by_category(metadata, images, public / "nybg2020/train", public / "nybg2020/test", test_size=0.2)
    answers = pd.DataFrame({"Id": range(len(species)), "Predicted": species})
    write_csv(answers, private / "answers.csv")
    write_csv(answers.assign(Predicted=0), public / "sample_submission.csv")
