import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from pytest_mlebench.authoring.rle import encode_rle
from pytest_mlebench.authoring.worlds.images import blob, deal_tiles, ellipse, mix_tiles, outline, sloppy, smooth_noise
from pytest_mlebench.authoring.worlds.labels import by_size, random_names

from .prepare import INFORMATION

SIDES = {"micro": 160, "small": 320, "medium": 640}  # pixels; up to 50,000 in the real data
TILE = 32


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    side = by_size(size, *SIDES.values())
    # the world: the colours of the stain, and the grain of glomeruli and of similar structures
    colours = np.array([[205, 150, 190], [165, 95, 165], [225, 205, 225]]) + rng.normal(0, 12, (3, 3))
    grains = rng.permutation([1.0, 2.4])
    ids = [
        f"{name}{letter}" for name, letter in zip(random_names(rng, 20, 8), rng.choice(list("abcdf"), 20), strict=True)
    ]
    rows = []
    for k, id in enumerate(ids):
        folder = raw / ("train" if k < 15 else "test")
        folder.mkdir(exist_ok=True)
        picture, drawn, rough, bodies, outlines = _tissue(rng, side, colours, grains)
        Image.fromarray(picture).save(folder / f"{id}.tiff")
        cortex = [[0, 0], [side - 1, 0], [side - 1, side - 1], [0, side - 1], [0, 0]]
        (folder / f"{id}-anatomical-structure.json").write_text(_features("Cortex", [cortex]))
        if k < 15:
            (folder / f"{id}.json").write_text(_features("glomerulus", outlines))
            rows.append((id, *(encode_rle(mask) for mask in (drawn, rough, bodies))))
    table = pd.DataFrame(rows, columns=["id", "encoding", "simple", "ceiling"])
    table[["id", "encoding"]].to_csv(raw / "train.csv", index=False)
    for folder in (raw, raw / "test"):
        pd.DataFrame({"id": ids[15:], "predicted": ""}).to_csv(folder / "sample_submission.csv", index=False)
    _information(ids, side, rng).to_csv(raw / INFORMATION, index=False)
    known = table.set_index("id")
    return {name: known[[name]].set_axis(["predicted"], axis=1) for name in ("simple", "ceiling")}


def mix(submission: pd.DataFrame, other: pd.DataFrame, share: float, rng: np.random.Generator) -> pd.DataFrame:
    """Mix tiles of the images, because there are only three images."""
    pairs = zip(submission["predicted"].fillna(""), other["predicted"].fillna(""), strict=True)
    return submission.assign(
        predicted=[mix_tiles(*pair, _shape(other), share, rng, order="F", tile=TILE) for pair in pairs]
    )


def deal(submission: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    dealt = partial(deal_tiles, shape=_shape(submission), rng=rng, order="F", tile=TILE)
    return submission.assign(predicted=[dealt(text) for text in submission["predicted"]])


def _shape(submission: pd.DataFrame) -> tuple[int, int]:
    """Return the shape of the images, which is the smallest one that fits all masks."""
    last = max(sum(map(int, text.split()[-2:])) for text in submission["predicted"] if text)
    side = next(side for side in SIDES.values() if last <= side * side + 1)
    return side, side


def _tissue(rng: np.random.Generator, side: int, colours: np.ndarray, grains: np.ndarray) -> tuple:
    """Return a picture, masks of its glomeruli as annotated, roughly and exactly, and the annotated outlines."""
    shape = (side, side)
    shade = 12 * smooth_noise(rng, shape, 3) + 14 * smooth_noise(rng, shape, 12)
    picture = colours[0] + rng.normal(0, 8, 3) + shade[..., None]
    drawn, rough, bodies = (np.zeros(shape, bool) for _ in range(3))
    outlines = []
    textures = [smooth_noise(rng, shape, grain) for grain in grains]
    rows = np.arange(26 + rng.integers(20), side - 25, 52)
    places = [(y, x) for y in rows for x in np.arange(26 + rng.integers(20), side - 25, 52)]
    for y, x in places:  # a glomerulus, a similar structure, or tubules
        cell = np.s_[y - 26 : y + 26, x - 26 : x + 26]
        centre, kind = 26 + rng.uniform(-4, 4, 2), rng.choice(3, p=[0.4, 0.25, 0.35])
        radii = rng.uniform(11, 17) * np.exp(rng.normal(0, 0.1, 2))
        heights = blob(rng, (52, 52), centre, radii if kind < 2 else radii / 2.5, rough=0.25, grain=5)
        inside, inner = (heights > 0)[..., None], colours[2]
        if kind < 2:
            rim = np.exp(-((heights / 1.5) ** 2))[..., None] * (1 if kind == 0 else 0.3)
            inner = colours[1] + 22 * textures[kind][cell][..., None]
            picture[cell] = picture[cell] * (1 - rim) + colours[2] * rim
            inner = inner * (1 - rim) + colours[2] * rim
        picture[cell] = np.where(inside, inner, picture[cell])
        if kind == 0:
            bodies[cell] = inside[..., 0]
            if rng.random() > 0.05:  # annotators overlook some
                drawn[cell] = sloppy(rng, heights, 0.8)
                outlines.append(outline(drawn, centre + np.array([y - 26, x - 26])))
        if rng.random() < [0.8, 0.5, 0][kind]:
            rough[cell] = ellipse((52, 52), centre + rng.normal(0, 2, 2), radii * rng.uniform(0.85, 1.1)) > 0
    picture = rng.uniform(0.9, 1.08) * picture + rng.normal(0, 8, picture.shape)
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8), drawn, rough, bodies, outlines


def _features(name: str, outlines: list[list[list[int]]]) -> str:
    about = {"classification": {"name": name}, "isLocked": name == "glomerulus"}
    geometries = ({"type": "Polygon", "coordinates": [points]} for points in outlines)
    return json.dumps(
        [{"type": "Feature", "id": "PathAnnotationObject", "geometry": g, "properties": about} for g in geometries]
    )


def _information(ids: list[str], side: int, rng: np.random.Generator) -> pd.DataFrame:
    cortex = rng.integers(55, 90, 20)
    table = pd.DataFrame(
        {
            "image_file": [f"{id}.tiff" for id in ids],
            "width_pixels": side,
            "height_pixels": side,
            "anatomical_structures_segmention_file": [f"{id}-anatomical-structure.json" for id in ids],
            "glomerulus_segmentation_file": [f"{id}.json" for id in ids],
            "patient_number": rng.integers(60000, 69999, 20),
            "race": rng.choice(["White", "Black or African American"], 20),
            "ethnicity": "Not Hispanic or Latino",
            "sex": rng.choice(["Male", "Female"], 20),
            "age": rng.integers(30, 80, 20).astype(float),
            "weight_kilograms": rng.normal(80, 15, 20).round(1),
            "height_centimeters": rng.normal(170, 10, 20).round(1),
            "bmi_kg/m^2": rng.normal(27, 4, 20).round(1),
            "laterality": rng.choice(["Left", "Right"], 20),
            "percent_cortex": cortex,
            "percent_medulla": 100 - cortex,
        }
    )
    return table.sample(frac=1, random_state=int(rng.integers(2**31)))
