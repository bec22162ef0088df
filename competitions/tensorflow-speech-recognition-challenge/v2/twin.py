from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from .. import twin as first
from .labels import COMMANDS, SILENCE, UNKNOWN
from .prepare import prepare


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    """Let prepare.py choose and rename the test clips, and identify these by their contents."""
    clips = first.write_clips(raw, rng, size).set_index("content")
    with TemporaryDirectory(dir=raw.parent) as scratch:
        folders = Path(scratch, "public"), Path(scratch, "private")
        for folder in folders:
            folder.mkdir()
        prepare(raw, *folders)
        test = {path.name: path.read_bytes() for path in sorted((folders[0] / "test/audio").iterdir())}
    heard = clips.where(clips.isin(COMMANDS), UNKNOWN).reindex(list(test.values())).fillna(SILENCE)
    heard.index = pd.Index(list(test), name="fname")
    return {name: heard[[name]].set_axis(["label"], axis=1) for name in heard}
