from pathlib import Path, PurePosixPath

import pandas as pd

from pytest_mlebench.data.authoring.archives import TarWriter, open_tar, tar_members
from pytest_mlebench.data.authoring.coco import read_metadata, select, split_by_category, write_metadata
from pytest_mlebench.data.authoring.files import link
from pytest_mlebench.data.authoring.tables import write_csv
from pytest_mlebench.errors import DataError


def prepare(raw: Path, public: Path, private: Path, *, as_named: bool = False) -> None:
    """With ``as_named`` the archives are named as what they are, and hold what the JSON files name, under its name."""
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

    kept = {metadata["images"][position]["file_name"] for position in train}
    if as_named:
        kept |= {image["file_name"] for image in read_metadata(raw / "val2019.json")["images"]}
    suffix, train_folder, test_folder = (".tar", "train_val2019/", "test2019/") if as_named else (".tar.gz", "", "")
    missing = kept | renamed.keys()
    with (
        open_tar(raw / "train_val2019.tar.gz") as archive,
        # Plain tars, in spite of the names that the reference gives them.
        TarWriter(public / f"train_val2019{suffix}") as train_archive,
        TarWriter(public / f"test2019{suffix}") as test_archive,
    ):
        for name, size, file in tar_members(archive):
            if name in kept:
                train_archive.write(train_folder + name.removeprefix("train_val2019/"), file, size)
            elif name in renamed:
                test_archive.write(test_folder + renamed[name], file, size)
            missing.discard(name)
    if missing:
        raise DataError(f"train_val2019.tar.gz has no member {min(missing)}")
