"""Submits the sample submission. Replace ``main``, but keep the folders."""

import os
import shutil
from pathlib import Path

DATA = Path(os.environ.get("DATA_DIR", "/home/data"))  # description.md and the public files, read-only
SUBMISSION = Path(os.environ.get("SUBMISSION_DIR", "/home/submission")) / "submission.csv"
CODE = Path(os.environ.get("CODE_DIR", "/home/code"))
LOGS = Path(os.environ.get("LOGS_DIR", "/home/logs"))


def main() -> None:
    print((DATA / "description.md").read_text())
    sample = next(path for path in sorted(DATA.rglob("*.csv")) if "sample" in path.name.lower())
    shutil.copyfile(sample, SUBMISSION)


if __name__ == "__main__":
    main()
