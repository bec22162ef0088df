"""Where prepared data is pulled from and pushed to: the contract of what extras and other distributions provide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.source_url import SOURCES, redacted
from pytest_mlebench.errors import DataError
from pytest_mlebench.io.extensions import load_extension
from pytest_mlebench.io.progress import Reporter

if TYPE_CHECKING:
    from pytest_mlebench.data.download.retry import RetryPolicy


class NotPushed(DataError):
    """A source has no data of the competition."""


class Head(Protocol):
    """What a source says of a competition's data: bytes in all, and whose description it has."""

    @property
    def size(self) -> int: ...
    @property
    def description(self) -> str | None: ...


class Source(Protocol):
    """A place that holds prepared data. Methods raise DataError that names the URL without its password."""

    url: str
    """Without a user and password."""

    def head(self, competition: Competition, reporter: Reporter) -> Head:
        """What there is of a competition; raises NotPushed where there is nothing."""

    def bytes_there(self, work: Path) -> int:
        """How many bytes an earlier call of ``pull`` has left in its folder."""

    def pull(self, competition: Competition, head: Head, work: Path, reporter: Reporter) -> Path:
        """Pull all files into ``work``, and return the folder in it that has ``public`` and ``private``."""

    def push(self, dataset: Dataset, *, replace: bool, reporter: Reporter) -> int:
        """Write what is missing, and return how many files that were."""


def open_source(url: str, policy: RetryPolicy | None = None) -> Source:
    """The source of a URL; raises DataError where no installed distribution reads such URLs, UsageError for a wrong
    one. ``policy`` says how often requests are tried again."""
    scheme = url.partition("://")[0]
    create: Callable[[str, RetryPolicy | None], Source] | None = load_extension(SOURCES, scheme)
    if create is None:
        raise DataError(f"{redacted(url)}: no installed package reads data from {scheme}://")
    return create(url, policy)
