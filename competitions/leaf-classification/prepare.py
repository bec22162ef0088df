from pathlib import Path

from pytest_mlebench.authoring.archives import unpack_zip
from pytest_mlebench.authoring.tables import one_hot, read_zipped_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    leaves = read_zipped_csv(raw / "train.csv.zip")
    species = sorted(leaves["species"].unique())
    train, test = split(leaves, test_size=0.1)
    answers = test[["id"]].join(one_hot(test["species"], species))
    write_csv(train, public / "train.csv")
    write_csv(test.drop(columns="species"), public / "test.csv")
    write_csv(answers, private / "test.csv")
    write_csv(answers.assign(**dict.fromkeys(species, 1 / len(species))), public / "sample_submission.csv")
    unpack_zip(raw / "images.zip", public, {name: name for name in "images/" + leaves["id"].astype(str) + ".jpg"})
