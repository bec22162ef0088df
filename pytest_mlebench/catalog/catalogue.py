"""Which competitions there are, and the splits they belong to."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from pytest_mlebench.catalog.competition import FILE_NAME, Competition
from pytest_mlebench.errors import UsageError

SPLITS = ("low", "medium", "high", "dev", "smoke")
BENCHMARK = ("low", "medium", "high")
"""The splits that together are ``all``, MLE-bench's 75 competitions."""
_ALIASES = {"lite": ("low",), "all": BENCHMARK} | {split: (split,) for split in SPLITS}
SPLIT_NAMES = tuple(sorted(_ALIASES))


def bundled(name: str) -> Path:
    """``competitions``, ``agents``, ``environment`` or ``reports``, which come along in a wheel as in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "bundled" / name
    return inside if inside.is_dir() else package.parent / name


def unknown(kind: str, name: str, choices: Iterable[str]) -> UsageError:
    """The error for a name that is none of the choices; lists close matches, or what there is."""
    names = sorted(choices)
    lowered = {n.lower(): n for n in names}
    close = [lowered[n] for n in difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.5)]
    close += [n for n in names if name.lower() in n.lower() and n not in close][: 3 - len(close)]
    if close:
        hint = f"did you mean {' or '.join(close)}?"
    else:
        hint = f"there are {', '.join(names[:12])}{', …' if len(names) > 12 else ''}" if names else "there is none"
    return UsageError(f"unknown {kind} {name!r}; {hint}")


class Catalogue:
    """The competitions below a folder, by id."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = {path.parent.name: path for path in sorted(folder.glob(f"*/{FILE_NAME}"))}

    def __iter__(self) -> Iterator[Competition]:
        return (self[id] for id in self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, id: str) -> Competition:
        """Raises UsageError with close matches for an unknown id."""
        if id not in self._files:
            raise unknown("competition", id, self._files)
        return _load(self._files[id])

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._files)

    def split(self, name: str) -> list[Competition]:
        """The competitions of a split (see SPLIT_NAMES), or of a file with an id a line.

        Raises UsageError for a name that is neither.
        """
        if name in _ALIASES:
            return [competition for competition in self if competition.split in _ALIASES[name]]
        path = Path(name)
        if path.is_file():
            return [self[id] for id in read_ids(path)]
        if path.suffix or path.parent != Path():
            raise UsageError(f"split file {name} does not exist")
        raise unknown("split", name, SPLIT_NAMES)


def read_ids(path: Path) -> list[str]:
    """Competition ids from a text file, one a line; empty lines and those that start with # are skipped."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not a readable list of competition ids: {error}") from error
    ids = [line.strip() for line in lines]
    return list(dict.fromkeys(id for id in ids if id and not id.startswith("#")))


def default_catalogue() -> Catalogue:
    """The bundled competitions."""
    return _catalogue(bundled("competitions"))


@cache
def _catalogue(folder: Path) -> Catalogue:
    return Catalogue(folder)


@cache
def _load(path: Path) -> Competition:
    return Competition.load(path)
