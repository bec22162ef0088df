import io
import zipfile
from pathlib import Path

import numpy as np
from scipy.io import loadmat, savemat

from pytest_mlebench.authoring.archives import TarWriter, ZipWriter, open_tar, tar_members

from .. import prepare as first

HEADER = b"MATLAB 5.0 MAT-file"


def prepare(raw: Path, public: Path, private: Path) -> None:
    first.prepare(raw, public, private)
    test = public / "test.tar.gz"
    test.unlink()
    sample = public.parent / "sample.zip"
    with open_tar(raw / "training4.tar.gz") as old, TarWriter(test, gzipped=True) as new:
        for name, _, file in tar_members(old):
            if not name.endswith(".zip"):
                new.write(name, file.read())
                continue
            _rewrite(io.BytesIO(file.read()), sample)
            new.write(name, sample)
            sample.unlink()


def _rewrite(old: io.BytesIO, new: Path) -> None:
    with zipfile.ZipFile(old) as source, ZipWriter(new) as target:
        for name in source.namelist():
            content = source.read(name)
            target.write(name, without_labels(content) if name.endswith(".mat") else content)


def without_labels(content: bytes) -> bytes:
    """Return the Matlab file with an empty field ``Labels`` in ``Video``, and without a date in its header."""
    video = loadmat(io.BytesIO(content))["Video"]
    for row in video.flat:
        row["Labels"] = np.empty((0, 0))
    file = io.BytesIO()
    savemat(file, {"Video": video}, do_compression=True)
    return HEADER.ljust(116) + file.getvalue()[116:]
