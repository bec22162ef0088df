"""The data store's source for data at a URL (see ``data.preparing``)."""

from __future__ import annotations

from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.extras.remote_data.pull import PullSource
from pytest_mlebench.extras.remote_data.push import push
from pytest_mlebench.io.progress import Reporter


class RemoteSource(PullSource):
    """A source to which prepared data can also be pushed."""

    def push(self, dataset: Dataset, *, replace: bool, reporter: Reporter) -> int:
        return push(self, dataset, replace=replace, reporter=reporter)
