import shutil
from pathlib import Path

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    first.prepare(raw, public, private)
    shutil.rmtree(public / "old_leaky_data")
