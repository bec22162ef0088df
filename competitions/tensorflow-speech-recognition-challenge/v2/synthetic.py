from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_7z
from pytest_mlebench.authoring.synthetic import first_value, standard, wav

from ..synthetic import NOISES
from .labels import COMMANDS, LABELS

WORDS = [*COMMANDS, "bed", "bird", "happy", "one", "wow", "zero"]
CLIPS = 504  # with this number, version 1 holds out one clip of background noise
RATE = 8  # frames per second


def make(raw: Path, seed: int) -> None:
    """Each clip begins with two frames that identify the speaker."""
    rng = np.random.default_rng(seed)
    speakers = [rng.bytes(4).hex() for _ in range(40)]
    takes = [(word, speaker, take) for word in WORDS for speaker in range(len(speakers)) for take in range(2)]
    members: dict[str, bytes | str | Path] = {}
    for k in np.sort(rng.choice(len(takes), CLIPS - len(NOISES), replace=False)):
        word, speaker, take = takes[k]
        frames = [speaker, -speaker, *rng.integers(-3000, 3000, RATE - 2 - rng.integers(0, 2))]
        members[f"train/audio/{word}/{speakers[speaker]}_nohash_{take}.wav"] = wav(np.array(frames), RATE)
    for name in NOISES:
        noise = rng.integers(-3000, 3000, 20 * RATE)
        members[f"train/audio/_background_noise_/{name}.wav"] = wav(noise, RATE)
    members["train/audio/_background_noise_/README.md"] = "Some noise.\n"
    write_7z(raw / "train.7z", members)
    write_7z(raw / "test.7z", {"test/audio/clip_000044442.wav": wav(np.zeros(RATE), RATE)})
    (raw / "sample_submission.csv").write_text("fname,label\nclip_000044442.wav,silence\n")


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    n, truth = len(answers), answers["label"]
    noisy = answers.assign(label=np.where(rng.random(n) < 0.4, rng.choice(LABELS, n), truth))
    names, labels = noisy["fname"], noisy["label"]

    return {
        "all_unknown": answers.assign(label="unknown"),
        "other_case": noisy.assign(label=labels.str.upper()),
        "padded": noisy.assign(label=labels + " "),
        "columns_swapped": noisy[["label", "fname"]],
        "extra_column": noisy.assign(score=0.5),
        **first_value(noisy, "label", one_na_word="NA", one_empty=None, one_number=7, another_word="happy"),
        "empty_column": answers.assign(label=None),
        "bare_names": noisy.assign(fname=names.str.removesuffix(".wav")),
        **standard(noisy, "fname", "clip_99999999.wav", "label", "missing_column renamed_column"),
    }
