from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from pytest_mlebench.authoring.archives import unpack_7z
from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    with TemporaryDirectory(dir=public.parent) as scratch:
        unpack_7z(raw / "train.7z", Path(scratch))
        audio = Path(scratch, "train", "audio")
        clips = sorted(audio.rglob("*.wav"), key=lambda clip: f"{clip.parent.name}_{clip.name}")
        train, test = split([clip.relative_to(audio).as_posix() for clip in clips], test_size=0.1)
        link_files(train, audio, public / "train" / "audio")
        names = [f"clip_{number:08d}.wav" for number in range(len(test))]
        link_files(dict(zip(test, names, strict=True)), audio, public / "test" / "audio")
    answers = pd.DataFrame({"fname": names, "label": [clip.split("/")[-2] for clip in test]})
    write_csv(answers, private / "test.csv")
    write_csv(answers.assign(label="silence"), public / "sample_submission.csv")
