from pathlib import Path

from pytest_mlebench.data.archives import ZipWriter, open_member, open_zip
from pytest_mlebench.data.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_csv(raw / "train.csv"), test_size=0.19)
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    write_csv(test.assign(has_cactus=0.5), public / "sample_submission.csv")
    with open_zip(raw / "train.zip") as pictures:
        for name, rows in (("train.zip", train), ("test.zip", test)):
            with ZipWriter(public / name) as archive:
                for picture in rows["id"]:
                    with open_member(pictures, f"train/{picture}") as file:
                        archive.write(picture, file)
