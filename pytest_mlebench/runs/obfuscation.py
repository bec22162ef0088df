"""Data as an agent sees it that must not find out which competition it works on.

The public files keep their names and contents. Around them nothing names the competition: an agent reads another
description, and finds the files below a path that says nothing, as the paths of mounts can be read in a container.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.levelling import keep_level, level_file
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.processes import dead_folders, owned
from pytest_mlebench.sandbox.local.home import link_tree

NAME = "competition"
"""What an obfuscated competition is called."""
_FOLDER = ".shown-"
_KEPT = ".kept-"


@contextmanager
def obfuscated_data(dataset: Dataset, *, keep: bool) -> Iterator[Path]:
    """A folder with the public files, hard-linked where possible, and the obfuscated description.

    It lies in the data folder, and is removed afterwards unless ``keep``. Raises SandboxError where it cannot be made,
    CompetitionError where there is no such description.
    """
    text = dataset.competition.obfuscated_description.read_text(encoding="utf-8")
    store = dataset.folder.parent
    for dead in dead_folders(_FOLDER, [store]):
        shutil.rmtree(dead, ignore_errors=True)
    try:
        folder = Path(tempfile.mkdtemp(prefix=_KEPT if keep else owned(_FOLDER), dir=store)).absolute()
    except OSError as error:
        raise SandboxError(
            f"data folder {store} cannot be written, which --description=obfuscated needs: {error.strerror}"
        ) from error
    try:
        try:
            link_tree(dataset.public, folder)
            (folder / "description.md").unlink(missing_ok=True)
            (folder / "description.md").write_text(text, encoding="utf-8")
        except OSError as error:
            raise SandboxError(f"the public files cannot be linked below {folder}: {error.strerror}") from error
        for path in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
            path.chmod(0o755)
        level_file(folder / "description.md")
        keep_level(folder)
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
