"""Copies the sample submission, plain or zipped, to where a submission belongs."""

import os
import re
import shutil
import zipfile
from pathlib import Path

DATA = Path(os.environ.get("DATA_DIR", "/home/data"))
TARGET = Path(os.environ.get("SUBMISSION_DIR", "/home/submission")) / "submission.csv"
# By name, the likeliest first.
PATTERNS = (r"sample.*submission.*\.csv$", r"submission.*\.csv$", r"random.?predictions.*\.csv$")


def main() -> None:
    files = sorted(path for path in DATA.rglob("*") if path.suffix.lower() in (".csv", ".zip"))
    for pattern in PATTERNS:
        for path in files:
            if re.search(pattern, path.name, re.IGNORECASE):
                shutil.copyfile(path, TARGET)
                print(f"{TARGET} is a copy of {path}")
                return
    for pattern in PATTERNS:
        for path in files:
            if path.suffix.lower() == ".zip" and _unpack(path, pattern):
                return
    print(f"there is no sample submission in {DATA}")


def _unpack(path: Path, pattern: str) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if re.search(pattern, name, re.IGNORECASE) and not name.startswith("__MACOSX"):
                    with archive.open(name) as source, TARGET.open("wb") as target:
                        shutil.copyfileobj(source, target)
                    print(f"{TARGET} is a copy of {name} in {path}")
                    return True
    except (OSError, zipfile.BadZipFile) as error:
        print(f"{path} cannot be read: {error}")
    return False


if __name__ == "__main__":
    main()
