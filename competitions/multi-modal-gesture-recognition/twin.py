import io
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.io import savemat

from pytest_mlebench.authoring.archives import write_7z, write_tar_gz, write_zip
from pytest_mlebench.authoring.synthetic import wav
from pytest_mlebench.authoring.worlds.labels import by_size
from pytest_mlebench.authoring.worlds.media import coloured_noise, mp4, speech

from .synthetic import BATCHES

RATE, WORD, FPS, HAND = 8000, 0.22, 5, 11  # of sound; seconds of a word; frames per second; the joint that moves
FACES = (24, 32)  # the real pictures have 480 by 640 pixels


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    """Leave the gestures out of the Matlab files of test samples, where version 1's real data reveals the answers."""
    test, train = by_size(size, 50, 80, 200), by_size(size, 15, 40, 120)
    # the world: each gesture has a word of two sounds and a place where the hand goes. Gestures 2k - 1 and 2k have
    # the same sounds in the opposite order, and nearly the same place
    sounds = np.column_stack([rng.permutation(np.linspace(300, 900, 5)), rng.uniform(1100, 2900, 5)])
    pairs = rng.permutation([(a, b) for a in range(5) for b in range(a)])
    spots = np.repeat(rng.uniform(-1, 1, (10, 2)), 2, axis=0) + rng.normal(0, 0.1, (20, 2))
    names = np.array([f"gesture{k}" for k in range(1, 21)])
    rows, guesses, number = [], {"simple": {}, "ceiling": {}}, 1
    for batch in BATCHES:
        samples = []
        for _ in range(test if batch == "training4" else train if batch.startswith("training") else 3):
            number += int(rng.integers(1, 3))
            true = rng.integers(0, 20, rng.integers(4, 9))
            words = [sounds[pairs[g // 2][:: 1 if g % 2 else -1]] for g in true]
            gaps = rng.uniform(0.08, 0.2, len(true) + 1)
            starts = np.cumsum(gaps)[:-1] + WORD * np.arange(len(true))
            sound = _sound(rng, words, starts, gaps.sum() + WORD * len(true))
            given = np.where(rng.random(len(true)) < 0.04, rng.integers(0, 20, len(true)), true)
            labels = [
                (names[g], int(start * FPS) + 1, int((start + WORD) * FPS) + 1)
                for g, start in zip(given, starts, strict=True)
            ]
            is_known = batch.startswith("training") and batch != "training4"
            name = f"Sample{number:05d}"
            samples.append(
                (f"{name}.zip", _sample(raw, rng, name, sound, spots[true], starts, labels if is_known else []))
            )
            if batch.startswith("training"):
                rows.append((f"{number:04d}", _text(given)))
                guesses["ceiling"][number] = _text(true)
                guesses["simple"][number] = _text(true // 2 * 2 + rng.integers(0, 2, len(true)))
        write_tar_gz(raw / f"{batch}.tar.gz", [samples[k] for k in rng.permutation(len(samples))])
    pd.DataFrame([rows[k] for k in rng.permutation(len(rows))], columns=["Id", "Sequence"]).to_csv(
        raw / "training.csv", index=False
    )
    pd.DataFrame({"Id": ["9700"]}).to_csv(raw / "test.csv", index=False)
    pd.DataFrame({"Id": ["9700"], "Sequence": "1 2 3"}).to_csv(raw / "randomPredictions.csv", index=False)
    write_7z(raw / "devel01-40.7z", {"devel01/x.txt": "devel\n"})
    write_7z(raw / "valid_all_files_combined.7z", {"valid01/x.txt": "valid\n"})
    write_zip(raw / "sample_code_mmrgc.zip", {"code/main.m": "% Matlab\n"})
    return {
        name: pd.DataFrame({"Sequence": list(known.values())}, pd.Index([f"{k:04d}" for k in known], name="Id"))
        for name, known in guesses.items()
    }


def _text(gestures: np.ndarray) -> str:
    return " ".join(str(gesture + 1) for gesture in gestures)


def _sound(rng: np.random.Generator, words: list[np.ndarray], starts: np.ndarray, seconds: float) -> np.ndarray:
    sound = rng.uniform(0.15, 0.5) * coloured_noise(rng, (int(seconds * RATE),), 0.8)
    pitch, tract = rng.uniform(90, 230), rng.uniform(0.85, 1.15)
    for word, start in zip(words, starts, strict=True):
        spoken = speech(rng, word * tract, pitch, WORD, RATE)
        sound[int(start * RATE) :][: len(spoken)] += spoken
    return sound


def _sample(raw: Path, rng: np.random.Generator, name: str, sound: np.ndarray, spots, starts, labels: list) -> bytes:
    """Return a sample's archive: sound, three videos, and a Matlab file with the skeleton and the gestures."""
    times = np.arange(int(len(sound) / RATE * FPS)) / FPS
    near = np.exp(-0.5 * ((times[:, None] - starts - WORD / 2) / 0.12) ** 2)
    hand = (near @ spots) + rng.normal(0, 0.05, (len(times), 2))
    joints = np.repeat(rng.normal(0, 0.3, (1, 20, 3)), len(times), axis=0)
    joints[:, HAND, :2] = hand
    frames = np.zeros(len(times), [("Skeleton", object)])
    for k, places in enumerate(joints):
        frames["Skeleton"][k] = {"WorldPosition": places.round(4)}
    gestures = np.array(labels, dtype=[("Name", object), ("Begin", object), ("End", object)])
    video = {"NumFrames": len(times), "FrameRate": FPS, "MaxDepth": 4000, "Frames": frames, "Labels": gestures}
    file = io.BytesIO()
    savemat(file, {"Video": video}, do_compression=True)
    y, x = ((hand * 0.35 + 0.5) * FACES).clip(0, 23).astype(int).T
    user = np.zeros((len(times), *FACES), np.uint8)
    user[:, 8:, 12:20] = 200
    color, depth = user // 2 + 60, user // 4 + 100
    for k in range(len(times)):
        color[k, y[k] : y[k] + 3, x[k] : x[k] + 3] = 250
    members = {f"{name}_{kind}.mp4": mp4(list(pictures), FPS)
               for kind, pictures in (("color", color), ("depth", depth), ("user", user))}  # fmt: skip
    members[f"{name}_audio.wav"] = wav(np.clip(3000 * sound, -32768, 32767), RATE)
    members[f"{name}_data.mat"] = b"MATLAB 5.0 MAT-file".ljust(116) + file.getvalue()[116:]
    path = raw / "sample.zip"
    write_zip(path, members)
    content = path.read_bytes()
    path.unlink()
    return content
