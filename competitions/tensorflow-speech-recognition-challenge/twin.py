from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_7z
from pytest_mlebench.authoring.synthetic import wav
from pytest_mlebench.authoring.tables import split
from pytest_mlebench.authoring.worlds.labels import by_size, random_names
from pytest_mlebench.authoring.worlds.media import coloured_noise, speech

from .synthetic import NOISES

COMMANDS = ["yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"]
OTHERS = ["bed", "happy", "three", "wow"]
RATE, SECONDS = 16000, 0.35  # the real clips last a second: three times as many bytes


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    clips = write_clips(raw, rng, size).drop(columns="content")
    order = sorted(clips.index, key=lambda path: path.replace("/", "_"))
    _, test = split(order, test_size=0.1)
    names = pd.Index([f"clip_{k:08d}.wav" for k in range(len(test))], name="fname")
    return {name: clips.loc[test, [name]].set_axis(names).set_axis(["label"], axis=1) for name in clips}


def write_clips(raw: Path, rng: np.random.Generator, size: str) -> pd.DataFrame:
    """Write the archive; returns, by path, each clip's content, and the words that a rough and a good listener hear."""
    n, speakers = by_size(size, 500, 1150, 3000), by_size(size, 40, 70, 150)
    # the world: seven sounds, and words of three of them. Words form pairs with the same sounds in opposite order
    sounds = np.sort(np.column_stack([rng.permutation(np.linspace(300, 900, 7)), rng.uniform(1000, 3000, 7)]))
    words = rng.permutation([*COMMANDS, *OTHERS])
    halves = {tuple(sorted(rng.choice(7, 3, replace=False))): None for _ in range(100)}
    orders = [order for sounds in list(halves)[: len(words) // 2] for order in (sounds, sounds[::-1])]
    voices = [(name, rng.uniform(90, 240), rng.uniform(0.92, 1.1)) for name in random_names(rng, speakers, 8)]

    rows, takes = {}, {}
    for _ in range(n):
        k = int(rng.integers(len(words)))
        name, pitch, tract = voices[rng.integers(len(voices))]
        clip = speech(rng, sounds[list(orders[k])] * tract * rng.uniform(0.97, 1.03), pitch, SECONDS, RATE)
        clip = np.roll(clip, rng.integers(-500, 500)) + rng.uniform(0.2, 1.0) * coloured_noise(rng, clip.shape, 0.5)
        given = words[rng.integers(len(words))] if rng.random() < 0.06 else words[k]
        take = takes[given, name] = takes.get((given, name), -1) + 1
        content = wav(np.clip(1500 * rng.uniform(0.5, 2) * clip, -32768, 32767), RATE)
        rows[f"{given}/{name}_nohash_{take}.wav"] = (content, words[k - k % 2 + rng.integers(2)], words[k])
    noise = "_background_noise_"
    for name in NOISES:
        content = wav(1000 * coloured_noise(rng, (by_size(size, 1, 2, 5) * RATE,), rng.uniform(0, 1.5)), RATE)
        rows[f"{noise}/{name}.wav"] = (content, noise, noise)
    members = {f"train/audio/{path}": content for path, (content, *_) in sorted(rows.items())}
    write_7z(raw / "train.7z", {**members, "train/README.md": "Words.\n"})
    write_7z(raw / "test.7z", {"test/audio/clip_000044442.wav": wav(np.zeros(RATE), RATE)})
    (raw / "sample_submission.csv").write_text("fname,label\nclip_000044442.wav,silence\n")
    return pd.DataFrame.from_dict(rows, orient="index", columns=["content", "simple", "ceiling"])
