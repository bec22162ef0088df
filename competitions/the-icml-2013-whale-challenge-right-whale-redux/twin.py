from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.worlds.labels import by_size
from pytest_mlebench.authoring.worlds.media import aiff, coloured_noise, sweep

from .synthetic import DATES

RATE, FRAMES = 2000, 4000


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    train, test = by_size(size, 120, 700, 2000), by_size(size, 100, 500, 1500)
    n = train + test
    # the world: from which pitch and how far whale calls rise; other sounds fall, stay level or knock
    low, rise, seconds = rng.uniform(60, 110), rng.uniform(70, 140), rng.uniform(0.5, 0.9)
    calls = rng.choice(["up", "down", "flat", "knock", "none"], n, p=[0.3, 0.15, 0.15, 0.1, 0.3])
    whale = np.where(calls == "up", 0.93, 0.05)
    labels = (rng.random(n) < whale).astype(int)
    dates = np.where(np.arange(n) < train, rng.choice(DATES[:2], n), rng.choice(DATES[2:], n))
    names, clips = [], {}
    for k in range(n):
        clip = coloured_noise(rng, (FRAMES,), rng.uniform(0.3, 1.2))
        start, end = low + rng.normal(0, 12), low + rise * rng.uniform(0.8, 1.2)
        pulse = np.zeros(FRAMES)
        if calls[k] != "none":
            glide = {"up": (start, end), "down": (end, start), "flat": (start, start)}.get(calls[k], (60.0, 300.0))
            length = 0.06 if calls[k] == "knock" else seconds * rng.uniform(0.8, 1.2)
            call = sweep(length, RATE, *glide)
            at = rng.integers(0, FRAMES - len(call))
            pulse[at : at + len(call)] = call
        clip = clip + rng.uniform(0.7, 3) * pulse
        second, tenth = rng.integers(0, 900), rng.integers(0, 10)
        clock = rng.choice(["000000", "001500", "123000", "234500"])
        names.append(f"{dates[k]}_{clock}_{second:03d}s{tenth}ms_TRAIN{rng.integers(10**6) * n + k}_{labels[k]}.aif")
        clips[names[-1]] = aiff(np.clip(600 * rng.uniform(0.5, 2) * clip, -32768, 32767), RATE)
    write_zip(raw / "train2.zip", {"train2/": b"", **{f"train2/{name}": clips[name] for name in sorted(names)}})
    old = [f"20090404_000000_0{k}2s0ms_Test{k}.aif" for k in range(4)]
    write_zip(raw / "test2.zip", {f"test2/{name}": aiff(np.zeros(FRAMES), RATE) for name in old})
    pd.DataFrame({"clip": old, "probability": 0}).to_csv(raw / "sampleSubmission.csv", index=False)
    found = pd.DataFrame({"ceiling": whale, "simple": np.where(calls == "none", 0.05, 0.5)}, names)[train:].sort_index()
    found.index = pd.Index(
        [f"{name.partition('TRAIN')[0]}Test{k}.aif" for k, name in enumerate(found.index)], name="clip"
    )
    return {name: found[[name]].set_axis(["probability"], axis=1) for name in found}
