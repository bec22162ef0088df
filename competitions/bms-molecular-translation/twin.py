from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import png
from pytest_mlebench.authoring.worlds.images import rgb
from pytest_mlebench.authoring.worlds.labels import by_size, random_names

HEIGHT, WIDTH = 48, 96  # the real images have various sizes, about ten times as large
ATOMS = {"O": "H", "N": "H2", "S": "H", "F": "", "I": ""}
GLYPHS = {"O": "0696960", "N": "9ddbb90", "S": "7842e00", "F": "f8e8800", "I": "e444e00"}
"""Rows of four pixels, from the top down, in hexadecimal."""


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, spare = by_size(size, 300, 1000, 6000), 4
    # the world: how frequent each atom is, and how long chains are
    often, lengths = rng.dirichlet(np.full(len(ATOMS), 3)), rng.dirichlet(np.full(8, 4))
    usual = [*ATOMS][often.argmax()]
    ids, rows = random_names(rng, n + spare, 12), []
    for k, id in enumerate(ids):
        chain = int(rng.choice(8, p=lengths)) + 4
        places = sorted(rng.choice(np.arange(2, chain), rng.choice([1, 2], p=[0.6, 0.4]), replace=False).tolist())
        atoms = rng.choice([*ATOMS], len(places), p=often).tolist()
        lost = rng.random(len(places)) < 0.12  # atoms whose letter the scan lost
        file = raw / ("train" if k < n else "test") / id[0] / id[1] / id[2] / f"{id}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png(_drawing(rng, chain, places, atoms, lost)))
        read = [usual if gone else atom for atom, gone in zip(atoms, lost, strict=True)]
        rough = _inchi(chain, [chain // 2], [usual])  # sees only the length of the chain
        rows.append((id, _inchi(chain, places, atoms), rough, _inchi(chain, places, read)))
    table = pd.DataFrame(rows, columns=["image_id", "InChI", "simple", "ceiling"])
    table[:n][["image_id", "InChI"]].sort_values("image_id").to_csv(raw / "train_labels.csv", index=False)
    table[n:][["image_id"]].assign(InChI="InChI=1S/H2O/h1H2").to_csv(raw / "sample_submission.csv", index=False)
    extra = table["InChI"].sample(50, random_state=int(rng.integers(2**31)))
    extra.drop_duplicates().to_csv(raw / "extra_approved_InChIs.csv", index=False)
    known = table.set_index("image_id")
    return {name: known[[name]].set_axis(["InChI"], axis=1) for name in ("simple", "ceiling")}


def _inchi(chain: int, places: Sequence[int], atoms: Sequence[str]) -> str:
    """Return the InChI of a carbon chain with other atoms at some places. Atoms are numbered along the chain."""
    counts = {atom: atoms.count(atom) for atom in sorted(atoms)}
    hydrogens = 2 * chain + 2 - len(atoms) + sum({"": 0, "H": 1, "H2": 2}[ATOMS[atom]] for atom in atoms)
    formula = f"C{chain}H{hydrogens}" + "".join(f"{a}{k if k > 1 else ''}" for a, k in counts.items())
    number = {place: chain + k for k, place in enumerate(places, start=1)}
    skeleton = "1"
    for k in range(2, chain + 1):
        skeleton += ("" if skeleton.endswith(")") else "-") + str(k) + (f"({number[k]})" if k in number else "")
    ends = "".join(f",{number[p]}{ATOMS[a]}" for p, a in zip(places, atoms, strict=True) if ATOMS[a])
    singles = ",".join(map(str, places))
    doubles = ",".join(str(k) for k in range(2, chain) if k not in number)
    return f"InChI=1S/{formula}/c{skeleton}/h{singles}H" + (f",{doubles}H2" if doubles else "") + f",1,{chain}H3{ends}"


def _drawing(
    rng: np.random.Generator, chain: int, places: Sequence[int], atoms: Sequence[str], lost: np.ndarray
) -> np.ndarray:
    """Draw a zigzag of bonds with letters, black on white, with noise; one in four is upside down."""
    step = rng.uniform(6, 7)
    x = (WIDTH - step * (chain - 1)) / 2 + rng.uniform(-5, 5) + step * np.arange(chain)
    y = HEIGHT / 2 + rng.uniform(-3, 3) + 3 * (-1.0) ** np.arange(chain)
    ink = np.zeros((HEIGHT, WIDTH))
    for k in range(chain - 1):
        _line(ink, (y[k], x[k]), (y[k + 1], x[k + 1]))
    for place, atom, gone in zip(places, atoms, lost, strict=True):
        k = place - 1
        side = 1 if k % 2 == 0 else -1
        end = y[k] + side * 7
        _line(ink, (y[k], x[k]), (end, x[k]))
        if not gone:
            glyph = np.array([[int(row, 16) >> bit & 1 for bit in (3, 2, 1, 0)] for row in GLYPHS[atom]])
            top, left = round(end + (1 if side > 0 else -7)), round(x[k] - 1.5)
            part = ink[top : top + 7, left : left + 4]
            np.maximum(part, glyph[: part.shape[0], : part.shape[1]], out=part)
    ink = ink * (rng.random(ink.shape) > 0.05)
    ink = np.where(rng.random(ink.shape) < 0.01, 1 - ink, ink)
    return rgb(1 - (ink[::-1, ::-1] if rng.random() < 0.25 else ink))


def _line(ink: np.ndarray, start: tuple[float, float], end: tuple[float, float]) -> None:
    along = np.linspace(0, 1, 24)
    rows, columns = (np.rint(a + (b - a) * along).astype(int) for a, b in zip(start, end, strict=True))
    ink[rows.clip(0, HEIGHT - 1), columns.clip(0, WIDTH - 1)] = 1
