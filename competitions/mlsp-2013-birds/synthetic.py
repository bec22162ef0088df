from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import standard

from .prepare import ROOT

ESSENTIAL, SUPPLEMENTAL = f"{ROOT}/essential_data", f"{ROOT}/supplemental_data"


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 92 + 4 * seed
    train = np.zeros(n, bool)
    train[rng.choice(n, 56 + 3 * seed, replace=False)] = True
    names = [_file_name(rng, i) for i in range(n)]
    # the text files are in different orders, none of them numeric
    folds = [f"{i},{0 if train[i] else 1}" for i in rng.permutation(n)]
    file_names = [f"{i},{names[i]}" for i in rng.permutation(n)]
    labels = []
    for i in rng.permutation(n):
        heard = rng.choice(19, rng.integers(0, 6), replace=False)
        labels.append(",".join([str(i), *(map(str, sorted(heard)) if train[i] else ["?"])]))
    histograms, features, rectangles = [], [], []
    for i in range(n):
        histograms.append(_row(i, *(f"{share:.4f}" for share in rng.random(4))))
        for segment in range(rng.integers(0, 3)):
            features.append(_row(i, segment, *(f"{value:.6g}" for value in rng.normal(0, 1e3, 3))))
            rectangles.append(_row(i, segment, *rng.integers(0, 1000, 4)))
    species = [f"{k},SP{k:02d},Bird No. {k}" for k in range(19)]
    files: dict[str, bytes | str] = {
        f"{ESSENTIAL}/CVfolds_2.txt": _lines("rec_id,fold", folds),
        f"{ESSENTIAL}/rec_id2filename.txt": _lines("rec_id,filename", file_names),
        f"{ESSENTIAL}/rec_labels_test_hidden.txt": _lines("rec_id,[labels]", labels, "\r\n").removesuffix("\r\n"),
        f"{ESSENTIAL}/species_list.txt": _lines("class_id,code,species", species, "\r\n"),
        f"{ESSENTIAL}/sample_submission.csv": "rec_id,species,probability\n1,0,0\n",
        f"{SUPPLEMENTAL}/histogram_of_segments.txt": _lines("rec_id,[histogram of segment features]", histograms),
        f"{SUPPLEMENTAL}/segment_features.txt": _lines("rec_id,segment_id,[feature vector]", features, "\r\n"),
        f"{SUPPLEMENTAL}/segment_rectangles.txt": _lines("rec_id,segment_id,x0,x1,y0,y1", rectangles).rstrip(),
        f"{ROOT}/README.txt": "not used\n",
    }
    for name in ("segment_clusters", "segment_mosaic"):
        files[f"{SUPPLEMENTAL}/{name}.bmp"] = b"BM" + rng.bytes(2)
    for name in names:
        files[f"{ESSENTIAL}/src_wavs/{name}.wav"] = b"RIFF" + rng.bytes(2)
        for folder in ("filtered_spectrograms", "spectrograms", "supervised_segmentation"):
            files[f"{SUPPLEMENTAL}/{folder}/{name}.bmp"] = b"BM" + rng.bytes(2)
        if rng.random() < 0.15:
            files[f"{SUPPLEMENTAL}/segmentation_examples/{name}.bmp"] = b"BM" + rng.bytes(2)
    write_zip(raw / f"{ROOT}.zip", files)
    (raw / "mlsp13birdchallenge_documentation.pdf").write_bytes(b"%PDF")


def _file_name(rng: np.random.Generator, recording: int) -> str:
    site, month, day, hour = (rng.integers(*bounds) for bounds in ((1, 18), (5, 9), (10, 30), (0, 24)))
    return f"PC{site}_20090{month}{day}_{hour:02d}0000_{recording:04d}"


def _row(*fields: object) -> str:
    return ",".join(map(str, fields))


def _lines(heading: str, rows: list[str], end: str = "\n") -> str:
    return end.join([heading, *rows, ""])


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    p = np.clip(0.2 + 0.3 * answers.Probability + rng.normal(0, 0.2, len(answers)), 0, 1)
    noisy = answers.assign(Probability=p.round(4))
    rest = noisy.Probability[1:]
    recording, species = answers.Id // 100, answers.Id % 100
    return {
        **standard(noisy, "Id", 999999, "Probability", "missing_id nan_id nan_prediction above_one negative"),
        "ties": noisy.assign(Probability=np.round(p * 3) / 3),
        "species_rate_only": noisy.assign(Probability=species / 100),
        "constant": noisy.assign(Probability=1),
        "column_order_and_extra": noisy.assign(extra="x")[["extra", "Probability", "Id"]],
        "id_as_float": noisy.assign(Id=answers.Id.astype(float)),
        "old_format": pd.DataFrame({"rec_id": recording, "species": species, "probability": p}),
        "missing_target": noisy[["Id"]],
        "text_in_target": noisy.assign(Probability=["?", *rest]),
    }
