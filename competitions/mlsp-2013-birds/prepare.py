from collections.abc import Iterable, Mapping
from pathlib import Path
from zipfile import ZipFile

import pandas as pd

from pytest_mlebench.authoring.archives import open_member, open_zip, unpack_zip
from pytest_mlebench.authoring.tables import read_csv, write_csv

ROOT = "mlsp_contest_dataset"
ESSENTIAL, SUPPLEMENTAL = "essential_data", "supplemental_data"
LABELS = f"{ESSENTIAL}/rec_labels_test_hidden.txt"
SEGMENT_TABLES = [
    f"{SUPPLEMENTAL}/{name}.txt" for name in ("histogram_of_segments", "segment_features", "segment_rectangles")
]
UNCHANGED = [
    f"{ESSENTIAL}/species_list.txt",
    *(f"{SUPPLEMENTAL}/segment_{name}.bmp" for name in ("clusters", "mosaic")),
]
OF_RECORDINGS = [
    (f"{ESSENTIAL}/src_wavs", "wav"),
    *(
        (f"{SUPPLEMENTAL}/{name}", "bmp")
        for name in ("filtered_spectrograms", "spectrograms", "supervised_segmentation")
    ),
]
EXAMPLES = f"{SUPPLEMENTAL}/segmentation_examples"  # for a few recordings only

HEADING = "rec_id,[histogram of segment features]"


def prepare(raw: Path, public: Path, private: Path) -> None:
    with open_zip(raw / f"{ROOT}.zip") as archive:
        with open_member(archive, f"{ROOT}/{ESSENTIAL}/CVfolds_2.txt") as file:
            old_ids = read_csv(file).query("fold == 0")["rec_id"]
        with open_member(archive, f"{ROOT}/{ESSENTIAL}/rec_id2filename.txt") as file:
            files = read_csv(file).query("rec_id in @old_ids")
        new_ids = {str(old): new for new, old in enumerate(old_ids)}
        labels, *segments = (_renumbered(archive, name, new_ids) for name in (LABELS, *SEGMENT_TABLES))
        members = set(archive.namelist())

    folds = pd.DataFrame({"rec_id": range(len(old_ids)), "fold": 0})
    test = sorted(folds.sample(frac=0.2, random_state=0)["rec_id"])
    folds.loc[test, "fold"] = 1
    write_csv(folds, public / ESSENTIAL / "CVfolds_2.txt")
    write_csv(files.assign(rec_id=files["rec_id"].astype(str).map(new_ids)), public / ESSENTIAL / "rec_id2filename.txt")
    hidden = set(test)
    _write_lines(public / LABELS, "rec_id,[labels]", ((id, "?" if id in hidden else species) for id, species in labels))
    for name, rows in zip(SEGMENT_TABLES, segments, strict=True):
        _write_lines(public / name, HEADING, rows)  # the reference uses the first table's header for all

    truth = [
        (100 * id + number, int(str(number) in species.split(",")))
        for id, species in labels
        if id in hidden
        for number in range(19)
    ]
    answers = pd.DataFrame(truth, columns=["Id", "Probability"])
    write_csv(answers, private / "answers.csv")
    write_csv(answers.sort_values("Id").assign(Probability=0), public / "sample_submission.csv")

    names = [
        *UNCHANGED,
        *(f"{folder}/{name}.{suffix}" for folder, suffix in OF_RECORDINGS for name in files["filename"]),
    ]
    examples = [f"{EXAMPLES}/{name}.bmp" for name in files["filename"]]
    names += [name for name in examples if f"{ROOT}/{name}" in members]
    (public / EXAMPLES).mkdir()
    unpack_zip(raw / f"{ROOT}.zip", public, {f"{ROOT}/{name}": name for name in names})


def _renumbered(archive: ZipFile, name: str, new_ids: Mapping[str, int]) -> list[tuple[int, str]]:
    """Return new id and remaining text of each line of a file, without its header and unknown recordings."""
    with open_member(archive, f"{ROOT}/{name}") as file:
        lines = [line.partition(",") for line in file.read().decode().splitlines()[1:]]
    return [(new_ids[id], rest) for id, _, rest in lines if id in new_ids]


def _write_lines(path: Path, heading: str, rows: Iterable[tuple[int, str]]) -> None:
    lines = [heading, *(f"{id},{rest}" if rest else str(id) for id, rest in rows)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
