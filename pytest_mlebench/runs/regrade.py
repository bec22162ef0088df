"""Regrades stored submissions, with the data and the graders of this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Any

from pytest_mlebench._version import __version__
from pytest_mlebench.catalog import Catalogue, Competition
from pytest_mlebench.data.dataset import Dataset, fingerprint
from pytest_mlebench.data.preparing import Twins
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import CompetitionError, DataError, reason
from pytest_mlebench.grading.grader import EXCEEDED, Grader
from pytest_mlebench.io.files import digest_of
from pytest_mlebench.io.values import read_json, write_json
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.manifest import library_versions
from pytest_mlebench.records.outcome import Report, TimelinePoint
from pytest_mlebench.records.record import SUBMISSION, RunRecord

ROUNDING = 1.5e-5
"""Tolerance of comparisons: scores are rounded to five decimals, and machines may disagree on the last one."""
_COMPARED = (
    *("gold_threshold", "silver_threshold", "bronze_threshold", "median_threshold"),
    *("any_medal", "gold_medal", "silver_medal", "bronze_medal", "above_median"),
    *("submission_exists", "valid_submission", "is_lower_better", "grader_defect"),
    *("percentile", "bench_version", "thresholds", "contaminated", "generated"),
)


REGRADED = "regraded-*.json"


@dataclass(frozen=True, kw_only=True)
class RegradedRun:
    """A run's first grade and a later one. ``changes`` describes their differences, one phrase each."""

    run_id: str
    agent: str
    competition_id: str
    seed: int
    before: Report
    after: Report
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Regrading:
    """The result of regrading a group. ``not_graded`` has reasons by run id. ``regraded_at`` is ISO 8601 in UTC."""

    run_group: str
    bench_version: str
    regraded_at: str
    versions: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[RegradedRun, ...] = ()
    not_graded: Mapping[str, str] = field(default_factory=dict)

    @property
    def changed(self) -> tuple[RegradedRun, ...]:
        """The runs whose grade changed."""
        return tuple(run for run in self.runs if run.changes)


def latest_regradings(group_dir: Path) -> tuple[list[Regrading], list[str]]:
    """Return a group's latest regrading for each version of the benchmark, and which files cannot be read, and why."""
    found: dict[str, Regrading] = {}
    broken = []
    for path in sorted(group_dir.glob(REGRADED)):
        try:
            regrading = read_json(path, Regrading)
        except (OSError, ValueError) as error:
            broken.append(f"{path.name}: {reason(error)}")
            continue
        known = found.get(regrading.bench_version)
        if known is None or known.regraded_at <= regrading.regraded_at:
            found[regrading.bench_version] = regrading
    return [found[version] for version in sorted(found)], broken


@dataclass
class Regrader:
    """Grades submissions of any competition. The grader of each competition is set up once.

    ``twin_store`` opens the data of a run's twin; ``options`` are those of ``Grader``.
    """

    catalogue: Catalogue
    store: DataStore
    twin_store: Callable[[Twins], DataStore]
    options: Mapping[str, Any] = field(default_factory=dict)
    _graders: dict[Path, Grader | str] = field(default_factory=dict)
    _known: dict[tuple[Path, str], Report] = field(default_factory=dict)

    def competition(self, id: str) -> Competition | None:
        """Return the competition with this id; None if there is none here."""
        if id not in self.catalogue:
            return None
        return self.catalogue[id]

    def dataset(self, record: RunRecord) -> Dataset | None:
        """Return the prepared data of a run's competition, or of its twin; None if there is none."""
        if (competition := self.competition(record.competition_id)) is None:
            return None
        try:
            found = (self.twin_store(Twins.of_record(record.twin)) if record.twin else self.store).dataset(competition)
        except DataError:
            return None
        return found if found.is_prepared else None

    def obstacle(self, record: RunRecord) -> str | None:
        """Return why a run cannot be regraded here; None if it can."""
        id = record.competition_id
        if id not in self.catalogue:
            return f"there is no competition {id[:100]!r} here"
        if (dataset := self.dataset(record)) is None:
            return self._absent(record)
        if isinstance(grader := self._grader(dataset), str):
            return grader
        if record.data and dict(record.data) != fingerprint(dataset):
            return f"the data of {id} here is not the run's data: the digests differ"
        return None

    def _absent(self, record: RunRecord) -> str:
        """Return what to do about missing data."""
        id = record.competition_id
        if not record.twin:
            command = self.store.command("prepare", self.catalogue[id])
            return f"the data of {id} is not in {self.store.root}: `{command}`"
        per_seed = " --twin-per-seed" if record.twin.get("run_seed") is not None else ""
        size = str(record.twin.get("size"))[:20]
        return (
            f"the twin of {id} is not in {self.store.root}: "
            f"`mlebench prepare -c {id} --data=twin:SEED:{size}{per_seed}`, with the seed "
            "that the group's manifest.json has when its runs are done"
        )

    def _grader(self, dataset: Dataset) -> Grader | str:
        key = dataset.folder
        if key not in self._graders:
            id = dataset.competition.id
            try:
                self._graders[key] = Grader(self.catalogue[id], dataset, **self.options)
            except (CompetitionError, DataError) as error:
                self._graders[key] = f"{id} cannot be graded: {error}"
        return self._graders[key]

    def grade(self, record: RunRecord, path: Path) -> Report:
        """Grade a file as a submission of the run, for which ``obstacle`` must be None."""
        dataset = self.dataset(record)
        grader = "" if dataset is None else self._grader(dataset)
        if dataset is None or isinstance(grader, str):
            raise DataError(str(grader))
        if not path.is_file() or path.is_symlink():
            return grader.report(path)
        key = dataset.folder, digest_of(path)
        if key not in self._known:
            self._known[key] = grader.report(path)
        return self._known[key]

    def submission(self, record: RunRecord, run_dir: Path) -> Report:
        """Grade the submission that a run left."""
        return self.grade(record, run_dir / SUBMISSION)


def same_score(one: float | None, other: float | None) -> bool:
    """Whether two scores are the same, except for rounding of the last decimal."""
    if one is None or other is None:
        return one is other
    return one == other or abs(one - other) <= ROUNDING


def exceeded_limit(own: Report | TimelinePoint) -> str:
    """Return the error if grading exceeded a limit, which depends on the machine; empty otherwise.

    Only the harness's own error counts: graders may quote a submission's content.
    """
    return own.error if own.score is None and own.error and own.error.startswith(EXCEEDED) else ""


def differences(before: Report, after: Report) -> list[str]:
    """Return how two grades of a submission differ, one phrase each."""
    found = []
    if not same_score(before.score, after.score):
        found.append(f"score {before.score}, now {after.score}")
    for name in _COMPARED:
        was, now = getattr(before, name), getattr(after, name)
        if was != now and not (isinstance(was, float) and isinstance(now, float) and same_score(was, now)):
            found.append(f"{name.replace('_', ' ')} {was}, now {now}")
    return found


def changes(before: Report, after: Report) -> tuple[str, ...]:
    """Like ``differences``, but also reports a submission that is invalid for another reason."""
    found = differences(before, after)
    # The error for a missing file contains its path, which changes if the group is moved.
    if not found and before.submission_exists and before.error != after.error:
        found.append(f"invalid for another reason: {after.error}")
    return tuple(found)


def regrade(group: RunGroup, version: str, regrader: Regrader) -> Regrading:
    """Regrade the stored submissions of a group. The runs' own records stay unchanged."""
    graded: list[RegradedRun] = []
    not_graded: dict[str, str] = {}
    for record in group.records:
        if (obstacle := regrader.obstacle(record)) is not None:
            not_graded[record.run_id] = obstacle
            continue
        report = regrader.submission(record, group.folder / record.run_id)
        report = replace(report, submission_path=record.report.submission_path)
        found = changes(record.report, report)
        graded.append(
            RegradedRun(run_id=record.run_id, **record.key._asdict(), before=record.report, after=report, changes=found)
        )
    return Regrading(
        run_group=group.name,
        bench_version=version,
        regraded_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={"pytest-mlebench": __version__, **library_versions()},
        runs=tuple(graded),
        not_graded=not_graded,
    )


def write_regrading(folder: Path, result: Regrading) -> Path:
    """Write a regrading to a new file in the group's folder; returns its path. Raises OSError."""
    name = f"regraded-{result.bench_version}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    path = next(path for path in (folder / f"{name}.json" for name in names) if not path.exists())
    write_json(path, asdict(result))
    return path
