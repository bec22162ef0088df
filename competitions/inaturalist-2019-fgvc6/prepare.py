from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

import pandas as pd

from pytest_mlebench.authoring.archives import SortedTarWriter, TarWriter, open_tar, tar_members
from pytest_mlebench.authoring.files import link
from pytest_mlebench.authoring.rle import read_metadata, select, split_by_category, write_metadata
from pytest_mlebench.authoring.tables import write_csv
from pytest_mlebench.errors import DataError


def prepare(raw: Path, public: Path, private: Path) -> None:
    kept, renamed = write_tables(raw, public, private)
    archives = {  # uncompressed, despite the reference's file names
        public / "train_val2019.tar.gz": {name: name.removeprefix("train_val2019/") for name in kept},
        public / "test2019.tar.gz": renamed,
    }
    write_archives(raw, archives)


def write_tables(raw: Path, public: Path, private: Path) -> tuple[set[str], dict[str, str]]:
    """Write all but the archives; return the training photos' names, and the test photos' old and new names."""
    metadata = read_metadata(raw / "train2019.json")
    categories = [annotation["category_id"] for annotation in metadata["annotations"]]
    train, test = split_by_category(categories, test_size=0.12)
    images = [metadata["images"][position] for position in test]
    renamed = {image["file_name"]: PurePosixPath(image["file_name"]).name for image in images}
    test_metadata = {
        "images": [{**image, "file_name": f"test2019/{renamed[image['file_name']]}"} for image in images],
        "info": metadata["info"],
        "licenses": metadata["licenses"],
    }
    write_metadata(select(metadata, train), public / "train2019.json")
    write_metadata(test_metadata, public / "test2019.json")
    link(raw / "val2019.json", public / "val2019.json")
    answers = pd.DataFrame(
        {"id": [image["id"] for image in images], "predicted": [categories[position] for position in test]}
    )
    write_csv(answers, private / "answers.csv")
    write_csv(answers.assign(predicted=654), public / "kaggle_sample_submission.csv")

    return {metadata["images"][position]["file_name"] for position in train}, renamed


def write_archives(raw: Path, archives: Mapping[Path, Mapping[str, str]]) -> None:
    """Write archives with members of train_val2019.tar.gz under new names. Raises DataError if one is missing."""
    missing = {name for members in archives.values() for name in members}
    with open_tar(raw / "train_val2019.tar.gz") as source, ExitStack() as stack:
        writers = [(stack.enter_context(_writer(path)), members) for path, members in archives.items()]
        for name, size, file in tar_members(source):
            for archive, members in writers:
                if name in members:
                    archive.write(members[name], file, size)
            missing.discard(name)
    if missing:
        raise DataError(f"train_val2019.tar.gz has no member {min(missing)}")


def _writer(path: Path) -> TarWriter:
    """Return a writer, which sorts test photos by name, because their original order reveals the categories."""
    return SortedTarWriter(path) if path.name.startswith("test") else TarWriter(path)
