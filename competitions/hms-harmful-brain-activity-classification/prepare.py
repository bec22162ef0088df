from pathlib import Path

from pytest_mlebench.data.files import link_files, link_tree
from pytest_mlebench.data.tables import read_csv, split, write_csv

VOTES = ["seizure_vote", "lpd_vote", "gpd_vote", "lrda_vote", "grda_vote", "other_vote"]


def prepare(raw: Path, public: Path, private: Path) -> None:
    segments = read_csv(raw / "train.csv")
    _, held_out = split(segments["spectrogram_id"].unique(), test_size=0.1)
    is_test = segments["spectrogram_id"].isin(held_out)
    train, test = segments[~is_test], segments[is_test]
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    write_csv(test[["spectrogram_id", "eeg_id", "patient_id"]], public / "test.csv")
    shares = test[VOTES].div(test[VOTES].sum(axis=1), axis=0)
    write_csv(test[["eeg_id"]].join(shares), private / "gold_submission.csv")
    write_csv(test[["eeg_id"]].assign(**dict.fromkeys(VOTES, 1 / 6)), public / "sample_submission.csv")
    link_tree(raw / "example_figures", public / "example_figures")
    for kind in ("eeg", "spectrogram"):
        for name, rows in (("train", train), ("test", test)):
            files = (f"{id}.parquet" for id in rows[f"{kind}_id"].unique())
            link_files(files, raw / f"train_{kind}s", public / f"{name}_{kind}s")
