from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_7z
from pytest_mlebench.authoring.synthetic import first_value, standard, wav

WORDS = ["yes", "no", "up", "on", "one", "off", "go", "stop", "bed", "bird", "wow", "zero", "happy"]
COMMANDS = ["yes", "no", "up", "on", "off", "go", "stop"]
NOISES = ["doing_the_dishes", "dude_miaowing", "exercise_bike", "pink_noise", "running_tap", "white_noise"]
CLIPS = 225  # with this number, one clip of background noise is held out


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # speakers say several words, some of them twice: equal file names in different folders
    names = [f"{rng.bytes(4).hex()}_nohash_{number}.wav" for _ in range(30) for number in range(2)]
    counts = rng.integers(12, 20, len(WORDS))
    counts[-1] = CLIPS - len(NOISES) - counts[:-1].sum()
    members: dict[str, bytes | str | Path] = {}
    for word, count in zip(WORDS, counts, strict=True):
        for name in rng.choice(names, count, replace=False):
            members[f"train/audio/{word}/{name}"] = _clip(rng, int(rng.integers(4, 9)))
    for name in NOISES:
        members[f"train/audio/_background_noise_/{name}.wav"] = _clip(rng, 30)
    members["train/audio/_background_noise_/README.md"] = "Some noise.\n"
    members["train/README.md"] = "Words.\n"
    members["train/testing_list.txt"] = "".join(f"bed/{name}\n" for name in names[:3])
    write_7z(raw / "train.7z", members)
    write_7z(raw / "test.7z", {"test/audio/clip_000044442.wav": _clip(rng, 4)})
    (raw / "sample_submission.csv").write_text("fname,label\nclip_000044442.wav,silence\n")


def _clip(rng: np.random.Generator, frames: int) -> bytes:
    return wav(rng.integers(-3000, 3000, frames))


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    n, truth = len(answers), answers["label"]
    noisy = answers.assign(label=np.where(rng.random(n) < 0.4, rng.choice(WORDS, n), truth))
    names, labels = noisy["fname"], noisy["label"]

    return {
        "twelve_labels": answers.assign(label=truth.where(truth.isin(COMMANDS), "unknown")),
        "all_unknown": answers.assign(label="unknown"),
        "other_case": noisy.assign(label=labels.str.upper()),
        "padded": noisy.assign(label=labels + " "),
        "columns_swapped": noisy[["label", "fname"]],
        "extra_column": noisy.assign(score=0.5),
        **first_value(noisy, "label", one_na_word="NA", one_empty=None, one_number=7),
        "empty_column": answers.assign(label=None),
        "numbers": answers.assign(label=3),
        "bare_names": noisy.assign(fname=names.str.removesuffix(".wav")),
        "renamed_column": noisy.rename(columns={"fname": "file"}),
        **standard(noisy, "fname", "clip_99999999.wav", "label", "missing_column"),
    }
