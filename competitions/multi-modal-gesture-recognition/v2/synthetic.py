import io
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.io import savemat

from pytest_mlebench.authoring.archives import ZipWriter, open_tar, tar_members, write_tar_gz

from .. import synthetic as first
from ..synthetic import submissions as submissions

HEADER = b"MATLAB 5.0 MAT-file"


def make(raw: Path, seed: int) -> None:
    """The samples to hold out are archives with a .mat file that lists the gestures."""
    first.make(raw, seed)
    sequences = pd.read_csv(raw / "training.csv", dtype=str).set_index("Id")["Sequence"]
    path = raw / "training4.tar.gz"
    with open_tar(path) as archive:
        members = [(name, file.read()) for name, _, file in tar_members(archive)]
    changed = [(name, _sample(raw, name, sequences) if name.endswith(".zip") else content) for name, content in members]
    path.unlink()
    write_tar_gz(path, changed)


def _sample(raw: Path, name: str, sequences: "pd.Series[str]") -> bytes:
    stem = name.removesuffix(".zip")
    names = [f"gesture{number}" for number in sequences[stem[-4:]].split()]
    labels = np.array([(text, 10 * k, 10 * k + 9) for k, text in enumerate(names)],
                      dtype=[("Name", object), ("Begin", object), ("End", object)])  # fmt: skip
    file = io.BytesIO()
    savemat(file, {"Video": {"NumFrames": 10 * len(names), "FrameRate": 20, "Labels": labels}})
    path = raw / "sample.zip"
    with ZipWriter(path) as archive:
        archive.write(f"{stem}_audio.wav", stem.encode())
        archive.write(f"{stem}_data.mat", HEADER.ljust(116) + file.getvalue()[116:])
    content = path.read_bytes()
    path.unlink()
    return content
