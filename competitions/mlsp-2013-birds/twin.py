import struct
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.signal import stft

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import wav
from pytest_mlebench.authoring.worlds.labels import by_size
from pytest_mlebench.authoring.worlds.media import coloured_noise, sweep

from .synthetic import ESSENTIAL, ROOT, SUPPLEMENTAL

SPECIES, RATE, SECONDS = 19, 16000, 2  # the real clips last ten seconds: five times as many bytes
FEATURES, CLUSTERS = 38, 100


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n = by_size(size, 25, 150, 400)
    # the world: each bird's song; every second one differs from the previous one only in direction
    low, high = np.repeat(np.linspace(1500, 6200, 10), 2)[:SPECIES], rng.uniform(300, 900, 10)
    glide = np.where(np.arange(SPECIES) % 2 == 0, 1, -1)
    length, gap = rng.uniform(0.05, 0.2, SPECIES), rng.uniform(0.08, 0.3, SPECIES)
    common, sites = rng.dirichlet(np.full(SPECIES, 2)), rng.dirichlet(np.full(SPECIES, 1.5), 13)
    views = rng.normal(size=(FEATURES - 4, 4))

    files: dict[str, bytes | str] = {}
    labels, ids, texts = [], [], {"histogram": [], "features": [], "rectangles": []}
    guesses = []
    for k in range(n):
        site = int(rng.integers(13))
        chances = np.minimum(2.2 * (0.4 * common + 0.6 * sites[site]), 0.8)
        sings = rng.random(SPECIES) < chances
        clip, notes = coloured_noise(rng, (SECONDS * RATE,), rng.uniform(0.2, 1.0)), []
        for bird in np.flatnonzero(sings):
            at, loud = rng.uniform(0, 0.8), rng.uniform(0.5, 3)
            width = high[bird // 2]
            for _ in range(rng.integers(3, 8)):
                bottom = low[bird] * rng.uniform(0.97, 1.03)
                start, end = (bottom, bottom + width)[:: glide[bird]]
                note = sweep(length[bird], RATE, start, end)
                if (first := int(at * RATE)) + len(note) >= len(clip):
                    break
                clip[first : first + len(note)] += loud * note
                if rng.random() < 0.7:  # found by the segmentation
                    notes.append([at, length[bird], (start + end) / 2, (end - start) / length[bird]])
                at += length[bird] + gap[bird] * rng.uniform(0.8, 1.2)
        name = f"PC{site + 1}_2009{rng.integers(5, 9):02d}{rng.integers(10, 30)}_{rng.integers(24):02d}0000_{k:04d}"
        files[f"{ESSENTIAL}/src_wavs/{name}.wav"] = wav(np.clip(250 * rng.uniform(0.5, 2) * clip, -32768, 32767), RATE)
        _pictures(files, name, clip)
        given = sings ^ (rng.random(SPECIES) < np.where(sings, 0.1, 0.01))
        labels.append(f"{k}," + ",".join(map(str, np.flatnonzero(given))) if given.any() else f"{k}")
        ids.append(f"{k},{name}")
        found = np.array(notes).reshape(-1, 4) / [1, 0.1, 2000, 5000]
        cells = 10 * (found[:, 2] * 2.5).astype(int).clip(0, 9) + (5 + found[:, 3] * 2).astype(int).clip(0, 9)
        shares = np.bincount(cells, minlength=CLUSTERS) / max(len(cells), 1)
        texts["histogram"].append(f"{k}," + ",".join(f"{share:.4f}" for share in shares))
        for segment, (at, long, middle, slope) in enumerate(found):
            seen = np.concatenate([[at, long, middle, slope], np.tanh(views @ [at, long, middle, slope])])
            values = seen + rng.normal(0, 0.1, FEATURES)
            texts["features"].append(f"{k},{segment}," + ",".join(f"{value:.5f}" for value in values))
            box = np.array([at, at + 0.1 * long, middle / 4 - 0.02, middle / 4 + 0.02]) * [62, 62, 64, 64]
            texts["rectangles"].append(f"{k},{segment}," + ",".join(map(str, box.round().astype(int))))
        either = np.pad(sings, (0, 1)).reshape(-1, 4).any(axis=1).repeat(4)[:SPECIES]  # rough pitch only
        guesses.append((np.where(either, 0.4, 0.05), np.where(sings, 0.9, 0.01)))
    _texts(files, rng, labels, ids, texts)
    write_zip(raw / f"{ROOT}.zip", files)
    (raw / "mlsp13birdchallenge_documentation.pdf").write_bytes(b"%PDF-1.4\n")
    rows = pd.Index([100 * k + bird for k in range(n) for bird in range(SPECIES)], name="Id")
    simple, ceiling = (np.concatenate(guess) for guess in zip(*guesses, strict=True))
    return {name: pd.DataFrame({"Probability": p}, rows) for name, p in (("simple", simple), ("ceiling", ceiling))}


def _texts(files: dict[str, bytes | str], rng: np.random.Generator, labels: list[str], ids: list[str], texts: dict):
    n = len(labels)
    files[f"{ESSENTIAL}/CVfolds_2.txt"] = _lines("rec_id,fold", [f"{k},0" for k in range(n)])
    files[f"{ESSENTIAL}/rec_id2filename.txt"] = _lines("rec_id,filename", ids)
    files[f"{ESSENTIAL}/rec_labels_test_hidden.txt"] = _lines("rec_id,[labels]", labels)
    species = [f"{k},SP{k:02d},Bird No. {k}" for k in range(SPECIES)]
    files[f"{ESSENTIAL}/species_list.txt"] = _lines("class_id,code,species", species)
    heading = "rec_id,[histogram of segment features]"
    files[f"{SUPPLEMENTAL}/histogram_of_segments.txt"] = _lines(heading, texts["histogram"])
    files[f"{SUPPLEMENTAL}/segment_features.txt"] = _lines("rec_id,segment_id,[feature vector]", texts["features"])
    files[f"{SUPPLEMENTAL}/segment_rectangles.txt"] = _lines("rec_id,segment_id,x0,x1,y0,y1", texts["rectangles"])
    for name in ("segment_clusters", "segment_mosaic"):
        files[f"{SUPPLEMENTAL}/{name}.bmp"] = bmp(rng.integers(0, 256, (32, 32)))


def _pictures(files: dict[str, bytes | str], name: str, clip: np.ndarray) -> None:
    """Add pictures of the spectrogram, of the same without steady noise, and of its loud parts."""
    loud = np.sqrt(np.abs(stft(clip, nperseg=512, noverlap=0)[2]))[::-4][:64]
    quiet = np.maximum(loud - np.median(loud, axis=1, keepdims=True), 0)
    maps = {"spectrograms": loud, "filtered_spectrograms": quiet, "supervised_segmentation": quiet > 0.3 * quiet.max()}
    for folder, values in maps.items():
        files[f"{SUPPLEMENTAL}/{folder}/{name}.bmp"] = bmp(255 * values / values.max())


def bmp(values: np.ndarray) -> bytes:
    """Return a grey BMP image of values from 0 to 255, of shape (height, width)."""
    height, width = values.shape
    padded = np.pad(np.clip(np.rint(values), 0, 255).astype(np.uint8)[::-1], ((0, 0), (0, -width % 4)))
    palette = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 4, axis=1) * np.array([1, 1, 1, 0], np.uint8)
    start = 54 + 1024
    header = struct.pack("<2sIIIIiiHHIIiiII", b"BM", start + padded.size, 0, start, 40, width, height, 1, 8, 0,
                         padded.size, 2835, 2835, 256, 0)  # fmt: skip
    return header + palette.tobytes() + padded.tobytes()


def _lines(heading: str, rows: list[str]) -> str:
    return "\n".join([heading, *rows, ""])
