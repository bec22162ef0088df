"""Where competitions' archives come from, as a contract that the store works with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pytest_mlebench.catalog import Competition
from pytest_mlebench.errors import DataError

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are there so far, and the bytes in all where that is known."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large a competition's raw data is, in bytes."""

    download: int
    """The archive."""
    unpacked: int
    """The files in it."""


class Downloads(Protocol):
    """Where competitions' archives come from."""

    def check(self, competitions: Sequence[Competition], *, skip_denied: bool = False) -> dict[str, DataError]:
        """See that these may be downloaded: credentials, and acceptance of every competition's rules.

        Raises DataError that lists all that the user can mend, with links. Returns, by id, why others cannot be had
        whatever the user does, as they are no longer there: that need not stop the rest. With ``skip_denied`` those
        are among them whose rules are not accepted.
        """
        ...

    def size(self, competition: Competition) -> Size:
        """How large the raw data is. Raises DataError."""
        ...

    def download(self, competition: Competition, target: Path, progress: Progress) -> None:
        """Bring the archive to ``target``, verified; a partial download beside it (``target`` + ".part") is resumed.

        Raises DataError. What is there of the archive is kept then, or, if it is damaged, as ``target`` + ".damaged".
        All files beside it have names that begin with ``target``'s.
        """

    def description(self, competition: Competition) -> str:
        """The competition's own pages, as Markdown. Raises DataError."""
        ...

    def leaderboard(self, competition: Competition) -> list[float]:
        """The final scores of all teams on the private leaderboard. Raises DataError."""
        ...
