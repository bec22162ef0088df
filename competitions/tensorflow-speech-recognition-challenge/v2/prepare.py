import hashlib
import io
import wave
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from pytest_mlebench.authoring.archives import unpack_7z
from pytest_mlebench.authoring.corrections import hold_out_groups, private_generator
from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import split, write_csv

from .labels import COMMANDS, SILENCE, UNKNOWN

NOISE = "_background_noise_"


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Hold out a tenth of the speakers and a third of the recordings of noise.

    The test has as many clips of other words as of one of the ten words on average, and as many of silence. It has
    fewer of silence if the recordings of noise are too short, because clips of silence do not overlap.
    """
    with TemporaryDirectory(dir=public.parent) as scratch:
        unpack_7z(raw / "train.7z", Path(scratch))
        audio = Path(scratch, "train", "audio")
        clips = sorted(clip.relative_to(audio).as_posix() for clip in audio.rglob("*.wav"))
        words, noises = [clip for clip in clips if word(clip) != NOISE], [clip for clip in clips if word(clip) == NOISE]
        train, held_out = hold_out_groups(lambda clips: map(speaker, clips))(words, test_size=0.1)
        train_noises, test_noises = split(noises, test_size=1 / 3)
        link_files([*train, *train_noises], audio, public / "train" / "audio")

        rng = private_generator("clips")
        commands = [clip for clip in held_out if word(clip) in COMMANDS]
        others = [clip for clip in held_out if word(clip) not in COMMANDS]
        share = round(len(commands) / len(Counter(map(word, commands))))
        others = list(rng.choice(others, min(share, len(others)), replace=False))
        contents = [((audio / clip).read_bytes(), word(clip)) for clip in commands]
        contents += [((audio / clip).read_bytes(), UNKNOWN) for clip in others]
        seconds = [second for noise in test_noises for second in _seconds(audio / noise)]
        chosen = rng.choice(len(seconds), min(share, len(seconds)), replace=False)
        contents += [(seconds[k], SILENCE) for k in chosen]
    # Sort by digest, so that the order reveals nothing that the clips do not.
    contents.sort(key=lambda clip: hashlib.sha256(clip[0]).digest())
    names = [f"clip_{number:08d}.wav" for number in range(len(contents))]
    (public / "test" / "audio").mkdir(parents=True)
    for name, (content, _) in zip(names, contents, strict=True):
        (public / "test" / "audio" / name).write_bytes(content)
    answers = pd.DataFrame({"fname": names, "label": [label for _, label in contents]})
    write_csv(answers, private / "test.csv")
    write_csv(answers.assign(label=SILENCE), public / "sample_submission.csv")


def word(clip: str) -> str:
    return clip.split("/")[-2]


def speaker(clip: str) -> str:
    return clip.split("/")[-1].split("_nohash_")[0]


def _seconds(recording: Path) -> Iterator[bytes]:
    """Yield each full second of a recording as a WAV file."""
    with wave.open(str(recording)) as noise:
        form, rate = noise.getparams(), noise.getframerate()
        for _ in range(noise.getnframes() // rate):
            file = io.BytesIO()
            with wave.open(file, "wb") as piece:
                piece.setparams(form)
                piece.writeframes(noise.readframes(rate))
            yield file.getvalue()
