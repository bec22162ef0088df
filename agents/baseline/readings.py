"""Reads scans, sounds and series, and converts scans and series to rows of numbers; see ``media``."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.io import wavfile

SOUNDS = (".wav", ".aif", ".aiff", ".flac", ".ogg", ".mp3")
ARRAYS = (".npy", ".parquet", ".csv")
SCANS = (".dcm", ".dicom")
MAX_CHANNELS, MAX_STEPS, MAX_SLICES = 20, 200_000, 16
_SIDE, _BANDS = 64, 12


def read_sound(content: bytes, suffix: str) -> tuple[int, np.ndarray]:
    """Return the rate and samples of a sound, in WAV or any other format that libsndfile supports."""
    if suffix == ".wav":
        rate, samples = wavfile.read(io.BytesIO(content))
        return rate, samples
    import soundfile

    samples, rate = soundfile.read(io.BytesIO(content), always_2d=True)
    return rate, samples


def read_scan(content: bytes) -> np.ndarray:
    """Return the pixels of a DICOM file, shape (height, width)."""
    import pydicom

    found = pydicom.dcmread(io.BytesIO(content), force=True)
    pixels = np.asarray(found.pixel_array, dtype=float)
    pixels = pixels if pixels.ndim == 2 else pixels.reshape(-1, *pixels.shape[-2:])[0]
    return pixels.max() - pixels if found.get("PhotometricInterpretation") == "MONOCHROME1" else pixels


def read_array(content: bytes, suffix: str) -> np.ndarray:
    if suffix == ".npy":
        return np.asarray(np.load(io.BytesIO(content), allow_pickle=False), dtype=float)
    table = pd.read_parquet(io.BytesIO(content)) if suffix == ".parquet" else pd.read_csv(io.BytesIO(content))
    return np.asarray(table.select_dtypes("number").to_numpy(float))


def array_numbers(array: np.ndarray) -> np.ndarray:
    """Return features of series, shape (steps, channels), or of planes, shape (planes, height, width)."""
    if array.ndim >= 3:
        planes = array.reshape(-1, *array.shape[-2:])
        return np.concatenate([plane_numbers(plane) for plane in (planes.mean(axis=0), *planes[:MAX_CHANNELS])])
    series = array.reshape(len(array), -1)[:MAX_STEPS, :MAX_CHANNELS]
    return np.concatenate([_series_numbers(column) for column in series.T])


def _series_numbers(values: np.ndarray) -> np.ndarray:
    """Return level, spread, extremes, gaps, roughness and the power of frequency bands of one series."""
    known = values[np.isfinite(values)]
    if len(known) < 8:
        return np.full(14 + _BANDS, np.nan)
    power = np.abs(np.fft.rfft(known - known.mean())) ** 2 / len(known)
    edges = np.unique(np.geomspace(1, len(power) - 1, _BANDS + 1).astype(int))[:-1]
    bands = np.full(_BANDS, np.nan)
    bands[: len(edges)] = np.log(np.add.reduceat(power, edges) + 1e-9)
    change, half = np.diff(known), len(known) // 2
    return np.array([
        *np.quantile(known, (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)), known.mean(), np.log(known.std() + 1e-9),
        np.log(np.abs(change).mean() + 1e-9), np.abs(change).max(), known[half:].mean() - known[:half].mean(),
        np.log((known[half:].std() + 1e-9) / (known[:half].std() + 1e-9)), len(values) - len(known), *bands,
    ])  # fmt: skip


def plane_numbers(plane: np.ndarray) -> np.ndarray:
    """Return the brightness, regions, edges and structure of a greyscale picture."""
    from PIL import Image

    plane = np.nan_to_num(plane)
    low, high = plane.min(), plane.max()
    grey = np.asarray(
        Image.fromarray(plane.astype(np.float32)).resize((_SIDE, _SIDE), Image.Resampling.BOX), dtype=float
    )
    spread = grey.std() + 1e-9
    scaled = (grey - grey.mean()) / spread
    down, right = np.gradient(scaled)
    strength, angle = np.hypot(down, right), np.arctan2(down, right) % np.pi
    edges = [strength[(angle * 8 / np.pi).astype(int) % 8 == k].sum() / grey.size for k in range(8)]
    power = np.abs(np.fft.fft2(scaled)) ** 2
    rings = np.hypot(*np.meshgrid(*[np.fft.fftfreq(_SIDE) * _SIDE] * 2)).astype(int)
    texture = np.log(np.bincount(rings.ravel(), power.ravel())[1 : _SIDE // 2 : 2] + 1e-6)
    regions = scaled.reshape(8, _SIDE // 8, 8, _SIDE // 8).mean(axis=(1, 3))
    return np.concatenate([
        [low, high, grey.mean(), spread], np.quantile(scaled, (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)),
        edges, texture, regions.reshape(4, 2, 4, 2).mean(axis=(1, 3)).ravel(), regions.max(axis=0), regions.max(axis=1),
    ])  # fmt: skip


def folder_numbers(folder: Path) -> np.ndarray:
    """Return the mean, maximum and minimum features of the scans in each subfolder, or in the folder itself."""
    own = [path for path in sorted(folder.iterdir()) if path.is_dir()] or [folder]
    return np.concatenate([_stack_numbers(sorted(path.rglob("*"), key=natural)) for path in own])


def natural(path: Path) -> tuple[int, str]:
    return len(path.name), path.name


def _stack_numbers(paths: Iterable[Path]) -> np.ndarray:
    files = [path for path in paths if path.suffix.lower() in SCANS]
    chosen = [files[k] for k in np.unique(np.linspace(0, len(files) - 1, MAX_SLICES).astype(int))]
    found = np.array([plane_numbers(read_scan(path.read_bytes())) for path in chosen])
    return np.concatenate([found.mean(axis=0), found.max(axis=0), found.min(axis=0), [len(files)]])
