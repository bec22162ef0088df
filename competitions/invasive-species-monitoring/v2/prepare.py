from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_mlebench.authoring.archives import unpack_7z
from pytest_mlebench.authoring.files import link, link_files
from pytest_mlebench.authoring.tables import read_csv, read_zipped_csv, write_csv

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    first.prepare(raw, public, private)
    labels = read_zipped_csv(public / "train_labels.csv.zip")
    write_csv(labels, public / "train_labels.csv")
    link(private / "sample_submission.csv", public / "sample_submission.csv")
    with TemporaryDirectory(dir=public.parent) as scratch:
        unpack_7z(raw / "train.7z", Path(scratch))
        for side, rows in (("train", labels), ("test", read_csv(private / "answers.csv"))):
            link_files((f"{name}.jpg" for name in rows["name"]), Path(scratch, "train"), public / side)
            (public / f"{side}.7z").unlink()
