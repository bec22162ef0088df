import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import malformed

from .prepare import TARGETS

ERRORS = ["reactivity_error", "deg_error_Mg_pH10", "deg_error_pH10", "deg_error_Mg_50C", "deg_error_50C"]
LENGTH = 11


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    train = [_labelled(rng, number) for number in range(100 + 5 * seed)]
    test = []
    for number, (length, scored) in enumerate([(LENGTH, 7)] * 3 + [(15, 10)]):
        test.append(_molecule(rng, number, length) | {"seq_length": length, "seq_scored": scored})
    for name, molecules in (("train.json", train), ("test.json", test)):
        lines = (json.dumps(molecule, separators=(",", ":")) + "\n" for molecule in molecules)
        (raw / name).write_text("".join(lines))
    positions = [f"{molecule['id']}_{k}" for molecule in test for k in range(molecule["seq_length"])]
    sample = pd.DataFrame({"id_seqpos": positions, **dict.fromkeys(TARGETS, 0.0)})
    sample.to_csv(raw / "sample_submission.csv", index=False)


def _molecule(rng: np.random.Generator, number: int, length: int) -> dict[str, Any]:
    return {
        "index": number,
        "id": f"id_{rng.bytes(5).hex()[:9]}",
        "sequence": "".join(rng.choice(list("GAUC"), length)),
        "structure": "".join(rng.choice(list(".()"), length)),
        "predicted_loop_type": "".join(rng.choice(list("EHISMBX"), length)),
    }


def _labelled(rng: np.random.Generator, number: int) -> dict[str, Any]:
    scored = int(rng.choice([6, 7, 7]))
    molecule = _molecule(rng, number, LENGTH) | {
        "signal_to_noise": round(float(rng.gamma(2, 2)), 3),
        "SN_filter": float(rng.random() < 0.7),
        "seq_length": LENGTH,
        "seq_scored": scored,
    }
    for name in ERRORS:
        molecule[name] = [abs(value) for value in _values(rng, scored, 0.1)]
    for name in TARGETS:
        molecule[name] = _values(rng, scored, 0.5)
    if number % 9 == 0:
        molecule["reactivity"][0], molecule["deg_50C"][1], molecule["deg_Mg_50C"][2] = 0.0, 1.0, 1.5e-11
    return molecule


def _values(rng: np.random.Generator, count: int, sigma: float) -> list[float]:
    values = rng.normal(0.4, sigma, count)
    return [float(value) if rng.random() < 0.03 else round(float(value), 4) for value in values]


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    good = answers[["id_seqpos"]].copy()
    for target in TARGETS:
        good[target] = (answers[target] + rng.normal(0, 0.2, len(answers))).round(3)
    keep = answers["keep"]
    scored, unscored = np.flatnonzero(keep), np.flatnonzero(~keep)

    def cell(row: int, column: str, value: object) -> pd.DataFrame:
        changed = good.astype({column: object})
        changed.loc[row, column] = value
        return changed

    return {
        "noisy": good,
        "rows_shuffled": good.sample(frac=1, random_state=0),
        "rows_sorted_by_id": good.sort_values("id_seqpos"),
        "blocks_sorted_by_id": good.sort_values(
            "id_seqpos", kind="stable", key=lambda ids: ids.str.rsplit("_", n=1).str[0]
        ),
        "rows_reversed": good.iloc[::-1],
        "first_two_swapped": good.iloc[[1, 0, *range(2, len(good))]],
        "column_order_and_extra": good.assign(extra="x")[["extra", *TARGETS[::-1], "id_seqpos"]],
        "integers": good.assign(**dict.fromkeys(TARGETS, 0)),
        "one_huge": cell(scored[3], "reactivity", -1e9),
        "unscored_positions_wrong": good.where(keep, good.assign(**dict.fromkeys(TARGETS, 99.0))),
        "unscored_position_nan": cell(unscored[0], "reactivity", None),
        "unscored_columns_text": good.assign(deg_pH10="x", deg_50C=None),
        "keep_column_in_submission": answers.assign(keep=False),
        "nan_prediction": cell(scored[0], "deg_Mg_pH10", None),
        "infinite": cell(scored[0], "deg_Mg_50C", np.inf),
        "text_prediction": cell(scored[0], "deg_Mg_50C", "low"),
        "text_in_unscored_row": cell(unscored[1], "reactivity", "x"),
        "missing_unscored_column": good.drop(columns="deg_50C"),
        "missing_scored_column": good.drop(columns="reactivity"),
        **malformed(good, "id_seqpos", "id_zzz_0", also="missing_id"),
    }
