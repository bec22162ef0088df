"""``python tools/dependency_sizes.py`` prints the disk usage of an installation by distribution.

Run it in a new environment. Sizes are in megabytes, largest first, each with the packages that require it. Extras are
left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

PROJECT = "pytest-mlebench"


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def required(name: str) -> Iterator[str]:
    """Requirements of a distribution without its extras."""
    for line in distribution(name).requires or ():
        if "extra ==" not in line:
            yield normalised(re.split(r"[^\w.-]", line)[0])


def installed(names: Iterable[str]) -> dict[str, set[str]]:
    """All installed dependencies of these distributions, each with the distributions that require it."""
    asked: dict[str, set[str]] = {}
    todo = [(name, PROJECT) for name in names]
    while todo:
        name, by = todo.pop()
        is_new = name not in asked
        asked.setdefault(name, set()).add(by)
        if is_new:
            try:
                todo += [(other, name) for other in required(name)]
            except PackageNotFoundError:  # for another platform, or not installed
                del asked[name]
    return asked


def megabytes(found: Distribution) -> float:
    """The size of a distribution's files, without bytecode (``.pyc``)."""
    paths = [Path(path.locate()) for path in found.files or () if path.suffix != ".pyc"]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def sizes() -> list[tuple[float, str, set[str]]]:
    """Size in megabytes, name and dependents of all distributions that the project installs, largest first."""
    asked = installed(required(PROJECT))
    return sorted(((megabytes(distribution(name)), name, by) for name, by in asked.items()), reverse=True)


def main() -> None:
    rows = sizes()
    for size, name, by in rows:
        print(f"{size:8.1f} MB  {name:<24}{', '.join(sorted(by))}")
    print(f"{sum(size for size, *_ in rows):8.1f} MB  total")


if __name__ == "__main__":
    main()
