"""Results of run groups: statistics, summaries, comparisons and published results.

This module itself finds and reads groups. The bundled catalogue completes what their files lack.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from pytest_mlebench.catalog.catalogue import default_catalogue, unknown
from pytest_mlebench.catalog.competition import split_label
from pytest_mlebench.errors import UsageError, unusable
from pytest_mlebench.io.files import AnyPath, expanded
from pytest_mlebench.records.group import UNKNOWN, GroupReader, RunGroup, group_folders
from pytest_mlebench.records.record import GRADING_REPORT, MANIFEST, RUN_LOG, RunRecord

LAST = "last"
"""The name that means the run group that was used last."""


def find_group(name: AnyPath, runs_dir: AnyPath) -> Path:
    """Find the folder of a run group by its path, its name below ``runs_dir``, part of its name, or ``last``.

    Raises UsageError if no group matches, or several do.

    >>> find_group("last", Path("reports"))
    PosixPath('reports/first')
    """
    name = os.fspath(name)
    if not name:
        raise UsageError("the name of the run group is empty; `mlebench groups` lists the groups")
    try:
        runs_dir = expanded(runs_dir)
        for folder in (expanded(name), runs_dir / name):
            if folder.is_dir():
                if not (folder / MANIFEST).exists() and (inside := group_folders(folder)):
                    raise UsageError(f"{folder} is a folder of run groups: name one of them, as in {inside[-1]}")
                return folder
        groups = [path.name for path in group_folders(runs_dir)]
    except (OSError, ValueError) as error:
        why = unusable(error) if isinstance(error, OSError) else error
        raise UsageError(f"run group {name!r} cannot be looked up: {why}") from error
    if name == LAST:  # a group without runs was stopped before its first run
        found = [group for group in groups if any((runs_dir / group).glob(f"*/{RUN_LOG}"))][-1:]
    else:
        found = [group for group in groups if name in group]
    if len(found) == 1:
        return runs_dir / found[0]
    if found:
        raise UsageError(f"run group {name!r} is ambiguous: {', '.join(found)} (below {runs_dir}); name one")
    is_file = Path(name).is_file()
    if name.endswith(GRADING_REPORT) and is_file:
        raise UsageError(f"{name} is a grading report: name its folder, {Path(name).resolve().parent}")
    if os.sep in name or is_file:
        what = "is a file (`mlebench unbundle` unpacks a bundle to a run group)" if is_file else "does not exist"
        raise UsageError(f"run group {name} {what}; `mlebench groups` lists those below {runs_dir}")
    raise unknown(f"run group (below {runs_dir})", name, groups)


def read_group(folder: AnyPath) -> RunGroup:
    """Read a run group's folder; raises UsageError if it is not a run group.

    >>> [record.outcome.name for record in read_group(Path("reports/first")).records]
    ['no_medal', 'no_medal', 'no_medal']
    """
    return catalogued(GroupReader(expanded(folder)).read())


def catalogued(group: RunGroup) -> RunGroup:
    """The group with the catalogue's splits and categories in records from a grading report, which has none."""
    return replace(group, records=tuple(map(_catalogued, group.records)))


def _catalogued(record: RunRecord) -> RunRecord:
    id = record.competition_id
    if record.split != UNKNOWN.split or id not in (catalogue := default_catalogue()):
        return record
    split = split_label(catalogue[id].split, record.report.bench_version, is_twin=record.is_twin)
    return replace(record, split=split, category=catalogue[id].category)
