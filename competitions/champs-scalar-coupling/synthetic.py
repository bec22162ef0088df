from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

from .columns import TARGET

TYPICAL = {"1JHC": 95, "1JHN": 47, "2JHC": 0, "2JHH": -10, "2JHN": 3, "3JHC": 4, "3JHH": 5, "3JHN": 1}
HEADERS = {
    "train": f"id,molecule_name,atom_index_0,atom_index_1,type,{TARGET}",
    "test": "id,molecule_name,atom_index_0,atom_index_1,type",
    "sample_submission": f"id,{TARGET}",
    "structures": "molecule_name,atom_index,atom,x,y,z",
    "dipole_moments": "molecule_name,X,Y,Z",
    "magnetic_shielding_tensors": "molecule_name,atom_index,XX,YX,ZX,XY,YY,ZY,XZ,YZ,ZZ",
    "mulliken_charges": "molecule_name,atom_index,mulliken_charge",
    "potential_energy": "molecule_name,potential_energy",
    "scalar_coupling_contributions": "molecule_name,atom_index_0,atom_index_1,type,fc,sd,pso,dso",
}


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 88, 3
    numbers = rng.choice(range(1, 133000), n + n_test, replace=False)
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in HEADERS}
    (raw / "structures").mkdir()
    for k, molecule in enumerate(f"dsgdb9nsd_{number:06d}" for number in numbers):
        atoms = ["C", *rng.choice(["H", "H", "H", "N", "O", "F"], rng.integers(2, 5))]
        places = [_texts(rng, rng.normal(0, 1.5, 3)) for _ in atoms]
        rows["structures"] += [(molecule, i, *row) for i, row in enumerate(_joined(atoms, places))]
        lines = [" ".join(row) + "\n" for row in _joined(atoms, places)]
        (raw / "structures" / f"{molecule}.xyz").write_text(f"{len(atoms)}\n\n" + "".join(lines))
        pairs = [(j, i) for i in range(len(atoms)) for j in range(i + 1, len(atoms))]
        for chosen in np.sort(rng.permutation(len(pairs))[: rng.integers(3, 8)]):
            type = str(rng.choice([*TYPICAL]))
            pair = (molecule, *pairs[chosen], type)
            coupling = TYPICAL[type] + rng.normal(0, 4)
            if k >= n:
                rows["test"].append(pair)
                _text(rng, coupling)
                continue
            rows["train"].append((len(rows["train"]), *pair, _text(rng, coupling)))
            parts = (coupling * 0.97, 0.1, coupling * 0.02, 1e-5)
            rows["scalar_coupling_contributions"].append((*pair, *_texts(rng, parts)))
        if k < n:
            rows["dipole_moments"].append((molecule, *_texts(rng, rng.normal(0, 1, 3))))
            rows["potential_energy"].append((molecule, _text(rng, -400 + rng.normal(0, 30))))
            for i in range(len(atoms)):
                tensor = (f"{value:.4f}" for value in rng.normal(0, 90, 9))
                rows["magnetic_shielding_tensors"].append((molecule, i, *tensor))
                rows["mulliken_charges"].append((molecule, i, _text(rng, rng.normal(0, 0.3))))
    rows["test"] = [(len(rows["train"]) + k, *pair) for k, pair in enumerate(rows["test"])]
    rows["sample_submission"] = [(id, 0) for id, *_ in rows["test"]]
    for name, header in HEADERS.items():
        lines = [",".join(map(str, row)) for row in rows[name]]
        (raw / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")


def _joined(atoms: Sequence[str], places: Sequence[list[str]]) -> list[tuple[str, ...]]:
    return [(atom, *place) for atom, place in zip(atoms, places, strict=True)]


def _texts(rng: np.random.Generator, values: Iterable[float]) -> list[str]:
    return [_text(rng, value) for value in values]


def _text(rng: np.random.Generator, value: float) -> str:
    """Format a number in one of the ways that occur in such files."""
    way = rng.random()
    if way < 0.05:
        return f"{value:.3e}"
    if way < 0.10:
        return f"{round(value):d}.0"
    if way < 0.15:
        return repr(float(value))
    return f"{value:.{rng.integers(2, 7)}f}"


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    truth, types = answers[TARGET], answers.type

    def predicted(values: Any) -> pd.DataFrame:
        return answers[["id"]].assign(**{TARGET: values})

    noisy = predicted(truth + rng.normal(0, 2, len(answers)))
    values = noisy[TARGET]
    return {
        "type_means": predicted(truth.groupby(types).transform("mean") + 0.25),
        "huge": predicted(1e12),
        "nearly_perfect": predicted(truth + 1e-10),
        "one_type_perfect": predicted(values.where(types != types.min(), truth)),
        "columns_swapped_and_extra": noisy.assign(type="x", molecule_name="y")[[TARGET, "type", "molecule_name", "id"]],
        "whole_numbers": predicted(values.round().astype(int)),
        "duplicate_id": pd.concat([noisy, noisy.tail(3).assign(**{TARGET: 0.0})]),
        "duplicate_for_missing": pd.concat([noisy.iloc[1:], noisy.tail(1)]),
        "missing_id_column": noisy[[TARGET]],
        "infinite_prediction": predicted([np.inf, *values.iloc[1:]]),
        **standard(
            noisy,
            "id",
            10**8,
            TARGET,
            "missing_column nan_prediction text_prediction",
            without="duplicate_id header_only",
        ),
    }
