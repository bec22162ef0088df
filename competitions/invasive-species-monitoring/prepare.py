import tempfile
from pathlib import Path

from pytest_mlebench.authoring.archives import write_7z, write_zip
from pytest_mlebench.authoring.tables import read_zipped_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_zipped_csv(raw / "train_labels.csv.zip"), test_size=0.2)
    sample = test.assign(invasive=0.5)
    write_csv(test, private / "answers.csv")
    write_csv(sample, private / "sample_submission.csv")
    for name, table in (("train_labels.csv", train), ("sample_submission.csv", sample)):
        write_zip(public / f"{name}.zip", {name: table.to_csv(index=False)})
    # Like the reference, pack an empty folder instead of the images.
    with tempfile.TemporaryDirectory(dir=public.parent) as empty:
        for name in ("train", "test"):
            write_7z(public / f"{name}.7z", {name: Path(empty)})
