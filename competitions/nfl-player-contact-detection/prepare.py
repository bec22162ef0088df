from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import hold_out, read_csv, read_csv_high, split, write_csv

VIEWS = ["All29", "Endzone", "Sideline"]


def prepare(raw: Path, public: Path, private: Path) -> None:
    write_sides(*split(labelled_plays(raw), test_size=0.1), raw, public, private)


def labelled_plays(raw: Path) -> list[str]:
    return read_csv(raw / "train_labels.csv", usecols=["game_play"])["game_play"].unique().tolist()


def write_sides(train_plays: list[str], test_plays: list[str], raw: Path, public: Path, private: Path) -> None:
    train, test = hold_out(_read(raw / "train_labels.csv"), "game_play", test_plays)
    write_csv(train, public / "train_labels.csv")
    write_csv(test, private / "test.csv")
    write_csv(test[["contact_id"]].assign(contact=0), public / "sample_submission.csv")
    del train, test
    for name in ("baseline_helmets", "player_tracking", "video_metadata"):
        table = _read(raw / f"train_{name}.csv")  # includes plays without labels
        write_csv(table[table["game_play"].isin(train_plays)], public / f"train_{name}.csv")
        write_csv(table[table["game_play"].isin(test_plays)], public / f"test_{name}.csv")
    for plays, side in ((train_plays, "train"), (test_plays, "test")):
        link_files((f"{play}_{view}.mp4" for play in plays for view in VIEWS), raw / "train", public / side)


def _read(path: Path) -> pd.DataFrame:
    return read_csv_high(path, dtype={"nfl_player_id_2": str})  # a number, or G for the ground
