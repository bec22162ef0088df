"""Checks the format of a submission in a task's container, from public data alone: ``check.py FILE``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.errors import InvalidSubmission, MLEBenchError
from pytest_mlebench.grading.scorer import Form

DATA = Path("/home/data")


def main(file: str, folder: Path = Path(__file__).parent, data: Path = DATA) -> int:
    """Print the verdict. Returns 0 if the submission is well formed, 1 if not, and 2 if it cannot be checked."""
    task = json.loads((folder / "checker.json").read_bytes())
    competition = Competition.bare(
        folder / task["competition_id"],
        id=task["competition_id"],
        version=task["bench_version"],
        sample_submission=task["sample_submission"],
    )
    try:
        Form(competition, data, max_bytes=task["max_submission_bytes"]).check(Path(file))
    except InvalidSubmission as error:
        print(f"Submission invalid! {error}")
        return 1
    except MLEBenchError as error:
        print(f"The file cannot be checked: {error}")
        return 2
    print("Submission is valid.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
