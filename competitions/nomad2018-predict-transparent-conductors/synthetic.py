from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import malformed, write_zipped_csv

from .columns import TARGETS

FORMATION, BANDGAP = TARGETS


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    train, test = _materials(rng, 152), _materials(rng, 12)
    write_zipped_csv(raw / "train.csv.zip", train, "train.csv")
    write_zipped_csv(raw / "test.csv.zip", test.drop(columns=[FORMATION, BANDGAP]), "test.csv")
    sample = test[["id"]].assign(**{FORMATION: 0.1779, BANDGAP: 1.8892})
    write_zipped_csv(raw / "sample_submission.csv.zip", sample, "sample_submission.csv")
    for name, materials in (("train", train), ("test", test)):
        order = rng.permutation(materials["id"])
        write_zip(raw / f"{name}.zip", {f"{name}/{i}/geometry.xyz": _xyz(rng, int(rng.integers(1, 4))) for i in order})


def _materials(rng: np.random.Generator, n: int) -> pd.DataFrame:
    aluminium = rng.choice([0, 0.125, 0.25, 0.375, 0.5], n)
    gallium = np.round((1 - aluminium) * rng.choice([0, 0.3333, 0.5, 1], n), 4)
    return pd.DataFrame(
        {
            "id": np.arange(1, n + 1),
            "spacegroup": rng.choice([12, 33, 167, 194, 206, 227], n),
            "number_of_total_atoms": rng.choice([10, 20, 30, 40, 60, 80], n).astype(float),
            "percent_atom_al": aluminium,
            "percent_atom_ga": gallium,
            "percent_atom_in": np.round(1 - aluminium - gallium, 4),
            "lattice_vector_1_ang": np.round(rng.uniform(3, 24, n), 4),
            "lattice_vector_2_ang": np.round(rng.uniform(3, 10, n), 4),
            "lattice_vector_3_ang": np.round(rng.uniform(5, 25, n), 4),
            "lattice_angle_alpha_degree": np.round(rng.uniform(82, 101, n), 4),
            "lattice_angle_beta_degree": np.round(rng.uniform(81, 106, n), 4),
            "lattice_angle_gamma_degree": np.round(rng.uniform(29, 120, n), 4),
            FORMATION: np.where(rng.random(n) < 0.1, 0.0, np.round(rng.gamma(2, 0.1, n), 4)),
            BANDGAP: np.round(rng.uniform(0, 5.3, n), 4),
        }
    )


def _xyz(rng: np.random.Generator, atoms: int) -> str:
    lines = ["#===============", "#Created using the Vegard's law", "#==============="]
    lines += [f"lattice_vector {_coordinates(rng.uniform(-9, 9, 3))}" for _ in range(3)]
    lines += [f"atom {_coordinates(rng.uniform(0, 9, 3))} {rng.choice(['Al', 'Ga', 'In', 'O'])}" for _ in range(atoms)]
    return "\n".join([*lines, ""])


def _coordinates(values: np.ndarray) -> str:
    return " ".join(f"{value:.7f}" for value in values)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")[["id", FORMATION, BANDGAP]]
    n = len(answers)
    formation = np.abs(answers[FORMATION] + rng.normal(0, 0.05, n))
    noisy = answers.assign(**{FORMATION: formation, BANDGAP: np.abs(answers[BANDGAP] + rng.normal(0, 0.5, n))})

    def first(column: str, value: Any) -> pd.DataFrame:
        changed = noisy.astype(object)
        changed.loc[0, column] = value
        return changed

    return {
        "noisy": noisy,
        "noisy_shuffled": noisy.sample(frac=1, random_state=1),
        "answers_reversed": answers.iloc[::-1],
        "constant": answers.assign(**{FORMATION: 0.2, BANDGAP: 2}),
        "zeros": answers.assign(**{FORMATION: 0, BANDGAP: 0}),
        "extreme": answers.assign(**{FORMATION: 1e6, BANDGAP: 1e12}),
        "slightly_negative": answers.assign(**{FORMATION: answers[FORMATION] - 0.3}),
        "column_order": noisy[[BANDGAP, FORMATION, "id"]],
        "extra_column": noisy.assign(note="x"),
        "no_id": noisy[[FORMATION, BANDGAP]],
        "duplicate_id": noisy.assign(id=1),
        "unknown_id": noisy.assign(id=noisy.id + 10000),
        "below_minus_one": first(FORMATION, -1.5),
        "minus_one": first(BANDGAP, -1.0),
        "nan": first(FORMATION, None),
        "text": first(BANDGAP, "wide"),
        **malformed(
            noisy, "id", 9999, BANDGAP, "missing_column renamed_column infinite", without="duplicate_id unknown_id"
        ),
    }
