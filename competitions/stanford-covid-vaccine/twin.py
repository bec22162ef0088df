import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.ndimage import uniform_filter1d

from pytest_mlebench.authoring.worlds.labels import by_size, random_names, standard

from .prepare import TARGETS
from .synthetic import ERRORS

LENGTH, SCORED = 107, 68
PAIRS = ["GC", "CG", "AU", "UA", "GU", "UG"]
MISSING = 0.15  # noise of the values, which cannot be predicted


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n = by_size(size, 60, 500, 1200)
    # the world: how fast a base decays, by its loop, its type, the next base, and the share of G and C nearby
    loops, bases, pairs = rng.normal(size=(5, 7)), rng.normal(size=(5, 4)), rng.normal(size=(5, 7, 4))
    after, weak, shared = rng.normal(size=(5, 4)), rng.normal(size=5), rng.normal(size=2)
    loops[:, 0] -= 1.5  # paired bases, S, decay slowly
    ids = [f"id_{name}" for name in random_names(rng, n, 9)]
    molecules: list[dict[str, Any]] = []
    rates, kinds = [], []
    for number, id in enumerate(ids):
        if number % 4 == 3:  # a design with a few bases changed
            before = molecules[-1]
            structure, loop = before["structure"], before["predicted_loop_type"]
            sequence = _changed(rng, before["sequence"], loop)
        else:
            structure, loop, sequence = _fold(rng)
        kind = np.array(["SHEBIMX".index(letter) for letter in loop])
        base = np.array(["GAUC".index(letter) for letter in sequence])
        strong = uniform_filter1d(np.isin(base, [0, 3]).astype(float), 9)
        whole = (
            1.7 * loops[:, kind] + 0.8 * bases[:, base] + 0.7 * pairs[:, kind, base] + 0.5 * after[:, np.roll(base, -1)]
        )
        whole = whole + weak[:, None] * standard(strong) * 0.5
        whole = whole + 0.3 * (shared[0] * whole[[0]] + shared[1] * whole[[1]])
        rates.append(np.exp(0.28 * whole - 1).round(4))
        kinds.append(kind)
        signal = float(np.round(rng.gamma(4, 1.5) + 0.3, 3))
        spread = MISSING + 0.5 / signal**1.5
        measured = np.clip(rates[-1] + rng.normal(0, spread, (5, LENGTH)), -0.5, 6)
        molecule = {"index": number, "id": id, "sequence": sequence, "structure": structure,
                    "predicted_loop_type": loop, "signal_to_noise": signal, "SN_filter": float(signal > 2.5),
                    "seq_length": LENGTH, "seq_scored": SCORED}  # fmt: skip
        errors = np.abs(spread * rng.normal(1, 0.2, (5, SCORED)))
        molecule |= {name: row.round(4).tolist() for name, row in zip(ERRORS, errors, strict=True)}
        molecule |= {name: row[:SCORED].round(4).tolist() for name, row in zip(TARGETS, measured, strict=True)}
        molecules.append(molecule)
    asked = [name for name in molecules[0] if name not in (*ERRORS, *TARGETS, "signal_to_noise", "SN_filter")]
    others = [
        {name: molecule[name] for name in asked} | {"id": f"id_old{k}"} for k, molecule in enumerate(molecules[:3])
    ]
    order = rng.permutation(n)
    for k, place in enumerate(order):
        molecules[place]["index"] = k
    for name, rows in (("train.json", [molecules[place] for place in order]), ("test.json", others)):
        (raw / name).write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    places = [f"{row['id']}_{k}" for row in others for k in range(LENGTH)]
    pd.DataFrame({"id_seqpos": places, **dict.fromkeys(TARGETS, 0.0)}).to_csv(
        raw / "sample_submission.csv", index=False
    )
    rows = pd.Index([f"{id}_{k}" for id in ids for k in range(LENGTH)], name="id_seqpos")
    ceiling = pd.DataFrame(np.hstack(rates).T, rows, TARGETS)
    return {"ceiling": ceiling, "simple": ceiling.groupby(np.concatenate(kinds)).transform("mean").round(4)}


def _fold(rng: np.random.Generator) -> tuple[str, str, str]:
    """Return structure, loops and sequence of a row of hairpins, some with a bulge or an internal loop."""
    structure, loop = "." * 5, "E" * 5
    while len(structure) < 74:
        outer, inner, hairpin = rng.integers(3, 7), rng.integers(2, 6), rng.integers(3, 8)
        left, right, kind = [(0, 0, ""), (int(rng.integers(1, 4)), 0, "B"), (2, 2, "I")][rng.integers(3)]
        structure += "(" * outer + "." * left + "(" * inner + "." * hairpin + ")" * inner + "." * right + ")" * outer
        loop += "S" * outer + kind * left + "S" * inner + "H" * hairpin + "S" * inner + kind * right + "S" * outer
        between = int(rng.integers(1, 5))
        structure, loop = structure + "." * between, loop + "X" * between
    structure, loop = structure.rstrip("."), loop.rstrip("X")
    structure, loop = structure.ljust(LENGTH, "."), loop.ljust(LENGTH, "E")
    sequence, opened = list(rng.choice(list("GAUC"), LENGTH, p=[0.23, 0.4, 0.16, 0.21])), []
    for place, mark in enumerate(structure):
        if mark == "(":
            opened.append(place)
        elif mark == ")":
            sequence[opened.pop()], sequence[place] = rng.choice(PAIRS, p=[0.3, 0.3, 0.14, 0.14, 0.06, 0.06])
    return structure[:LENGTH], loop[:LENGTH], "".join(sequence[:LENGTH])


def _changed(rng: np.random.Generator, sequence: str, loop: str) -> str:
    bases = list(sequence)
    for place in rng.choice(np.flatnonzero(np.array(list(loop)) != "S"), 6, replace=False):
        bases[place] = str(rng.choice(list("GAUC")))
    return "".join(bases)
