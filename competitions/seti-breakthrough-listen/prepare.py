from pathlib import Path

from pytest_mlebench.authoring.files import link_files, link_tree
from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_csv(raw / "train_labels.csv"), test_size=0.1)
    write_csv(train, public / "train_labels.csv")
    write_csv(test, private / "test.csv")
    write_csv(test.assign(target=0.5), public / "sample_submission.csv")
    link_tree(raw / "old_leaky_data", public / "old_leaky_data")
    for name, rows in (("train", train), ("test", test)):
        link_files((f"{id[0]}/{id}.npy" for id in rows["id"]), raw / "train", public / name)
