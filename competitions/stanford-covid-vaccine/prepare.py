from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.tables import write_csv

TARGETS = ["reactivity", "deg_Mg_pH10", "deg_pH10", "deg_Mg_50C", "deg_50C"]


def prepare(raw: Path, public: Path, private: Path) -> None:
    molecules = pd.read_json(raw / "train.json", lines=True)
    test = molecules[molecules["SN_filter"] > 0].sample(n=len(molecules) // 10, random_state=0).sort_index()
    write_sides(molecules.drop(index=test.index), test, raw, public, private)


def write_sides(train: pd.DataFrame, test: pd.DataFrame, raw: Path, public: Path, private: Path) -> None:
    _write_json(train, public / "train.json")
    _write_json(test[pd.read_json(raw / "test.json", lines=True).columns], public / "test.json")
    answers = pd.concat([_positions(molecule) for _, molecule in test.iterrows()])
    write_csv(answers, private / "test.csv", float_format="%.10f")
    sample = answers[["id_seqpos"]].assign(**dict.fromkeys(TARGETS, 0.0))
    write_csv(sample, public / "sample_submission.csv", float_format="%.10f")


def _write_json(molecules: pd.DataFrame, path: Path) -> None:
    molecules.assign(index=range(len(molecules))).to_json(path, orient="records", lines=True)


def _positions(molecule: "pd.Series") -> pd.DataFrame:
    """Return a row for each base: first the measured ones, then the others as zeros that do not count."""
    positions = pd.RangeIndex(molecule["seq_length"])
    targets = pd.DataFrame({target: molecule[target] for target in TARGETS}).reindex(positions, fill_value=0.0)
    targets.insert(0, "id_seqpos", [f"{molecule['id']}_{position}" for position in positions])
    return targets.assign(keep=positions < molecule["seq_scored"])
