from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_mlebench.authoring.archives import zip_member
from pytest_mlebench.authoring.files import link, link_tree
from pytest_mlebench.authoring.tables import read_csv, read_header, write_csv
from pytest_mlebench.errors import DataError

from .web import download

META = "FSDKaggle2019.meta"
URL = f"https://zenodo.org/records/3612637/files/{META}.zip?download=1"


def prepare(raw: Path, public: Path, private: Path) -> None:
    for path in raw.iterdir():
        if META not in path.name:
            place = link_tree if path.is_dir() else link
            place(path, public / path.name)
    # Kaggle's download lacks the labels of the test clips, which were published later.
    with TemporaryDirectory(dir=public.parent) as scratch:
        archive = raw / f"{META}.zip"
        if not archive.is_file():
            archive = Path(scratch, archive.name)
            download(URL, archive)
        with zip_member(archive, f"{META}/test_post_competition.csv") as file:
            labels = read_csv(file)
    labels = labels[labels["usage"] == "Private"]
    columns = read_header(public / "sample_submission.csv")
    tags = labels["labels"].str.get_dummies(",").reindex(columns=columns[1:], fill_value=0)
    write_csv(labels[["fname"]].join(tags), private / "test.csv")
    if set(read_csv(public / "sample_submission.csv", usecols=["fname"])["fname"]) != set(labels["fname"]):
        raise DataError("sample_submission.csv and the published labels list different clips")
