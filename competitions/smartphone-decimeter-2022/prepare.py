from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.files import link, link_tree
from pytest_mlebench.authoring.tables import read_csv_high, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    drives = sorted(path for path in (raw / "train").iterdir() if path.is_dir())
    train_dates, _ = split(sorted({_date(drive) for drive in drives}), test_size=0.1)
    trips = []
    for drive in drives:
        if _date(drive) in train_dates:
            link_tree(drive, public / "train" / drive.name)
            continue
        for path in sorted(path for path in drive.rglob("*") if path.is_file()):
            if path.name == "ground_truth.csv":
                trips.append(_positions(path, f"{drive.name}-{path.parent.name}"))
            else:
                link(path, public / "test" / path.relative_to(raw / "train"))
    link_tree(raw / "metadata", public / "metadata")
    answers = pd.concat(trips)
    write_csv(answers, private / "test.csv")
    sample = answers.assign(LatitudeDegrees=37.904611315634504, LongitudeDegrees=-86.48107806249548)
    write_csv(sample, public / "sample_submission.csv")


def _date(drive: Path) -> str:
    year, month, day = drive.name.split("-")[:3]
    return f"{year}-{month:0>2}-{day:0>2}"


def _positions(path: Path, trip: str) -> pd.DataFrame:
    columns = ["UnixTimeMillis", "LatitudeDegrees", "LongitudeDegrees"]
    return read_csv_high(path, usecols=columns).assign(tripId=trip)[["tripId", *columns]]
