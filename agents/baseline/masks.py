"""Predicts masks and cleaned pictures, with a model of single pixels and their surroundings."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.ndimage import gaussian_filter, gaussian_gradient_magnitude
from tables import SEED, Source, to_numbers
from task import CannotSolve

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".npy")
MAX_PIXELS = 200_000_000
MAX_SIDE, MAX_CHANNELS = 768, 12
"""Larger pictures are reduced to this size. With more channels, there are fewer features per channel."""
SAMPLED, MAX_SCENES = 60_000, 150
"""Maximum number of training pixels, and of scenes that they come from."""
RUNS = re.compile(r"\d+ \d+( \d+ \d+)*")
TRUTH = re.compile("mask|label|truth|clean", re.I)
_TEST = re.compile("test", re.I)
_PLACE = re.compile(r"(.+)_(\d+)_(\d+)")
SHARES = np.arange(0.1, 0.95, 0.05)

log = logging.getLogger("baseline")


@dataclass(frozen=True)
class Scene:
    """The files of one place. Their arrays are the channels; ``truths`` maps names to masks or values."""

    name: str
    files: tuple[Path, ...]
    truths: dict[str, np.ndarray]


def submissions(data: Path, sample: pd.DataFrame, tables: list[Source], description: str) -> Iterable[pd.DataFrame]:
    """Yield successively better submissions of masks or pixel values. Raises CannotSolve."""
    files = [path for path in sorted(data.rglob("*")) if path.suffix.lower() in SUFFIXES]
    if _asks_for_values(sample, files):
        yield _values(sample, files)
    else:
        yield from _masks(sample, tables, files, description)


def asks_for_pixels(data: Path, sample: pd.DataFrame, tables: list[Source]) -> bool:
    """Return whether the submission consists of run lengths or pixel values."""
    if _PLACE.fullmatch(str(sample.iloc[0, 0])) and sample.shape[1] == 2:
        return _asks_for_values(sample, [path for path in data.rglob("*") if path.suffix.lower() in SUFFIXES])
    return len(_answer(sample, tables)[0]) > 0 or any(_are_runs(sample[name]) for name in sample.columns[1:])


def _are_runs(values: pd.Series) -> bool:
    found = values[~values.isin(["", "-"])]
    return len(found) > 0 and bool(found.str.fullmatch(RUNS.pattern).all())


def _answer(sample: pd.DataFrame, tables: list[Source]) -> tuple[str, pd.DataFrame]:
    """Return the column with run lengths in a table with the sample's ids, and the table; empty if there is none."""
    for table in tables:
        if "test" in table.name or sample.columns[0] not in table.columns():
            continue
        rows = table.read()
        for name in rows.columns[1:]:
            if _are_runs(rows[name]):
                return name, rows
    return "", pd.DataFrame()


def read_array(path: Path, *, reduced: bool = False) -> np.ndarray:
    """Read a picture or array, shape (height, width, channels); if ``reduced``, as floats at steps of ``step_of``."""
    if path.suffix == ".npy":
        array = np.load(path, allow_pickle=False)
    else:
        from PIL import Image

        Image.MAX_IMAGE_PIXELS = MAX_PIXELS
        array = np.asarray(Image.open(io.BytesIO(path.read_bytes())))
    array = array.reshape(*array.shape[:2], -1)
    step = step_of(array.shape)
    return array[::step, ::step].astype(np.float32) if reduced else array


def step_of(shape: tuple[int, ...]) -> int:
    """Return the step between the rows and columns that are used of a picture."""
    return -(-max(shape[:2]) // MAX_SIDE)


def keys(path: Path) -> list[str]:
    """Return the ids that a file may have. For ``a/b.png``: ``b``, ``a_b`` and ``a``."""
    parts = path.stem.split("_")
    starts = ["_".join(parts[: k + 1]) for k in range(len(parts))]
    folders = [folder.name for folder in list(path.parents)[:3]]
    return [path.stem, *(f"{folder}_{start}" for folder in folders for start in starts), *folders]


def _scenes(files: list[Path], ids: Iterable[str]) -> dict[str, list[Path]]:
    """Return the files that belong to each id."""
    found: dict[str, list[Path]] = {id: [] for id in ids}
    for path in files:
        for key in keys(path):
            if key in found:
                found[key].append(path)
                break
    return {id: own for id, own in found.items() if own}


def _channels(files: Iterable[Path]) -> np.ndarray:
    return np.concatenate([read_array(path, reduced=True) for path in files], axis=2)


def _truth(files: list[Path], folder: list[Path]) -> np.ndarray | None:
    """Return the mask among files: the first with at most two values and a matching name."""
    for path in sorted(files, key=lambda path: (not TRUTH.search(path.stem), path.name)):
        if not (TRUTH.search(path.stem) or TRUTH.search(path.parent.name)) or path in folder:
            continue
        array = read_array(path)
        if array.shape[2] == 1 and len(np.unique(array)) <= 2:
            return np.asarray(array[..., 0] > 0)
    return None


def features(channels: np.ndarray) -> np.ndarray:
    """Return the features of each pixel, shape (height, width, features)."""
    height, width, count = channels.shape
    scaled = (channels - channels.mean(axis=(0, 1))) / (channels.std(axis=(0, 1)) + 1e-6)
    found = [channels, *np.meshgrid(np.linspace(0, 1, height), np.linspace(0, 1, width), indexing="ij")]
    scales = (1, 2, 4, 8) if count <= MAX_CHANNELS else (1,)
    for k in range(count):
        plane = scaled[..., k]
        smooth = [gaussian_filter(plane, scale) for scale in scales]
        found += [plane, *smooth]
        if count <= MAX_CHANNELS:
            found += [gaussian_gradient_magnitude(plane, scale) for scale in (1, 3)]
            found += [
                np.sqrt(np.maximum(gaussian_filter(plane**2, scale) - own**2, 0))
                for scale, own in zip(scales[1:], smooth[1:], strict=True)
            ]
            found += [gaussian_filter(plane, scale, order=order) for scale in (1.5,) for order in ((2, 0), (0, 2))]
    return np.dstack(found).astype(np.float32)


class PixelModel:
    """Boosted trees over the pixels of scenes."""

    def __init__(self, scenes: list[Scene], name: str, *, is_mask: bool) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        kind = HistGradientBoostingClassifier if is_mask else HistGradientBoostingRegressor
        rng = np.random.default_rng(SEED)
        rows, answers = [], []
        for scene in scenes:
            channels = _channels(scene.files)
            truth = scene.truths[name]
            step = step_of(truth.shape)
            truth = truth[::step, ::step]
            if truth.shape != channels.shape[:2]:
                continue
            each = min(truth.size, SAMPLED // len(scenes) + 1)
            chosen = rng.choice(truth.size, each, replace=False)
            rows.append(features(channels).reshape(truth.size, -1)[chosen])
            answers.append(truth.reshape(-1)[chosen])
        if not rows or len({own.shape[1] for own in rows}) > 1:
            raise CannotSolve("the pictures differ in size from their masks, or in their number of channels")
        target = np.concatenate(answers)
        if is_mask and len(np.unique(target)) < 2:
            raise CannotSolve(f"there are no pixels of {name or 'the mask'} to learn from")
        self.is_mask = is_mask
        self.model = kind(max_iter=150, learning_rate=0.1, random_state=SEED, early_stopping=False)
        self.model.fit(np.concatenate(rows), target)

    def predict(self, files: tuple[Path, ...]) -> np.ndarray:
        """Return probabilities or values, in the shape of the files' arrays."""
        shape, channels = read_array(files[0]).shape[:2], _channels(files)
        table = features(channels).reshape(channels.shape[0] * channels.shape[1], -1)
        values = self.model.predict_proba(table)[:, 1] if self.is_mask else self.model.predict(table)
        step = step_of(shape)
        whole = np.kron(values.reshape(channels.shape[:2]), np.ones((step, step)))
        return np.asarray(whole[: shape[0], : shape[1]])


# ---- values of pixels --------------------------------------------------------------------------------------------


def _asks_for_values(sample: pd.DataFrame, files: list[Path]) -> bool:
    """Return whether an id is a file's name with a row and a column."""
    match = _PLACE.fullmatch(str(sample.iloc[0, 0]))
    return match is not None and any(path.stem == match[1] and _TEST.search(path.parent.name) for path in files)


def _values(sample: pd.DataFrame, files: list[Path]) -> pd.DataFrame:
    tests = {path.stem: path for path in files if _TEST.search(path.parent.name)}
    others = [path for path in files if not _TEST.search(path.parent.name)]
    cleans = {path.name: path for path in others if TRUTH.search(path.parent.name)}
    pairs = [(path, cleans[path.name]) for path in others if path not in cleans.values() and path.name in cleans]
    if not pairs:
        raise CannotSolve("there are no pairs of pictures to learn from")
    numbers = to_numbers(sample.iloc[:, 1])
    scale = 1 if numbers.max() > 1 else 255
    scenes = [Scene(path.stem, (path,), {"": read_array(clean)[..., 0] / scale}) for path, clean in pairs[:MAX_SCENES]]
    model = PixelModel(scenes, "", is_mask=False)
    places = sample.iloc[:, 0].str.extract(_PLACE.pattern)
    values = np.zeros(len(sample))
    for name, rows in places.groupby(0).groups.items():
        predicted = model.predict((tests[str(name)],)).clip(0, 255 / scale)
        own = places.loc[rows].astype({1: int, 2: int})
        values[rows] = predicted[own[1] - 1, own[2] - 1]
    return sample.assign(**{sample.columns[1]: values.round(5)})


# ---- masks -------------------------------------------------------------------------------------------------------


def _masks(sample: pd.DataFrame, tables: list[Source], files: list[Path], description: str) -> Iterable[pd.DataFrame]:
    id, (answer, rows) = sample.columns[0], _answer(sample, tables)
    targets = [name for name in sample.columns[1:] if _are_runs(sample[name]) or name not in rows]
    target = answer if answer in sample else targets[0]
    classes = [name for name in sample.columns[1:] if name != target and name in rows]
    tests = _scenes(
        [path for path in files if any(_TEST.search(own.name) for own in path.parents)], sample[id].unique()
    )
    if len(tests) < sample[id].nunique():
        raise CannotSolve("some ids of the sample submission are not the names of files or folders")
    order = order_of(description)
    scenes = _training(files, tests, rows, id, answer, classes, order)
    if len(scenes) < 2:
        raise CannotSolve(f"{len(scenes)} pictures with masks were found")
    log.info("masks: %d pictures for training, %d for the test; pixels in the order %s", len(scenes), len(tests), order)
    names = sorted({name for scene in scenes for name in scene.truths})
    nothing = "-" if (sample[target] == "-").any() else ""
    made = sample.copy()
    for name in names:
        model, finish = _tuned(scenes, name)
        own = made.index if not classes else made.index[made[classes[0]] == name]
        made.loc[own, target] = [
            encode(finish(model.predict(tuple(tests[key]))), order) or nothing for key in made.loc[own, id]
        ]
        yield made


def _training(
    files: list[Path],
    tests: dict[str, list[Path]],
    rows: pd.DataFrame,
    id: str,
    answer: str,
    classes: list[str],
    order: str,
) -> list[Scene]:
    """Return scenes with masks from a table of run lengths, otherwise from pictures of masks."""
    used = {path for own in tests.values() for path in own}
    others = [path for path in files if path not in used]
    wanted = {path.name for path in used}
    scenes = []
    rng = np.random.default_rng(SEED)
    if answer:
        groups = dict(list(rows.groupby(id)))
        found = _scenes([path for path in others if not TRUTH.search(path.parent.name)], groups)
        for key in rng.permutation(sorted(found))[:MAX_SCENES]:
            shape = read_array(found[key][0]).shape[:2]
            table = groups[key]
            names = table[classes[0]] if classes else [""] * len(table)
            truths = {name: decode(text, shape, order) for name, text in zip(names, table[answer], strict=True)}
            scenes.append(Scene(key, tuple(found[key]), truths))
        return scenes
    by_folder: dict[Path, list[Path]] = {}
    for path in others:
        by_folder.setdefault(_root(path), []).append(path)
    for root in sorted(by_folder):
        own = by_folder[root]
        channels = tuple(path for path in own if path.name in wanted)
        truth = _truth(own, list(channels))
        if truth is not None and channels:
            scenes.append(Scene(root.name, channels, {"": truth}))
    return [scenes[k] for k in rng.permutation(len(scenes))[:MAX_SCENES]]


def _root(path: Path) -> Path:
    """Return the folder of a scene: the one below the folder of training or validation data."""
    for folder in path.parents:
        if re.fullmatch("train.*|valid.*", folder.parent.name, re.I):
            return folder
    return path.parent


def _tuned(scenes: list[Scene], name: str) -> tuple[PixelModel, Callable[[np.ndarray], np.ndarray]]:
    """Return a model of most scenes, and a function that converts its output to masks, tuned on the other scenes."""
    having = [scene for scene in scenes if name in scene.truths]
    count = max(1, len(having) // 4)
    model = PixelModel(having[count:], name, is_mask=True)
    shares = [(model.predict(scene.files), scene.truths[name]) for scene in having[:count]]
    found = []
    for scale in (0.0, 1.0, 2.0):
        smooth = [(gaussian_filter(own, scale) if scale else own, truth) for own, truth in shares]
        for share in SHARES:
            masks = [(own > share, truth) for own, truth in smooth]
            for least in (0, 10, 30, 100, 300) if count > 4 else (0,):
                value = np.mean([_dice(mask if mask.sum() > least else np.zeros_like(mask), t) for mask, t in masks])
                found.append((float(value), scale, float(share), least))
    value, scale, share, least = max(found)
    log.info(
        "%s: Dice %.4f on held-out pictures; threshold %.2f, at least %d pixels", name or "mask", value, share, least
    )

    def finish(values: np.ndarray) -> np.ndarray:
        mask = (gaussian_filter(values, scale) if scale else values) > share
        return mask if mask.sum() > least else np.zeros_like(mask)

    return model, finish


def _dice(mask: np.ndarray, truth: np.ndarray) -> float:
    total = mask.sum() + truth.sum()
    return 1.0 if not total else float(2 * (mask & truth).sum() / total)


def order_of(description: str) -> str:
    """Return how a submission numbers pixels: "F", down the columns (the default), or "C", along the rows.

    >>> order_of("Pixels are numbered from left to right, then from top to bottom.")
    'C'
    """
    text = description.lower()
    row = re.search(r"left to right,? (and )?then (from )?top|row.major|along the rows|(first|each) row,? then", text)
    return "C" if row else "F"


def decode(text: str, shape: tuple[int, ...], order: str) -> np.ndarray:
    """Return the mask of run lengths, which count from 1."""
    flat = np.zeros(shape[0] * shape[1], dtype=bool)
    numbers = [int(part) for part in text.split() if part.isdigit()]
    for start, length in zip(numbers[::2], numbers[1::2], strict=True):
        flat[start - 1 : start - 1 + length] = True
    return np.asarray(flat.reshape(shape[:2], order=order))  # type: ignore[call-overload]


def encode(mask: np.ndarray, order: str) -> str:
    """Return the run lengths of a mask.

    >>> encode(np.array([[1, 0], [1, 1]], dtype=bool), "F")
    '1 2 4 1'
    """
    flat = np.concatenate([[False], mask.reshape(-1, order=order), [False]])  # type: ignore[call-overload]
    edges = np.flatnonzero(flat[1:] != flat[:-1])
    return " ".join(f"{start + 1} {end - start}" for start, end in edges.reshape(-1, 2))
