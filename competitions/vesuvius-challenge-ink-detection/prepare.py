from pathlib import Path

from PIL import Image

from pytest_mlebench.authoring.files import link_files, link_tree
from pytest_mlebench.authoring.tables import read_csv, write_csv
from pytest_mlebench.errors import DataError

TEST_FRAGMENT = "3"
WITHHELD = {"inklabels.png", "inklabels_rle.csv", "ir.png"}


def prepare(raw: Path, public: Path, private: Path) -> None:
    for fragment in ("1", "2"):
        link_tree(raw / "train" / fragment, public / "train" / fragment)
    folder = raw / "train" / TEST_FRAGMENT
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    link_files((name for name in files if name not in WITHHELD), folder, public / "test/a")

    labels = read_csv(folder / "inklabels_rle.csv")
    if len(labels) != 1:
        raise DataError(f"{folder / 'inklabels_rle.csv'} has {len(labels)} rows; one was expected")
    with Image.open(folder / "ir.png") as image:
        width, height = image.size
    labels = labels.assign(Id="a")
    write_csv(labels.assign(width=width, height=height), private / "inklabels_rle.csv")
    write_csv(labels, private / "gold_submission.csv")
    write_csv(labels.assign(Predicted="1 1 5 1"), public / "sample_submission.csv")
