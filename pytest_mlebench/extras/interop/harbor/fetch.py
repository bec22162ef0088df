"""When a task runs, pulls data that ``mlebench push`` uploaded: ``fetch.py JSON FOLDER``.

This program is in a task's images. ``$MLEBENCH_DATA_SOURCE`` is the URL. JSON names the data to pull, and the digest
of all of it, so that nobody can replace it after the export.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.data.preparing import VARIABLE, open_source
from pytest_mlebench.errors import DataError, MLEBenchError
from pytest_mlebench.io.progress import silent


def main(wanted: dict[str, Any], folder: Path) -> int:
    """Fill the folder. If that fails, prints the reason and returns 1."""
    try:
        with tempfile.TemporaryDirectory() as name:
            # The source needs this to find the data.
            if wanted["corrected"]:
                Path(name, wanted["bench_version"]).mkdir()
            competition = Competition.bare(Path(name), id=wanted["competition_id"], version=wanted["bench_version"])
            source = open_source(os.environ.get(VARIABLE, ""))
            head = source.head(competition, silent)
            if head.digest != wanted["digest"]:
                raise DataError(
                    f"{competition.id}: {source.url} has other data than when the task was exported: export it again"
                )
            work = folder / ".pulling"
            prepared = source.pull(competition, head, work, silent, wanted["only"])
    except MLEBenchError as error:
        print(error, file=sys.stderr)
        return 1
    for entry in (prepared / wanted["show"]).iterdir():
        entry.rename(folder / entry.name)
    shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), Path(sys.argv[2])))
