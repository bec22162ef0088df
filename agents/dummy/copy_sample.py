"""Copies the sample submission, which may be in an archive, to the submission folder."""

import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

DATA = Path(os.environ.get("DATA_DIR", "/home/data"))
TARGET = Path(os.environ.get("SUBMISSION_DIR", "/home/submission")) / "submission.csv"
# Patterns for the file's name, most likely first.
PATTERNS = (r"sample.*submission.*\.csv$", r"submission.*\.csv$", r"random.?predictions.*\.csv$")
# If there is no sample: a test table in the format of a submission, such as sentences to complete.
TEST = (r"^test[^/]*\.(csv|txt)$",)
SUFFIXES = (".csv", ".txt", ".zip", ".7z")


def main() -> None:
    files = sorted(path for path in DATA.rglob("*") if path.suffix.lower() in SUFFIXES)
    for patterns in (PATTERNS, TEST):
        for pattern in patterns:
            for path in files:
                if re.search(pattern, path.name, re.IGNORECASE) and _take(path):
                    return
        for pattern in patterns:
            for path in files:
                if path.suffix.lower() in (".zip", ".7z") and _unpack(path, pattern):
                    return
    print(f"there is no sample submission in {DATA}")


def _take(path: Path) -> bool:
    shutil.copyfile(path, TARGET)
    print(f"{TARGET} is a copy of {path}")
    return True


def _unpack(path: Path, pattern: str) -> bool:
    try:
        return _unpack_7z(path, pattern) if path.suffix.lower() == ".7z" else _unpack_zip(path, pattern)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        print(f"{path} cannot be read: {error}")
    return False


def _unpack_zip(path: Path, pattern: str) -> bool:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if re.search(pattern, name, re.IGNORECASE) and not name.startswith("__MACOSX"):
                with archive.open(name) as source, TARGET.open("wb") as target:
                    shutil.copyfileobj(source, target)
                print(f"{TARGET} is a copy of {name} in {path}")
                return True
    return False


def _unpack_7z(path: Path, pattern: str) -> bool:
    if not re.search(pattern, path.stem, re.IGNORECASE):  # unpacking all archives would take too long
        return False
    with tempfile.TemporaryDirectory() as folder:
        try:
            from py7zr import SevenZipFile
        except ImportError:
            subprocess.run(["7z", "x", "-y", f"-o{folder}", str(path)], check=False, stdout=subprocess.DEVNULL)
        else:
            with SevenZipFile(path) as archive:
                archive.extractall(folder)
        found = [file for file in sorted(Path(folder).rglob("*")) if re.search(pattern, file.name, re.IGNORECASE)]
        return any(_take(file) for file in found[:1])


if __name__ == "__main__":
    main()
