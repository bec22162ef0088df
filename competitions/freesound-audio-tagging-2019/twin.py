from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import wav
from pytest_mlebench.authoring.worlds.labels import by_size, random_names
from pytest_mlebench.authoring.worlds.media import tone

from .prepare import META
from .synthetic import CLASSES

RATE = 44100
COUNTS = {"curated": (30, 140, 700), "noisy": (10, 60, 500), "private": (20, 80, 300), "public": (4, 10, 50)}
FOLDERS = {"curated": "train_curated", "noisy": "train_noisy", "private": "test"}


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    counts = {part: by_size(size, *n) for part, n in COUNTS.items()}
    # the world: which classes occur, and how each sounds
    active = rng.choice(len(CLASSES), by_size(size, 5, 12, 30), replace=False)
    voices = [
        (
            rng.uniform(120, 900),
            rng.dirichlet(np.full(8, 0.4)) + 1e-3,
            rng.uniform(1.5, 12),
            rng.choice([0.1, 0.3, 0.8]),
        )
        for _ in active
    ]
    clips = [f"{name}.wav" for name in random_names(rng, sum(counts.values()), 8)]
    parts = dict(zip(counts, np.split(np.array(clips), np.cumsum(list(counts.values()))[:-1]), strict=True))
    tables, guesses = {}, {"simple": [], "ceiling": []}
    for part, files in parts.items():
        labels = []
        for file in files:
            heard = rng.choice(len(active), rng.choice([1, 2], p=[0.75, 0.25]), replace=False)
            seconds = rng.uniform(0.3, 0.7)
            clip = sum(rng.uniform(0.6, 1) * _voice(rng, seconds, *voices[k]) for k in heard)
            clip = clip / clip.std() + rng.uniform(0.2, 0.8) * rng.normal(size=len(clip))
            if part != "public":
                (raw / FOLDERS[part]).mkdir(exist_ok=True)
                loud = np.clip(2500 * rng.uniform(0.4, 2) * clip, -32767, 32767)
                (raw / FOLDERS[part] / file).write_bytes(wav(loud, rate=RATE))
            wrong = rng.random() < (0.4 if part == "noisy" else 0.08)
            given = rng.choice(len(active), len(heard), replace=False) if wrong else heard
            labels.append(",".join(CLASSES[k] for k in sorted(active[given])))
            if part == "private":
                chances = np.zeros(len(CLASSES))
                chances[active] = 0.08 / len(active)
                chances[active[heard]] = 0.92
                guesses["ceiling"].append([file, *chances])
                alike = rng.choice(active, 2)  # heard by mistake; a second class is missed
                guesses["simple"].append(
                    [file, *(np.isin(np.arange(len(CLASSES)), [active[heard[0]], *alike]) + chances / 9)]
                )
        tables[part] = pd.DataFrame({"fname": files, "labels": labels})
    for part in ("curated", "noisy"):
        tables[part].sort_values("fname").to_csv(raw / f"train_{part}.csv", index=False)
    sample = pd.DataFrame(0, index=pd.Index(sorted(parts["private"]), name="fname"), columns=CLASSES)
    sample.to_csv(raw / "sample_submission.csv")
    published = pd.concat([tables["private"].assign(usage="Private"), tables["public"].assign(usage="Public")])
    published = published.sample(frac=1, random_state=int(rng.integers(2**31)))
    members = {f"{META}/test_post_competition.csv": published.to_csv(index=False)}
    for part, columns in (("curated", "freesound_id,license"), ("noisy", "flickr_video_URL,license")):
        members[f"{META}/train_{part}_post_competition.csv"] = f"fname,labels,{columns}\n"
    write_zip(raw / f"{META}.zip", members)
    return {name: pd.DataFrame(rows, columns=["fname", *CLASSES]).set_index("fname") for name, rows in guesses.items()}


def _voice(rng: np.random.Generator, seconds: float, pitch: float, overtones: np.ndarray, pulse: float, hiss: float):
    """Return a sound of a class, slightly different each time."""
    varied = overtones * rng.uniform(0.6, 1.4, len(overtones))
    return tone(rng, seconds, RATE, pitch * rng.uniform(0.94, 1.06), varied, pulse * rng.uniform(0.8, 1.25), hiss)
