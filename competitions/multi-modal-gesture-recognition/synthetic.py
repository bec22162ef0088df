from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_7z, write_tar_gz, write_zip
from pytest_mlebench.authoring.synthetic import first_value, standard

BATCHES = ["training1", "training2", "training3", "training4", "validation1", "validation2", "validation3"]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = []
    number = 1
    for batch in BATCHES:
        samples = []
        for _ in range(rng.integers(18, 26) if batch == "training4" else rng.integers(5, 12)):
            number += int(rng.integers(1, 3))  # gaps in the numbering
            samples.append((f"Sample{number:05d}.zip", b"PK\3\4" + rng.bytes(3)))
            if batch.startswith("training"):
                rows.append((f"{number:04d}", _text(rng.integers(1, 21, rng.integers(1, 21)))))
        samples = [samples[k] for k in rng.permutation(len(samples))]
        if batch == "training4":
            samples.append(("readme.txt", b"no sample\n"))
        write_tar_gz(raw / f"{batch}.tar.gz", samples)
    rows = [rows[k] for k in rng.permutation(len(rows))]
    pd.DataFrame(rows, columns=["Id", "Sequence"]).to_csv(raw / "training.csv", index=False)
    pd.DataFrame({"Id": ["0700", "0701"]}).to_csv(raw / "test.csv", index=False)
    pd.DataFrame({"Id": ["0700", "0701"], "Sequence": "1 2 3"}).to_csv(raw / "randomPredictions.csv", index=False)
    write_7z(raw / "devel01-40.7z", {"devel01/x.txt": f"devel {seed}"})
    write_7z(raw / "valid_all_files_combined.7z", {"valid01/x.txt": f"valid {seed}"})
    write_zip(raw / "sample_code_mmrgc.zip", {"code/main.m": f"% {seed}"})


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv", dtype=str)
    truth = [[int(number) for number in sequence.split()] for sequence in answers["Sequence"]]

    def predict(change: Callable[[list[int]], Any]) -> pd.DataFrame:
        return answers.assign(Sequence=[_text(change(list(gestures))) for gestures in truth])

    def edit(gestures: list[int]) -> list[int]:
        for _ in range(rng.integers(0, 6)):
            place = int(rng.integers(0, len(gestures) + 1))
            kind = rng.integers(3)
            if kind == 0:
                gestures.insert(place, int(rng.integers(1, 21)))
            elif place < len(gestures) and kind == 1:
                gestures[place] = int(rng.integers(1, 21))
            elif place < len(gestures) and len(gestures) > 1:
                del gestures[place]
        return gestures

    noisy = predict(edit)
    ids, sequences = noisy["Id"], noisy["Sequence"]

    return {
        "backwards": predict(lambda gestures: gestures[::-1]),
        "sorted": predict(sorted),
        "single_gesture": noisy.assign(Sequence=7),
        "very_long": predict(lambda gestures: gestures * 5),
        "out_of_range": predict(lambda gestures: [0, *gestures, 21, -3]),
        "id_without_zeros": noisy.assign(Id=ids.astype(int)),
        "id_as_float": noisy.assign(Id=ids.astype(float)),
        "leading_zeros": predict(lambda gestures: [f"{gesture:02d}" for gesture in gestures]),
        "odd_spacing": noisy.assign(Sequence="  " + sequences.str.replace(" ", " \t ") + " "),
        **first_value(noisy, "Sequence", blank_prediction=" ", empty_prediction=None),
        "single_gesture_with_gap": noisy.assign(Sequence=[None, *[7] * (len(noisy) - 1)]),
        **first_value(noisy, "Sequence", words="vattene basta", fractions="1.0 2.0"),
        "column_order_and_extra": noisy.assign(extra="x")[["extra", "Sequence", "Id"]],
        "all_empty": noisy.assign(Sequence=None),
        "commas": noisy.assign(Sequence=sequences.str.replace(" ", ",")),
        "sample_names_as_ids": noisy.assign(Id="Sample0" + ids),
        "missing_sequence": noisy[["Id"]],
        **standard(noisy, "Id", "9999", also="missing_id"),
    }


def _text(gestures: Any) -> str:
    return " ".join(map(str, gestures))
