from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import write_zipped_csv
from pytest_mlebench.authoring.tables import split
from pytest_mlebench.authoring.worlds.labels import add_noise, by_size, hidden_score, standard

from .columns import TARGETS

GROUPS = np.array([12, 33, 167, 194, 206, 227])
CELLS = np.array([[3, 5, 12], [5, 9, 9], [5, 5, 13], [3, 3, 11], [9, 9, 9], [8, 8, 8]])  # lengths in ångström
ANGLES = np.array([[90, 104, 90], [90, 90, 90], [90, 90, 120], [90, 90, 120], [90, 90, 90], [82, 98, 60]])
MIDDLES, SPREADS = np.log1p([0.19, 2.0]), [0.06, 0.28]


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n = by_size(size, 800, 5000, 6000)
    group, units = rng.choice(6, n), rng.choice([1, 2], n, p=[0.7, 0.3])  # ten atoms each, four of them metals
    metals = np.stack([rng.multinomial(4 * k, mix) for k, mix in zip(units, rng.dirichlet([0.9] * 3, n), strict=True)])
    shares = metals / metals.sum(axis=1, keepdims=True)
    # the world: larger ions stretch the lattice; only the geometry shows how far atoms were moved
    strain, moved = rng.normal(0, 0.02, (n, 3)), rng.uniform(0.02, 0.3, n)
    lengths = CELLS[group] * (1 + 0.1 * (shares @ [-0.6, 0, 1])[:, None] + strain)
    tilted = rng.normal(0, 1, (n, 3)) * (rng.random((n, 3)) < 0.5)
    values, guesses = {}, {"simple": {}, "ceiling": {}}
    for name, middle, spread in zip(TARGETS, MIDDLES, SPREADS, strict=True):
        usual, slope = rng.normal(size=(2, 6))
        plain = standard(usual[group]) + standard(shares @ rng.normal(size=3))
        _, rest = hidden_score(np.column_stack([strain, shares[:, :2], tilted]), rng)
        score = plain + 0.5 * rest + standard(slope[group] * shares[:, 0]) + rng.choice([-1, 1]) * 0.8 * standard(moved)
        truth = add_noise(score, rng, r2=0.9)
        scale = spread / score.std()
        for known, kept in ((truth, values), (score, guesses["ceiling"]), (plain, guesses["simple"])):
            kept[name] = np.expm1(np.maximum(middle + scale * (known - known.mean()), 0)).round(4)
    table = pd.DataFrame(
        {"id": np.arange(1, n + 1), "spacegroup": GROUPS[group], "number_of_total_atoms": 10.0 * units}
    )
    table[["percent_atom_al", "percent_atom_ga", "percent_atom_in"]] = shares.round(4)
    table[[f"lattice_vector_{k}_ang" for k in (1, 2, 3)]] = lengths.round(4)
    angles = ANGLES[group] + tilted
    table[[f"lattice_angle_{name}_degree" for name in ("alpha", "beta", "gamma")]] = angles.round(4)
    table = table.assign(**values)
    write_zipped_csv(raw / "train.csv.zip", table, "train.csv")
    write_zip(raw / "train.zip", {
        f"train/{k + 1}/geometry.xyz": _geometry(rng, lengths[k], np.deg2rad(angles[k]), metals[k], moved[k])
        for k in rng.permutation(n)
    })  # fmt: skip
    other = table.head(5).drop(columns=TARGETS)
    write_zipped_csv(raw / "test.csv.zip", other, "test.csv")
    write_zip(raw / "test.zip", {f"test/{k}/geometry.xyz": "" for k in other["id"]})
    sample = other[["id"]].assign(**dict(zip(TARGETS, (0.1779, 1.8892), strict=True)))
    write_zipped_csv(raw / "sample_submission.csv.zip", sample, "sample_submission.csv")
    return {name: _renumbered(pd.DataFrame(guess)) for name, guess in guesses.items()}


def _geometry(rng: np.random.Generator, lengths: np.ndarray, angles: np.ndarray, metals: np.ndarray, moved: float):
    """Return a cell's vectors, and its atoms, which are displaced from a grid."""
    alpha, beta, gamma = np.cos(angles)
    depth = (alpha - beta * gamma) / np.sin(angles[2])
    cell = np.array([[1, 0, 0], [gamma, np.sin(angles[2]), 0], [beta, depth, np.sqrt(1 - beta**2 - depth**2)]])
    cell = cell * lengths[:, None]
    elements = np.repeat(["Al", "Ga", "In", "O"], [*metals, 6 * metals.sum() // 4])
    grid = np.stack(np.unravel_index(rng.permutation(2 * len(elements))[: len(elements)], (2, 2, len(elements) // 2)))
    places = (grid.T / (2, 2, len(elements) // 2)) @ cell + rng.normal(0, moved, (len(elements), 3))
    lines = ["#===============", "#Created using the Vegard's law", "#==============="]
    lines += [f"lattice_vector {x:.7f} {y:.7f} {z:.7f}" for x, y, z in cell]
    lines += [f"atom {x:.7f} {y:.7f} {z:.7f} {name}" for (x, y, z), name in zip(places, elements, strict=True)]
    return "\n".join([*lines, ""])


def _renumbered(energies: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that prepare.py holds out, with the ids that it gives them."""
    _, test = split(energies, test_size=0.1)
    return test.set_axis(pd.RangeIndex(1, len(test) + 1, name="id"))
