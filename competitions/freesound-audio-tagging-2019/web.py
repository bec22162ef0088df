"""Download files that are not on Kaggle."""

from __future__ import annotations

import shutil
import urllib.request
from pathlib import Path

from pytest_mlebench.errors import DataError

_TIMEOUT = 60.0


def download(url: str, target: Path) -> None:
    """Download to ``target``, which exists only when it is complete. Raises DataError with the URL."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    request = urllib.request.Request(url, headers={"User-Agent": "pytest-mlebench"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response, part.open("wb") as file:
            shutil.copyfileobj(response, file, 1 << 20)
        size = response.headers.get("Content-Length")
        if size is not None and part.stat().st_size != int(size):
            raise DataError(f"{url} broke off after {part.stat().st_size:,} of {int(size):,} bytes; try again")
        part.rename(target)
    except OSError as error:
        raise DataError(f"{url} cannot be downloaded ({error}); put the file into the raw data by hand") from error
    finally:
        part.unlink(missing_ok=True)
