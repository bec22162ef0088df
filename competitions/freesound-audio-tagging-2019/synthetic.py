from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import malformed, wav

from .prepare import META

CLASSES = """Accelerating_and_revving_and_vroom Accordion Acoustic_guitar Applause Bark Bass_drum Bass_guitar
Bathtub_(filling_or_washing) Bicycle_bell Burping_and_eructation Bus Buzz Car_passing_by Cheering
Chewing_and_mastication Child_speech_and_kid_speaking Chink_and_clink Chirp_and_tweet Church_bell Clapping
Computer_keyboard Crackle Cricket Crowd Cupboard_open_or_close Cutlery_and_silverware Dishes_and_pots_and_pans
Drawer_open_or_close Drip Electric_guitar Fart Female_singing Female_speech_and_woman_speaking Fill_(with_liquid)
Finger_snapping Frying_(food) Gasp Glockenspiel Gong Gurgling Harmonica Hi-hat Hiss Keys_jangling Knock Male_singing
Male_speech_and_man_speaking Marimba_and_xylophone Mechanical_fan Meow Microwave_oven Motorcycle Printer Purr
Race_car_and_auto_racing Raindrop Run Scissors Screaming Shatter Sigh Sink_(filling_or_washing) Skateboard Slam Sneeze
Squeak Stream Strum Tap Tick-tock Toilet_flush Traffic_noise_and_roadway_noise Trickle_and_dribble Walk_and_footsteps
Water_tap_and_faucet Waves_and_surf Whispering Writing Yell Zipper_(clothing)""".split()


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    clips = _names(rng, 78)
    curated, noisy, private, public = clips[:20], clips[20:40], clips[40:68], clips[68:]
    for name, part in (("train_curated", curated), ("train_noisy", noisy)):
        labels = pd.DataFrame({"fname": sorted(part), "labels": _labels(rng, len(part))})
        labels.to_csv(raw / f"{name}.csv", index=False)
    for name, part in (("train_curated", curated), ("train_noisy", noisy), ("test", private)):
        (raw / name).mkdir()
        for clip in part:
            (raw / name / clip).write_bytes(wav(rng.integers(-9999, 9999, 4), rate=44100))
    (raw / "notes" / "deeper").mkdir(parents=True)
    (raw / "notes" / "deeper" / "read.me").write_text("folders are copied whole\n")
    sample = pd.DataFrame(0, index=pd.Index(sorted(private), name="fname"), columns=CLASSES)
    sample.to_csv(raw / "sample_submission.csv")
    usage = ["Private"] * len(private) + ["Public"] * len(public)
    published = pd.DataFrame({"fname": private + public, "labels": _labels(rng, 38), "usage": usage})
    published = published.sample(frac=1, random_state=seed)
    published.iloc[0, 1] = "Female_singing,Yell,Not_a_class"  # one is outside the vocabulary
    members = {
        "test_post_competition.csv": published.to_csv(index=False),
        "train_curated_post_competition.csv": "fname,labels,freesound_id,license\n",
        "train_noisy_post_competition.csv": "fname,labels,flickr_video_URL,license\n",
    }
    write_zip(raw / f"{META}.zip", {f"{META}/{name}": content for name, content in members.items()})


def _names(rng: np.random.Generator, count: int) -> list[str]:
    names: dict[str, None] = {}
    while len(names) < count:
        names["".join(rng.choice(list("0123456789abcdef"), 8)) + ".wav"] = None
    return list(names)


def _labels(rng: np.random.Generator, count: int) -> list[str]:
    numbers = (rng.choice([1, 2, 3, 5], p=[0.7, 0.15, 0.1, 0.05]) for _ in range(count))
    return [",".join(rng.choice(CLASSES, number, replace=False)) for number in numbers]


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    truth = answers[CLASSES].to_numpy()
    shape = truth.shape

    def table(scores: np.ndarray) -> pd.DataFrame:
        return answers[["fname"]].join(pd.DataFrame(scores, columns=CLASSES))

    noisy = table(np.round(np.clip(rng.random(shape) * 0.8 + truth * rng.random(shape) * 0.6, 0, 1), 3))
    scores = noisy[CLASSES].to_numpy()
    steps = np.round(scores * 3).astype(int)
    ties = table(steps)

    def third_bark(value: object) -> pd.DataFrame:
        return noisy.assign(Bark=[*noisy["Bark"][:2], value, *noisy["Bark"][3:]])

    return {
        "noisy": noisy,
        "noisy_shuffled": noisy.sample(frac=1, random_state=0),
        "ties": ties,
        "hard_and_wrong": table(((truth + (rng.random(shape) < 0.02)) > 0).astype(int)),
        "inverted": table(1 - truth),
        "all_ones": table(np.ones(shape, int)),
        "outside_0_1": table(np.round((steps - 1) * 1e6 + scores, 3)),
        "booleans": table(steps > 1),
        "text": third_bark("x"),
        "column_order": ties[["fname", *CLASSES[::-1]]],
        "fname_last": ties[[*CLASSES, "fname"]],
        "extra_column": ties.assign(extra=0),
        **malformed(
            ties, "fname", "00000000.wav", "Yell", "missing_column nan_prediction infinite", without="header_only"
        ),
    }
