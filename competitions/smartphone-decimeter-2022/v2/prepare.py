import shutil
from pathlib import Path

from pytest_mlebench.authoring.tables import read_csv, write_csv

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Keep only the first phone of each test drive, because the others' positions are nearly the same."""
    first.prepare(raw, public, private)
    for log in (public / "test").rglob("span_log.nmea"):
        log.unlink()
    trips = set()
    for drive in (public / "test").iterdir():
        phone, *others = sorted(folder for folder in drive.iterdir() if folder.is_dir())
        trips.add(f"{drive.name}-{phone.name}")
        for other in others:
            shutil.rmtree(other)
    for table in (private / "test.csv", public / "sample_submission.csv"):
        rows = read_csv(table)
        write_csv(rows[rows["tripId"].isin(trips)], table)
