"""Data at a URL as the data store asks for it (see ``data.preparing``)."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import cast

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import SIDES, Dataset
from pytest_mlebench.data.preparing import Head
from pytest_mlebench.extras.remote_data import index
from pytest_mlebench.extras.remote_data.pull import pull, read_head
from pytest_mlebench.extras.remote_data.push import push
from pytest_mlebench.extras.remote_data.storage import Storage
from pytest_mlebench.io.progress import Reporter


class RemoteSource(Storage):
    """The objects below a URL, with what can be done with prepared data there."""

    def head(self, competition: Competition, reporter: Reporter) -> index.IndexHead:
        return read_head(self, competition, reporter)

    def bytes_there(self, work: Path) -> int:
        return sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(work) for name in names)  # noqa: PTH118

    def pull(
        self,
        competition: Competition,
        head: Head,
        work: Path,
        reporter: Reporter,
        only: Collection[str] = SIDES,
    ) -> Path:
        return pull(self, competition, cast("index.IndexHead", head), work, reporter, only)

    def push(self, dataset: Dataset, *, replace: bool, reporter: Reporter) -> int:
        return push(self, dataset, replace=replace, reporter=reporter)
