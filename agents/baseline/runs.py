"""Predicts sequences of words or gestures in recordings: splits the sound into runs and classifies each."""

from __future__ import annotations

import io
import logging
import re
import tarfile
import zipfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import IO

import numpy as np
import pandas as pd
from archives import TARS
from readings import SOUNDS, read_sound
from tables import Source

LIST = re.compile(r"\w+( \w+)*")
MAX_SOUNDS = 1000
STEP, BANDS, SLICES = 0.02, 24, 6
"""Seconds between spectra, number of frequency bands, and number of time slices per run."""
LEVELS, PAUSES = np.arange(0.1, 0.7, 0.05), (1, 2, 3, 5, 8, 12, 20)
"""Candidates for the minimum loudness of a run (relative to the recording), and for its longest pause, in steps."""
LEAST_ALIKE = 0.3
"""Minimum share of recordings that must have as many runs as labels."""

log = logging.getLogger("baseline")


def _sounds(name: str, file: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield the sound files in a file, which may be an archive of archives."""
    if name.endswith(SOUNDS):
        yield name, file.read()
    elif name.endswith(".zip"):
        with zipfile.ZipFile(file) as archive:
            for member in archive.namelist():
                if member.endswith((*SOUNDS, ".zip")):
                    with archive.open(member) as own:
                        yield from _sounds(member, io.BytesIO(own.read()))
    elif name.endswith(TARS):
        with tarfile.open(fileobj=file, mode="r|*") as archive:
            for entry in archive:
                if entry.isfile() and (own := archive.extractfile(entry)) is not None:
                    yield from _sounds(entry.name, io.BytesIO(own.read()))


def _spectra(data: Path, ids: set[str]) -> dict[str, np.ndarray]:
    """Return the spectra over time, shape (steps, BANDS), of sounds with an id at the end of a word in the name."""
    found: dict[str, np.ndarray] = {}
    lengths = {len(id) for id in ids}
    for path in sorted(data.rglob("*")):
        if path.name.endswith((*SOUNDS, ".zip", *TARS)) and len(found) < MAX_SOUNDS:
            with path.open("rb") as file:
                for name, content in _sounds(path.name, file):
                    words = re.split(r"[^A-Za-z0-9]+", Path(name).stem)
                    ends = [word[-length:] for word in words for length in lengths if word[-length:] in ids]
                    if ends:
                        found[ends[0]] = _spectrum(*read_sound(content, Path(name).suffix))
    return found


def _spectrum(rate: int, samples: np.ndarray) -> np.ndarray:
    samples = samples.reshape(len(samples), -1).mean(axis=1).astype(float)
    size, hop = 1 << int(np.log2(0.04 * rate)), int(STEP * rate)
    samples = np.pad(samples / (samples.std() + 1e-9), (size, size))
    frames = np.lib.stride_tricks.sliding_window_view(samples, size)[::hop] * np.hanning(size)
    power = np.abs(np.fft.rfft(frames)) ** 2
    edges = np.linspace(0, min(4000 * size / rate, power.shape[1]), BANDS + 1).astype(int)[:-1]
    return np.log(np.add.reduceat(power, edges, axis=1) + 1e-2)


def _runs(spectrum: np.ndarray, level: float, pause: int) -> list[tuple[int, int]]:
    """Return the loud runs, including short pauses."""
    loud = np.log(np.exp(spectrum).sum(axis=1))
    loud = np.convolve(loud, np.ones(3) / 3, "same")
    low, high = np.quantile(loud, (0.03, 0.97))
    places = np.flatnonzero(loud > low + level * (high - low))
    if not len(places):
        return []
    parts = np.split(places, np.flatnonzero(np.diff(places) > pause) + 1)
    return [(int(part[0]), int(part[-1]) + 1) for part in parts if len(part) > 2]


def _numbers(spectrum: np.ndarray, run: tuple[int, int]) -> np.ndarray:
    parts = np.array_split(spectrum[run[0] : run[1]], SLICES)
    means = np.array([part.mean(axis=0) if len(part) else spectrum[run[0]] for part in parts])
    return np.append((means - means.mean()).ravel(), run[1] - run[0])


def sequence_submission(data: Path, sample: pd.DataFrame, tables: list[Source]) -> pd.DataFrame | None:
    """Return lists of labels; None if no training table has any, or if the runs rarely match the labels in number."""
    if sample.shape[1] != 2 or not sample.iloc[:, 1].str.fullmatch(LIST.pattern).all():
        return None
    id, target = sample.columns
    for table in tables:
        if "test" in table.name or table.columns()[:2] != [id, target]:
            continue
        rows = table.read()
        lists = dict(zip(rows[id], rows[target].str.split(), strict=True))
        if rows[target].str.count(" ").mean() < 1 or len({label for own in lists.values() for label in own}) > 200:
            continue
        spectra = _spectra(data, {*lists, *sample[id]})
        known = {key: own for key, own in spectra.items() if key in lists}
        if len(known) < 10 or not sample[id].isin(spectra.keys()).all():
            continue
        found = _labelled(known, lists, {key: spectra[key] for key in sample[id]})
        return None if found is None else sample.assign(**{target: [" ".join(found[key]) for key in sample[id]]})
    return None


def _labelled(
    known: dict[str, np.ndarray], lists: dict[str, list[str]], tests: dict[str, np.ndarray]
) -> dict[str, list[str]] | None:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    def alike(choice: tuple[float, int]) -> float:
        return float(np.mean([len(_runs(own, *choice)) == len(lists[key]) for key, own in known.items()]))

    choice = max(product(LEVELS, PAUSES), key=alike)
    log.info("level %.2f, pause %d: %.2f of %d recordings have a run per label", *choice, alike(choice), len(known))
    if alike(choice) < LEAST_ALIKE:
        return None
    x, y = [], []
    for key, spectrum in known.items():
        runs = _runs(spectrum, *choice)
        if len(runs) == len(lists[key]):
            x += [_numbers(spectrum, run) for run in runs]
            y += lists[key]
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(x, y)
    usual = max(set(y), key=y.count)
    found = {}
    for key, spectrum in tests.items():
        own = [_numbers(spectrum, run) for run in _runs(spectrum, *choice)]
        found[key] = list(model.predict(own)) if own else [usual]
    return found
