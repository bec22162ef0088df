from pathlib import Path

from pytest_mlebench.authoring.archives import open_member, open_zip
from pytest_mlebench.authoring.tables import read_csv

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Keep each table's own header, and leave out the marks in test recordings."""
    first.prepare(raw, public, private)
    with open_zip(raw / f"{first.ROOT}.zip") as archive:
        for name in first.SEGMENT_TABLES:
            with open_member(archive, f"{first.ROOT}/{name}") as file:
                heading = file.readline().decode().rstrip("\r\n")
            rows = (public / name).read_text(encoding="utf-8").removeprefix(first.HEADING)
            (public / name).write_text(heading + rows, encoding="utf-8", newline="")
    folds, names = (read_csv(public / first.ESSENTIAL / f"{name}.txt") for name in ("CVfolds_2", "rec_id2filename"))
    for name in names.loc[names["rec_id"].isin(folds.query("fold == 1")["rec_id"]), "filename"]:
        (public / first.EXAMPLES / f"{name}.bmp").unlink(missing_ok=True)
