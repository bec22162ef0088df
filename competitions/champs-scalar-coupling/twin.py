from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.labels import by_size

from .columns import TARGET
from .synthetic import HEADERS, TYPICAL

SPREADS = {"1JHC": 8, "1JHN": 6, "2JHC": 2, "2JHH": 2.5, "2JHN": 2, "3JHC": 2, "3JHH": 2, "3JHN": 1}
KINDS = list(TYPICAL)


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    """Structures of test molecules are not public, so the ceiling only knows the pairs."""
    pairs = write_molecules(raw, rng, size)
    return predictions(pairs, {"simple": "usual", "ceiling": "numbers"})


def predictions(pairs: pd.DataFrame, columns: dict[str, str]) -> dict[str, pd.DataFrame]:
    return {name: pairs.set_index("id")[[column]].set_axis([TARGET], axis=1) for name, column in columns.items()}


def write_molecules(raw: Path, rng: np.random.Generator, size: str) -> pd.DataFrame:
    """Write all tables; returns the couplings of pairs as known from types, from atom numbers too, and from places."""
    n = by_size(size, 90, 420, 1200)
    # the world: couplings depend on type, size of the molecule, position in it, distance and angle
    large, late, far, bent, both = (dict(zip(KINDS, rng.choice([-1, 1], 8) * rng.uniform(0.6, 1.2, 8), strict=True))
                                    for _ in range(5))  # fmt: skip
    rows: dict[str, list[tuple]] = {name: [] for name in HEADERS}
    found = []
    (raw / "structures").mkdir()
    for number in rng.choice(range(1, 133000), n, replace=False):
        molecule = f"dsgdb9nsd_{number:06d}"
        heavy = rng.choice(["C", "C", "C", "N", "O"], rng.integers(2, 6))
        heavy[0] = "C"
        hydrogens = int(rng.integers(2, 7))
        atoms = [*heavy, *["H"] * hydrogens]
        chain = np.cumsum(rng.normal([1.4, 0, 0], 0.25, (len(heavy), 3)), axis=0)
        bonded = np.sort(rng.choice(np.flatnonzero(heavy != "O"), hydrogens))
        direction = rng.normal(size=(hydrogens, 3))
        places = np.concatenate([chain, chain[bonded] + rng.normal(1.08, 0.05, (hydrogens, 1)) * direction
                                 / np.linalg.norm(direction, axis=1, keepdims=True)]).round(6)  # fmt: skip
        rows["structures"] += [
            (molecule, k, atom, *place) for k, (atom, place) in enumerate(zip(atoms, places.tolist(), strict=True))
        ]
        lines = [
            " ".join([atom, *(f"{value:.6f}" for value in place)]) for atom, place in zip(atoms, places, strict=True)
        ]
        (raw / "structures" / f"{molecule}.xyz").write_text("\n".join([str(len(atoms)), "", *lines, ""]))
        for j in range(len(heavy), len(atoms)):
            for k in range(j):
                steps = _bonds(k, j, bonded, len(heavy))
                kind = f"{steps}JH{atoms[k]}"
                if kind not in TYPICAL:
                    continue
                away = float(np.linalg.norm(places[j] - places[k]))
                turn = float(places[j] @ places[k] / np.linalg.norm(places[j]) / np.linalg.norm(places[k]))
                known = large[kind] * (len(atoms) - 7.5) / 2.5 + late[kind] * np.cos(k / 1.3)
                shape = far[kind] * np.sin(3 * away) + bent[kind] * turn * 1.2 + both[kind] * np.cos(4 * away) * turn
                found.append((molecule, j, k, kind, TYPICAL[kind], TYPICAL[kind] + SPREADS[kind] * known,
                              TYPICAL[kind] + SPREADS[kind] * (known + shape)))  # fmt: skip
        rows["dipole_moments"].append((molecule, *rng.normal(0, 1, 3).round(4)))
        rows["potential_energy"].append((molecule, round(float(-40 * len(heavy) + rng.normal(0, 5)), 5)))
        rows["magnetic_shielding_tensors"] += [(molecule, k, *rng.normal(0, 90, 9).round(4)) for k in range(len(atoms))]
        rows["mulliken_charges"] += [(molecule, k, round(float(rng.normal(0, 0.3)), 6)) for k in range(len(atoms))]
    pairs = pd.DataFrame(
        found, columns=["molecule_name", "atom_index_0", "atom_index_1", "type", "usual", "numbers", "places"]
    )
    # subtract what follows from the type and an atom's number alone, such as the length of a bond
    expected = (pairs["places"] - pairs["numbers"]).groupby([pairs["type"], pairs["atom_index_1"]])
    pairs["places"] -= expected.transform("mean")
    noise = rng.normal(size=len(pairs)) * pairs["type"].map(SPREADS) * 0.3
    pairs = pairs.assign(**{TARGET: (pairs["places"] + noise).round(4)}).rename_axis("id").reset_index()
    head = HEADERS["train"].split(",")
    pairs[head].to_csv(raw / "train.csv", index=False)
    parts = pairs[head[1:5]].assign(
        fc=(0.97 * pairs[TARGET]).round(4), sd=0.1, pso=(0.02 * pairs[TARGET]).round(4), dso=0.001
    )
    parts.to_csv(raw / "scalar_coupling_contributions.csv", index=False)
    pairs[head[:5]].head(3).to_csv(raw / "test.csv", index=False)
    pairs[["id"]].head(3).assign(**{TARGET: 0}).to_csv(raw / "sample_submission.csv", index=False)
    for name, table in rows.items():
        if table:
            pd.DataFrame(table, columns=HEADERS[name].split(",")).to_csv(raw / f"{name}.csv", index=False)
    return pairs


def _bonds(k: int, j: int, bonded: np.ndarray, heavy: int) -> int:
    """Return the number of bonds between two atoms. The second is a hydrogen; the heavy atoms form a chain."""
    one = bonded[k - heavy] if k >= heavy else k
    return int(abs(one - bonded[j - heavy])) + 1 + (k >= heavy)
