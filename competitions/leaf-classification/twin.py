import io
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from scipy.special import softmax

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import write_zipped_csv
from pytest_mlebench.authoring.worlds.labels import by_size, swap_some

from .synthetic import SPECIES

KINDS, COUNT, SIDE = ["margin", "shape", "texture"], 64, 48  # the real pictures are about a thousand pixels wide


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n = by_size(size, 1000, 5000, 8000)
    # the world: what the leaves of each species look like; species of a genus are similar
    genus = np.unique([name.split("_")[0] for name in SPECIES], return_inverse=True)[1]
    means = 0.25 * rng.normal(size=(genus.max() + 1, 3 * COUNT))[genus] + 0.23 * rng.normal(size=(99, 3 * COUNT))
    edges = 0.16 / np.arange(1, 7) ** 0.5
    outlines = edges * rng.normal(size=(99, 6))
    truth = np.concatenate([np.arange(99), rng.integers(0, 99, n - 99)])
    truth = rng.permutation(truth)
    seen = means[truth] + rng.normal(size=(n, 3 * COUNT))
    drawn = outlines[truth] + edges * rng.normal(size=(n, 6))
    given = swap_some(truth, 0.03, rng)
    given[np.unique(truth, return_index=True)[1]] = np.arange(99)  # every species occurs

    names = [f"{kind}{k}" for kind in KINDS for k in range(1, COUNT + 1)]
    table = pd.DataFrame((np.repeat([0.012, 0.0007, 0.011], COUNT) * np.exp(0.5 * seen)).round(6), columns=names)
    table.insert(0, "species", np.array(SPECIES)[given])
    table.insert(0, "id", 1 + rng.permutation(n))
    write_zipped_csv(raw / "train.csv.zip", table, "train.csv")
    other = table.drop(columns="species").head(10).assign(id=range(n + 1, n + 11))
    write_zipped_csv(raw / "test.csv.zip", other, "test.csv")
    sample = other[["id"]].assign(**dict.fromkeys(SPECIES, 0.0101))
    write_zipped_csv(raw / "sample_submission.csv.zip", sample, "sample_submission.csv")
    pictures = dict(zip(table["id"].tolist(), drawn, strict=True)) | dict.fromkeys(other["id"], outlines[0])
    write_zip(raw / "images.zip", {f"images/{id}.jpg": _picture(rng, pictures[id]) for id in sorted(pictures)})
    guesses = {}
    for name, count in (("simple", COUNT), ("ceiling", 3 * COUNT)):
        near = seen[:, :count] @ means[:, :count].T - 0.5 * (means[:, :count] ** 2).sum(axis=1)
        if name == "ceiling":
            near -= 0.5 * (((drawn[:, None] - outlines) / edges) ** 2).sum(axis=2)
        p = 0.97 * softmax(near, axis=1) + 0.03 / 99
        guesses[name] = pd.DataFrame(p.round(8), table["id"], SPECIES)
    return guesses


def _picture(rng: np.random.Generator, outline: np.ndarray) -> bytes:
    """Draw a white leaf on black. The distance of its edge from the centre depends on the direction."""
    y, x = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    turn = np.arctan2(y, x) + rng.uniform(-0.2, 0.2)
    waves = np.cos(np.arange(1, 7)[:, None, None] * turn)
    edge = SIDE * 0.3 * (1 + np.tensordot(outline, waves, 1))
    file = io.BytesIO()
    Image.fromarray(np.where(np.hypot(x, y) < edge, 255, 0).astype(np.uint8)).save(file, "JPEG", quality=75)
    return file.getvalue()
