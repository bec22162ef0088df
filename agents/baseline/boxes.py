"""Finds boxes in pictures (label, confidence, corners), with a model of single pixels and one of whole pictures."""

from __future__ import annotations

import io
import logging
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from masks import features
from media import PICTURES, File, find_files
from readings import SCANS, plane_numbers, read_scan
from scipy.ndimage import label as connected
from scipy.ndimage import zoom
from tables import SEED, Source, to_numbers
from task import CannotSolve

if TYPE_CHECKING:
    from sklearn.ensemble import ExtraTreesRegressor

BOX = r"\S+ \d+(?:\.\d+)?(?: -?\d+(?:\.\d+)?){4}"
BOXES = re.compile(rf"{BOX}(?: {BOX})*")
CORNERS = ("x_?min", "y_?min", "x_?max", "y_?max")
WHOLE = (0.0, 0.0, 1.0, 1.0)
"""The box that stands for a whole picture."""
SIDE, STEP = 64, 2
"""Size to which pictures are scaled, and the step between the rows and columns that the forest predicts."""
MAX_PICTURES, SAMPLED, TREES = 450, 40_000, 30
LEAST_PEAK, MOST_BOXES = 0.08, 4
"""Minimum probability of a box, and maximum number of boxes per label in a picture."""
LEVELS = np.arange(0.3, 0.85, 0.1)
"""A box surrounds the pixels whose probability is at least this fraction of the largest one."""

Boxes = list[tuple[str, np.ndarray]]

log = logging.getLogger("baseline")


@dataclass
class Picture:
    """A picture scaled to a fixed size, its original sides (width, height), and its labels: boxes at the fixed size."""

    pixels: np.ndarray
    sides: np.ndarray
    labels: Boxes = field(default_factory=list)


def asks_for_boxes(sample: pd.DataFrame) -> bool:
    return sample.shape[1] == 2 and bool(sample.iloc[:, 1].str.strip().str.fullmatch(BOXES.pattern).all())


def parse(text: str) -> Boxes:
    """Return labels and corners (x0, y0, x1, y1).

    >>> parse("cat 0.5 1 2 3 4")
    [('cat', array([1., 2., 3., 4.]))]
    """
    parts = np.array(text.split(), dtype=object).reshape(-1, 6)
    return [(str(row[0]), row[2:].astype(float)) for row in parts]


def _truths(sample: pd.DataFrame, tables: list[Source]) -> dict[str, Boxes]:
    """Read the boxes of each id from training tables: from texts, corners in columns, or columns of zeros and ones."""
    id, common = sample.columns[0], {name for name, _ in parse(sample.iloc[0, 1])}
    found: dict[str, Boxes] = {}
    for table in tables:
        if "test" in table.name or id not in table.columns():
            continue
        rows = table.read()
        texts = [name for name in rows.columns if name != id and rows[name].str.fullmatch(BOXES.pattern).all()]
        corners = [next((n for n in rows.columns if re.fullmatch(side, n, re.I)), "") for side in CORNERS]
        kinds = [name for name in rows.columns if common <= set(rows[name])]
        flags = [name for name in rows.columns if set(rows[name]) == {"0", "1"}]
        if texts:
            own = [(key, parse(text)) for key, text in zip(rows[id], rows[texts[0]], strict=True)]
        elif all(corners) and kinds:
            values = rows[corners].apply(to_numbers).to_numpy(float)
            values = np.where(np.isnan(values), WHOLE, values)
            own = [(key, [(kind, box)]) for key, kind, box in zip(rows[id], rows[kinds[0]], values, strict=True)]
        else:  # labels may be shortened to their first words
            words = {name: name.split()[0].lower() for name in flags}
            names = words if common & set(words.values()) else {name: name for name in flags}
            own = [
                (r[id], [(names[f], np.array(WHOLE)) for f in flags if r[f] == "1"]) for r in rows.to_dict("records")
            ]
        for key, boxes in own:
            found.setdefault(key, []).extend(boxes)
    return found


def _files(data: Path, ids: pd.Series, *, is_test: bool) -> dict[str, list[File]]:
    """Find the pictures of each id: the id, or its beginning, is the name of a file or folder."""
    by_key: dict[str, list[File]] = {}
    for file in find_files(data):
        path = Path(file.name)
        if path.suffix.lower() in (*PICTURES, *SCANS) and ("test" in path.parts) == is_test:
            for key in {path.stem, *(folder.name for folder in path.parents)}:
                by_key.setdefault(key, []).append(file)
    found = {id: by_key.get(id) or by_key.get(id.rsplit("_", 1)[0], []) for id in ids.unique()}
    return {id: files for id, files in found.items() if files}


def _read(file: File) -> Picture:
    from PIL import Image

    content = file.read()
    if Path(file.name).suffix.lower() in SCANS:
        plane = read_scan(content)
    else:
        with Image.open(io.BytesIO(content)) as image:
            plane = np.asarray(image.convert("L"), dtype=float)
    small = Image.fromarray(plane.astype(np.float32)).resize((SIDE, SIDE), Image.Resampling.BOX)
    return Picture(np.asarray(small, dtype=np.float32), np.array(plane.shape[::-1], dtype=float))


class BoxModel:
    """Predicts the probability of labels at each pixel, with a forest, and from that and other features per picture."""

    def __init__(self, pictures: list[Picture]) -> None:
        from sklearn.ensemble import ExtraTreesRegressor

        named = {name for picture in pictures for name, _ in picture.labels}
        boxed = {name for picture in pictures for name, box in picture.labels if tuple(box) != WHOLE}
        self.names, self.local = sorted(named), sorted(boxed)
        halves = [pictures[::2], pictures[1::2]]
        self.forests = [self._forest(half) for half in halves] if boxed else []
        maps = {
            id(picture): self._maps(picture, self.forests[1 - k : 2 - k])
            for k, half in enumerate(halves)
            for picture in half
        }
        self.level = max(LEVELS, key=lambda level: sum(self._agreement(p, maps[id(p)], level) for p in pictures))
        log.info("boxes: %s; level %.1f", ", ".join(self.local[:10]), self.level)
        x = [self._numbers(picture, maps[id(picture)]) for picture in pictures]
        y = [[any(name == own for own, _ in picture.labels) for name in self.names] for picture in pictures]
        self.whole = ExtraTreesRegressor(200, min_samples_leaf=3, max_features=0.3, random_state=SEED)
        self.whole.fit(x, np.array(y, dtype=float))

    def _forest(self, pictures: list[Picture]) -> ExtraTreesRegressor:
        from sklearn.ensemble import ExtraTreesRegressor

        rng, rows, answers = np.random.default_rng(SEED), [], []
        for picture in pictures:
            chosen = rng.choice(SIDE * SIDE, min(SIDE * SIDE, SAMPLED // len(pictures) + 1), replace=False)
            inside = np.zeros((SIDE, SIDE, len(self.local)), dtype=np.float32)
            for name, box in picture.labels:
                if name in self.local and tuple(box) != WHOLE:
                    left, top, right, bottom = box.round().astype(int)
                    inside[top:bottom, left:right, self.local.index(name)] = 1
            rows.append(features(picture.pixels[..., None]).reshape(SIDE * SIDE, -1)[chosen])
            answers.append(inside.reshape(SIDE * SIDE, -1)[chosen])
        forest = ExtraTreesRegressor(TREES, min_samples_leaf=5, max_features=0.5, random_state=SEED)
        return forest.fit(np.concatenate(rows), np.concatenate(answers))

    def _maps(self, picture: Picture, forests: list[ExtraTreesRegressor]) -> np.ndarray:
        """Return the probability of each label that has boxes, shape (labels, height, width)."""
        if not self.local:
            return np.zeros((0, SIDE, SIDE))
        seen = features(picture.pixels[..., None])[::STEP, ::STEP]
        shares = np.mean([forest.predict(seen.reshape(-1, seen.shape[2])) for forest in forests], axis=0)
        planes = shares.reshape(*seen.shape[:2], -1).transpose(2, 0, 1)
        return np.stack([zoom(plane, STEP, order=1, grid_mode=True, mode="nearest") for plane in planes])

    def _numbers(self, picture: Picture, maps: np.ndarray) -> np.ndarray:
        flat = maps.reshape(len(maps), -1)
        sums = [flat.max(axis=1), flat.mean(axis=1), (flat**2).mean(axis=1)] if len(flat) else []
        return np.concatenate([plane_numbers(picture.pixels), *sums])

    def _agreement(self, picture: Picture, maps: np.ndarray, level: float) -> float:
        """Return the summed overlap of each true box with its best prediction."""
        found = {name: _boxes(plane, level) for name, plane in zip(self.local, maps, strict=True)}
        return sum(
            max((_overlap(box, own) for _, own in found[name]), default=0.0)
            for name, box in picture.labels
            if name in found
        )

    def predict(self, picture: Picture) -> list[tuple[str, float, np.ndarray]]:
        maps = self._maps(picture, self.forests)
        shares = dict(zip(self.names, self.whole.predict([self._numbers(picture, maps)])[0], strict=True))
        scale = np.tile(picture.sides / SIDE, 2)
        found = [(name, float(share), np.array(WHOLE)) for name, share in shares.items() if name not in self.local]
        for name, plane in zip(self.local, maps, strict=True):
            found += [(name, float(shares[name] * peak), box * scale) for peak, box in _boxes(plane, self.level)]
        return found


def _boxes(plane: np.ndarray, level: float) -> list[tuple[float, np.ndarray]]:
    """Return confidences and boxes around the peaks of a probability map."""
    plane, found = plane.copy(), []
    while len(found) < MOST_BOXES and (peak := float(plane.max())) > LEAST_PEAK:
        parts, _ = connected(plane >= level * peak)
        part = parts == parts[np.unravel_index(plane.argmax(), plane.shape)]
        down, across = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
        box = np.array([across[0], down[0], across[-1] + 1, down[-1] + 1], dtype=float)
        plane[down[0] : down[-1] + 1, across[0] : across[-1] + 1] = 0
        found.append((peak, box))
    return found


def _overlap(box: np.ndarray, other: np.ndarray) -> float:
    sides = np.minimum(box[2:], other[2:]) - np.maximum(box[:2], other[:2])
    shared = np.prod(sides.clip(0))
    return float(shared / (np.prod(box[2:] - box[:2]) + np.prod(other[2:] - other[:2]) - shared + 1e-9))


def box_submission(data: Path, sample: pd.DataFrame, tables: list[Source]) -> pd.DataFrame | None:
    """Return the sample submission with predicted boxes; None if it does not ask for boxes. Raises CannotSolve."""
    if not asks_for_boxes(sample):
        return None
    truths = _truths(sample, tables)
    known = _files(data, pd.Series(list(truths), dtype=object), is_test=False)
    asked = _files(data, sample.iloc[:, 0], is_test=True)
    if len(known) < 10 or len(asked) < len(sample):
        raise CannotSolve(f"found {len(known)} pictures with boxes, and {len(asked)} of {len(sample)} test pictures")
    pictures: dict[File, Picture] = {}
    labels: dict[str, set[str]] = {}  # which labels are asked for, by the suffix of ids
    chosen = np.random.default_rng(SEED).permutation(sorted({file.name for files in known.values() for file in files}))
    read = set(chosen[:MAX_PICTURES])
    for key, files in known.items():
        labels.setdefault(_end(key, files), set()).update(name for name, _ in truths[key])
        for file in files:
            if file.name in read:
                picture = pictures[file] = pictures.get(file) or _read(file)
                scale = np.tile(SIDE / picture.sides, 2)
                picture.labels += [
                    (name, box if tuple(box) == WHOLE else (box * scale).clip(0, SIDE)) for name, box in truths[key]
                ]
    log.info("pictures: %d for training, %d for the test", len(pictures), len(asked))
    model = BoxModel(list(pictures.values()))
    found, texts = {}, []
    for key in sample.iloc[:, 0]:
        file = asked[key][0]
        if file not in found:
            found[file] = model.predict(_read(file))
        own = labels[_end(key, asked[key])]
        texts.append(
            " ".join(
                f"{name} {share:.4f} {' '.join(f'{side:.6g}' for side in box)}"
                for name, share, box in found[file]
                if name in own
            )
        )
    return sample.assign(**{sample.columns[1]: texts})


def _end(key: str, files: list[File]) -> str:
    """Return the suffix that an id adds to the name of its file or folder, such as 'study'."""
    path = Path(files[0].name)
    return "" if key in {path.stem, *(folder.name for folder in path.parents)} else key.rsplit("_", 1)[1]
