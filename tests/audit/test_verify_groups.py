"""Rules for verifying a run group on disk, each with boundary values, without a session or a real grader.

The score of a file is the number that it contains, so that tests choose the grades.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench._version import __version__
from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.extras.bundles.bundle import (
    MADE_BY,
    MISSING_RUNS,
    TABLES,
    Bundle,
    BundledFile,
    BundleIndex,
    LeftOut,
)
from pytest_mlebench.extras.bundles.card import ALWAYS, Card, Check, CheckResult
from pytest_mlebench.extras.bundles.verify import objections, verify
from pytest_mlebench.grading.twins import TwinStore
from pytest_mlebench.io.values import json_text
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.manifest import PlannedRun
from pytest_mlebench.records.outcome import Ending, Report, TimelinePoint
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.runs.regrade import RegradedRun, Regrader, Regrading, changes
from tests.audit.test_settings_rules import COMPETITION, at, honest, imported
from tests.groups import report_of

Change = Callable[["World"], object]
RUN = "smoke-digits_mine-0-a"
GOLD, NONE = COMPETITION.leaderboard.gold, COMPETITION.leaderboard.median - 0.1
DATA = {"answers": "d"}
NOT_GRADED = "not graded: the session was interrupted"


class Graders(Regrader):
    """Scores each file with the number in it. ``obstacles`` has reasons why runs cannot be graded."""

    obstacles: Mapping[str, str] = {}

    def obstacle(self, record: RunRecord) -> str | None:
        return self.obstacles.get(record.run_id)

    def grade(self, record: RunRecord, path: Path) -> Report:
        if not path.is_file():
            return report_of(COMPETITION, None, exists=False, error=f"{path} is missing")
        text = path.read_text()
        try:
            return replace(report_of(COMPETITION, float(text)), submission_path=str(path))
        except ValueError:
            return report_of(COMPETITION, None, error=text)


def scores(group: RunGroup) -> Mapping[str, Any]:
    """A table of all scores, instead of a group's reports."""
    return {TABLES: {"scores": {record.run_id: record.score for record in group.records}}}


def point(seconds: float, score: float | None, file: str, **more: Any) -> TimelinePoint:
    return TimelinePoint(seconds=seconds, score=score, medal=report_of(COMPETITION, score).medal, file=file, **more)


FIRST = point(10.0, NONE, "snapshots/0001.csv")
LAST = point(50.0, GOLD, "snapshots/0002.csv", final=True)


class World:
    """A group with one run, which has two snapshots, and its bundle. The second snapshot is the submission."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "g"
        self.run_dir = self.folder / RUN
        group = honest()
        (own,) = group.records
        self.records = [replace(own, run_id=RUN, run_group="g", timeline=(FIRST, LAST), exit_code=0)]
        self.manifest = group.manifest
        self.graders = Graders(default_catalogue(), DataStore(folder), partial(TwinStore, folder))
        self.left_out: list[LeftOut] = []
        self.made_by, self.index_group, self.versions = MADE_BY, "g", list[str]()
        self.sizes: dict[str, int] = {}
        self.files: Callable[[RunGroup], Mapping[str, Any]] = scores
        self.edits: list[Callable[[], object]] = []
        for path in ("submission/submission.csv", "snapshots/0002.csv"):
            self.put(f"{RUN}/{path}", str(GOLD))
        self.put(f"{RUN}/snapshots/0001.csv", str(NONE))
        self.data()

    def put(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def data(self, **state: Any) -> None:
        """The prepared data on this machine."""
        dataset = self.graders.store.dataset(COMPETITION)
        for side in (dataset.public, dataset.private):
            side.mkdir(parents=True, exist_ok=True)
        dataset.state_file.write_text(json.dumps({"fingerprint": DATA, **state}))

    def record(self, **changes: Any) -> None:
        self.records[0] = replace(self.records[0], **changes)

    def report(self, **changes: Any) -> None:
        self.record(report=replace(self.records[0].report, **changes))

    def plan(self, **changes: Any) -> None:
        self.manifest = replace(self.manifest, **changes)

    def omit(self, what: str, files: int = 1) -> None:
        self.left_out.append(LeftOut(what=what, files=files, size=1, why="by choice"))

    def later(self, path: str, change: Callable[[Any], object]) -> None:
        """Change a JSON file after it is written."""

        def edit() -> None:
            values = json.loads((self.folder / path).read_text())
            change(values)
            (self.folder / path).write_text(json.dumps(values))

        self.edits.append(edit)

    def another(self, **changes: Any) -> None:
        """Add a second planned run with seed 1, which has only a submission."""
        changes = {"run_id": RUN.replace("-0-a", "-1-a"), "seed": 1, "timeline": (), **changes}
        self.records.append(replace(self.records[0], **changes))
        self.put(f"{self.records[1].run_id}/submission/submission.csv", str(GOLD))
        self.plan(runs=(*self.manifest.runs, PlannedRun("mine", COMPETITION.id, 1)))

    def write(self) -> Bundle:
        self.plan(images={}, connections={}, data={}, models={}, permissions={})
        self.manifest = self.manifest.with_records(self.records)
        self.put("manifest.json", json_text(asdict(self.manifest)))  # without flushing to disk, which is slow
        for record in self.records:
            self.put(f"{record.run_id}/run.json", json_text(record.to_json()))
        group = RunGroup(folder=self.folder, records=tuple(self.records), manifest=self.manifest)
        self.put(TABLES, json.dumps(self.files(group)[TABLES]))
        for edit in self.edits:
            edit()
        found = sorted(path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file())
        files = tuple(BundledFile(path=path, size=self.sizes.get(path, 1), sha256="") for path in found)
        index = BundleIndex(
            format="", version=1, made_by=self.made_by, made_at=datetime.now(UTC).isoformat(),
            run_group=self.index_group, files=files, left_out=tuple(self.left_out),
        )  # fmt: skip
        return Bundle(index, "ab12", b"", None, self.folder)

    def regrader(self, version: str) -> Regrader:
        self.versions.append(version)
        return self.graders

    def card(self, **options: Any) -> Card:
        return verify(self.write(), self.regrader, files=self.files, **options)

    def check(self, name: str) -> Check:
        (found,) = [check for check in self.card().checks if check.name == name]
        return found

    def differs(self, name: str) -> list[str]:
        """The reasons why a check differs, without the run's id; an empty list if it agrees."""
        check = self.check(name)
        assert check.result is (CheckResult.differs if check.reasons else CheckResult.verified), check
        return [reason.removeprefix(f"{RUN}: ") for reason in check.reasons]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_an_honest_group_agrees_in_every_check(world: World) -> None:
    world.omit("logs", 3)
    card = world.card()
    agrees = CheckResult.verified
    assert card.checks == (
        Check("index", agrees, "6 files, each with the SHA-256 in the index"),
        Check("records", agrees, "1 run"),
        Check("settings", agrees, "limits, agents, data, models and times agree with the records"),
        Check("models", agrees, "ledgers of 0 runs match the calls of the records"),
        Check("data", agrees, "digests and verification match this machine's data"),
        Check("grades", agrees, "1 submission graded again, 2 snapshots too"),
        Check("tables", agrees, "recomputed reports, tables and statistics are the same"),
        Check("evidence", CheckResult.unchecked, "scanner input was left out: logs"),
    )
    assert (card.run_group, card.digest, card.left_out) == ("g", "ab12", ("logs: 3 (by choice)",))
    assert card.findings is not None and card.findings.runs == (RUN,)
    assert {line.name: line.detail for line in card.profile}["benchmark version"] == "version 1, as published"
    assert card.not_checked == (
        *ALWAYS,
        "who made the bundle: it is not signed",
        "permissions: what the user granted in 1 run, which is not recorded",
    )
    assert set(world.versions) == {"v1"}
    assert objections(world.write(), world.regrader, world.files) == []


def raw(change: Callable[[Any], object], path: str = f"{RUN}/run.json") -> Change:
    """Change a file in a way that our classes could not write."""
    return lambda world: world.later(path, change)


def put(path: str, text: str = "x") -> Change:
    return lambda world: world.put(path, text)


def record(**changes: Any) -> Change:
    return lambda world: world.record(**changes)


def report(**changes: Any) -> Change:
    return lambda world: world.report(**changes)


def planned(*seeds: int) -> Change:
    return lambda world: world.plan(runs=tuple(PlannedRun("mine", COMPETITION.id, seed) for seed in seeds))


def omitted(what: str, files: int = 1) -> Change:
    return lambda world: world.omit(what, files)


def all_of(*changes: Change) -> Change:
    def changed(world: World) -> None:
        for change in changes:
            change(world)

    return changed


def _unnamed(world: World) -> None:
    world.record(run_id="smoke-digits_mine-1-a")
    shutil.move(world.run_dir, world.folder / "smoke-digits_mine-1-a")


def _running(world: World, seed: int) -> None:
    """Add a second run that has not ended; seed 1 is planned."""
    world.plan(runs=(*world.manifest.runs, PlannedRun("mine", COMPETITION.id, 1)))
    world.omit(MISSING_RUNS)
    running = {"competition_id": COMPETITION.id, "agent": "mine", "seed": seed, "worker": "", "started": 0.0,
               "time_limit": 1.0, "owner": {}}  # fmt: skip
    world.put("smoke-digits_mine-1-b/running.json", json.dumps(running))


def _in_place_of_another(world: World) -> None:
    """The record claims to belong to another folder, which has a list as its record."""
    shutil.copytree(world.run_dir, world.folder / f"{RUN}b")
    world.put(f"{RUN}b/run.json", "[]")
    world.later(f"{RUN}/run.json", lambda v: v.update(run_id=f"{RUN}b"))


OF_GROUP = "it belongs to the run group {!r}, but this is {!r} (`mlebench groups --rename` renames a group)"
PLANNED = "mine on smoke-digits, seed {}: planned, but has no record"
RECORDS: dict[str, tuple[Change, list[str]]] = {
    "an outcome": (raw(lambda v: v.update(outcome="silver")), ["outcome is 'silver', but the record implies 'gold'"]),
    "no outcome": (raw(lambda v: v.pop("outcome")), ["outcome is None, but the record implies 'gold'"]),
    "a long outcome": (
        raw(lambda v: v.update(outcome="x" * 200)), [f"outcome is '{'x' * 99}, but the record implies 'gold'"]),
    "a last change": (raw(lambda v: v.update(last_change={})), ["last change is {}, but the record implies None"]),
    "a last change that happened": (
        all_of(record(timeline=(replace(FIRST, score=2.0), LAST)), raw(lambda v: v.update(last_change=None))),
        ["last change is None, but the record implies {'best_seconds': 10.0, 'best_score': 2.0, 'best_medal': None, "
         f"'score': {GOLD}, 'medal': 'gold', 'med"]),
    "a folder of another seed": (
        _unnamed, ["smoke-digits_mine-1-a: its directory name does not match a run of mine on smoke-digits, seed 0"]),
    "another group in the record": (record(run_group="h"), [OF_GROUP.format("h", "g")]),
    "another group in the manifest": (lambda world: world.plan(run_group="h"), [OF_GROUP.format("g", "g")]),
    "another group in the index": (
        lambda world: setattr(world, "index_group", "h"), [OF_GROUP.format("g", "h")]),
    "a grade of another competition": (
        report(competition_id="smoke-diabetes"), ["its grade is for smoke-diabetes"]),
    "another split": (
        record(split="low"),
        ["it counts for low / Image Classification, but its competition does not"]),
    "another category": (
        record(category="Text"),
        ["it counts for smoke / Text, but its competition does not"]),
    "real data in place of a twin": (
        record(twin={"seed": "x", "size": "small"}),
        ["it counts for smoke / Image Classification, but its competition does not"]),
    "a score that the agent did not tell": (
        record(validation_score=0.5),
        ["the agent expected the score None, but the record says 0.5"]),
    "a score that the agent told": (
        put(f"{RUN}/submission/validation.json", '{"validation_score": 0.5}'),
        ["the agent expected the score 0.5, but the record says None"]),
    "a score that the agent told, in a file that was left out": (
        all_of(record(validation_score=0.5), omitted("submissions")), []),
    "a score that the agent did not tell, without snapshots": (
        all_of(record(validation_score=0.5), omitted("snapshots")),
        ["the agent expected the score None, but the record says 0.5"]),
    "an archive that is damaged": (
        put(f"{RUN}/files.zip"), ["files.zip cannot be read: it is not a zip archive without a comment"]),
    "no plan": (
        planned(), ["the manifest does not say which runs were planned"]),
    "a run planned twice": (
        planned(0, 0), ["the manifest plans a run twice"]),
    "another plan": (
        planned(1),
        ["mine on smoke-digits, seed 0: this run was not planned", PLANNED.format(1)]),
    "planned runs that are missing": (
        planned(2, 0, 1),
        [PLANNED.format(1), PLANNED.format(2)]),
    "planned runs that are missing, as in the index": (
        all_of(planned(2, 0, 1), omitted(MISSING_RUNS, 2)), []),
    "more planned runs missing than in the index": (
        all_of(planned(0, 1), omitted(MISSING_RUNS, 2)), [PLANNED.format(1)]),
    "other files missing than planned runs": (
        all_of(planned(0, 1), omitted("logs")), [PLANNED.format(1)]),
    "no run missing, and one in the index": (omitted(MISSING_RUNS), []),
    "files of a run without a record": (
        all_of(put(f"other{'x' * 200}/a"), put(f"other{'x' * 200}/b"), put("some/c"), put("file")),
        [f"other{'x' * 95}: it left files, but has no record", "some: it left files, but has no record"]),
    "votes of a judge": (put("judge/votes.jsonl"), []),
    "a running run": (lambda world: _running(world, 1), []),
    "an unplanned running run": (
        lambda world: _running(world, 2), ["smoke-digits_mine-1-b: it left files, but has no record"]),
    "an invalid record": (
        put("smoke-digits_mine-1-b/run.json", "{}"),
        ["left out: {}/smoke-digits_mine-1-b/run.json is not a run record: it lacks run_id"]),
    "a record with malformed permissions": (
        raw(lambda v: v.update(permissions={"granted": {}, "used": ["hosts"]})),
        [f"left out: {{}}/{RUN}/run.json is not a run record: permissions.used must be an object",
         PLANNED.format(0)]),
    "a record that replaces another": (
        _in_place_of_another,
        [f"left out: {{}}/{RUN}/run.json is not a run record: run_id must be the name of its folder, not '{RUN}b'",
         f"left out: {{}}/{RUN}b/run.json is not a run record: it must be an object, not []",
         PLANNED.format(0)]),
    "a run without a folder": (
        raw(lambda v: v.update(run_id="x" * 200)),
        [f"left out: {{}}/{RUN}/run.json is not a run record: run_id must be the name of its folder, not '{'x' * 100}'",
         PLANNED.format(0)]),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
def test_records_match_their_folders_and_the_plan(name: str, world: World) -> None:
    change, expected = RECORDS[name]
    change(world)
    assert world.differs("records") == [text.replace("left out: {}", f"left out: {world.folder}") for text in expected]


def test_the_split_of_an_unknown_competition_is_not_compared(world: World) -> None:
    world.record(competition_id="other", run_id="other_mine-0-a")
    world.report(competition_id="other")
    world.plan(runs=(PlannedRun("mine", "other", 0),))
    world.run_dir.rename(world.folder / "other_mine-0-a")
    world.record(split="any")
    assert world.differs("records") == []


UNREADABLE: dict[str, tuple[Change, str]] = {
    "a key twice in a record": (
        lambda world: world.edits.append(lambda: world.put(f"{RUN}/run.json", '{"a": 1, "a": 2}')),
        "ValueError: run.json: it has the duplicate key 'a'"),
    "a key twice in the manifest": (
        lambda world: world.edits.append(lambda: world.put("manifest.json", '{"b": {"a": 1, "a": 2}}')),
        "ValueError: manifest.json: it has the duplicate key 'a'"),
    "a key twice in a report": (
        put("grading_report.json", '{"a": 1, "a": 2}'),
        "ValueError: grading_report.json: it has the duplicate key 'a'"),
    "a large record": (
        lambda world: world.sizes.update({f"{RUN}/run.json": (64 << 20) + 1}),
        f"ValueError: {RUN}/run.json is larger than any record"),
    "a large manifest": (
        lambda world: world.sizes.update({"manifest.json": (64 << 20) + 1}),
        "ValueError: manifest.json is larger than any record"),
    "a version that does not exist": (
        raw(lambda v: v["settings"].update(bench_version="v9" * 20), "manifest.json"),
        f"ValueError: there is no version '{'v9' * 10}' of the benchmark"),
    "an invalid manifest": (
        lambda world: world.edits.append(lambda: world.put("manifest.json", "[]")),
        "{}/manifest.json cannot be read: it must be an object, not []; if you move it away, the runs can be "
        "reported, but not resumed"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_files_are_the_only_difference_reported(name: str, world: World) -> None:
    change, text = UNREADABLE[name]
    change(world)
    text = text.replace("{}", str(world.folder))
    card = world.card()
    assert [check.name for check in card.checks] == ["index", "records"]
    assert card.checks[1] == Check("records", CheckResult.differs, "cannot be read", (text,))
    assert (card.profile, card.findings, card.warnings, card.not_checked) == ((), None, (), ALWAYS)
    assert objections(world.write(), world.regrader, world.files) == [text]


def test_the_first_of_several_files_that_are_too_large_is_named(world: World) -> None:
    world.sizes |= {f"{RUN}/run.json": 1 << 30, "manifest.json": 1 << 30}
    (text,) = world.card().checks[1].reasons
    assert text.startswith("ValueError: manifest.json is larger")


def test_only_records_of_up_to_64_mib_are_read(world: World) -> None:
    twice = '{"a": 1, "a": 2}'
    for path in ("trajectory.json", "code/run.json", "submission/data.json"):
        world.put(f"{RUN}/{path}", twice)
        world.sizes[f"{RUN}/{path}"] = 1 << 40
    world.put("notes.txt", twice)
    world.sizes |= {"notes.txt": 1 << 40, f"{RUN}/run.json": 64 << 20, "manifest.json": 64 << 20}
    assert world.differs("records") == []


@pytest.mark.parametrize(
    "error", [ValueError, TypeError, OverflowError, KeyError, AttributeError, RecursionError], ids=lambda e: e.__name__
)
def test_values_that_cause_an_exception_are_a_difference(error: type[Exception], world: World) -> None:
    def broken(group: RunGroup) -> Mapping[str, Any]:
        raise error("x" * 400)

    bundle = world.write()
    found = verify(bundle, world.regrader, files=broken)
    (text,) = found.checks[-1].reasons
    assert found.checks[-1] == Check("records", CheckResult.differs, "cannot be read", (text,))
    assert text.startswith(f"{error.__name__}: ") and text.count("x" * 200) == 1 and len(text) == 300
    assert objections(bundle, world.regrader, broken) == [text]


def test_a_group_with_only_reports_does_not_count_as_runs(world: World) -> None:
    bundle = world.write()
    shutil.rmtree(world.run_dir)
    (world.folder / "manifest.json").unlink()
    report = {"competition_reports": [asdict(world.records[0].report)]}
    world.put("grading_report.json", json.dumps(report))
    files = (BundledFile(path="grading_report.json", size=1, sha256=""),)
    card = verify(replace(bundle, index=replace(bundle.index, files=files)), world.regrader, files=scores)
    why = "ValueError: the record of the run 'smoke-digits_0' is in the folder of another run"
    assert card.checks[1].reasons == (why,)


SAME = "with the same data here"
DATASETS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "verified here and there": ({"verified": True}, {"data_verified": True}, []),
    "verified only here": (
        {"verified": True}, {"data_verified": False}, [f"data_verified is False, but True {SAME}"]),
    "verified only there": (
        {"verified": False}, {"data_verified": True}, [f"data_verified is True, but False {SAME}"]),
    "never compared here": ({}, {"data_verified": True}, []),
    "never compared there": ({"verified": True}, {"data_verified": None}, []),
    "synthetic here and there": ({"synthetic": True}, {"synthetic_data": True}, []),
    "synthetic only here": (
        {"synthetic": True}, {"synthetic_data": False}, [f"synthetic_data is False, but not {SAME}"]),
    "synthetic only there": ({}, {"synthetic_data": True}, [f"synthetic_data is True, but not {SAME}"]),
    "synthetic here, not noted there": ({"synthetic": True}, {"synthetic_data": None}, []),
    "not synthetic": ({}, {"synthetic_data": False}, []),
    "other data": ({"verified": True, "synthetic": True}, {"data": {"answers": "e"}, "data_verified": False,
                                                            "synthetic_data": False}, []),
    "data that the record does not name": (
        {"verified": True}, {"data": {}, "data_verified": False}, []),
}  # fmt: skip


@pytest.mark.parametrize("name", DATASETS)
def test_records_match_the_data_on_this_machine(name: str, world: World) -> None:
    state, told, expected = DATASETS[name]
    world.data(**state)
    world.record(**told)
    assert world.differs("data") == expected


def test_a_run_without_data_is_skipped_and_the_next_is_checked(world: World) -> None:
    world.data(verified=True)
    world.record(data={"answers": "e"})
    world.another(data=DATA, data_verified=False)
    assert world.differs("data") == [f"{world.records[1].run_id}: data_verified is False, but True {SAME}"]
    shutil.rmtree(world.graders.store.root)
    assert world.differs("data") == []


SLOW = "grading takes more than 2 s (--grading-time)"
IS_SLOW = f"{SLOW}, which depends on the machine"
INVALID = report_of(COMPETITION, None, error="bad")
BAD_FIRST, BAD_LAST = (replace(own, score=None, medal=None, error="bad") for own in (FIRST, LAST))
ONE = point(5.0, GOLD, "submission/submission.csv")


def timeline(*points: TimelinePoint) -> Change:
    return record(timeline=points)


def first(**changes: Any) -> Change:
    return timeline(replace(FIRST, **changes), LAST)


def last(**changes: Any) -> Change:
    return timeline(FIRST, replace(LAST, **changes))


def without(path: str) -> Change:
    return lambda world: (world.run_dir / path).unlink()


def _no_submission(world: World) -> None:
    """The run ended with a snapshot, and left no submission."""
    nothing = report_of(COMPETITION, None, exists=False, error="the file is missing")
    world.record(report=nothing, timeline=(FIRST,), ending=Ending.CRASHED, exit_code=1)
    shutil.rmtree(world.run_dir / "submission")
    (world.run_dir / "snapshots/0002.csv").unlink(missing_ok=True)


def _invalid(world: World) -> None:
    """The submission and the first snapshot are invalid."""
    world.record(
        report=INVALID,
        timeline=(BAD_FIRST, BAD_LAST),
    )
    for path in ("submission/submission.csv", "snapshots/0001.csv", "snapshots/0002.csv"):
        world.put(f"{RUN}/{path}", "bad")


ENDS = "its timeline does not end with its submission"
LOST = [
    f"score {GOLD}, now None",
    "any medal True, now False",
    "gold medal True, now False",
    "above median True, now False",
    "submission exists True, now False",
    "valid submission True, now False",
    "percentile 94.0, now None",
]
GRADES: dict[str, tuple[Change, list[str]]] = {
    "a score": (
        all_of(report(score=0.99), timeline()),
        [f"score 0.99, now {GOLD}", "its timeline does not have the snapshot 0001.csv",
         "its timeline does not have the snapshot 0002.csv"]),
    "a firm medal": (report(firm=True), ["firm True, now None"]),
    "an interval": (
        report(score_low=0.1, score_high=0.2),
        ["score low 0.1, now None", "score high 0.2, now None"]),
    "a submission that is missing": (without("submission/submission.csv"), LOST),
    "a submission that is missing, and its snapshots": (
        all_of(without("submission/submission.csv"), timeline(), without("snapshots/0001.csv"),
               without("snapshots/0002.csv")), LOST),
    "an invalid submission": (_invalid, []),
    "no submission": (_no_submission, []),
    "no submission, and a last point": (
        all_of(_no_submission, timeline(replace(FIRST, final=True))),
        [ENDS, "the end of its timeline has another score or medal"]),
    "no timeline and no snapshot": (
        all_of(timeline(), without("snapshots/0001.csv"), without("snapshots/0002.csv")), []),
    "the submission as a point": (
        all_of(timeline(FIRST, replace(LAST, file="submission/submission.csv")), without("snapshots/0002.csv")), []),
    "a snapshot that is being written": (put(f"{RUN}/snapshots/.partial"), []),
    "a snapshot without a point": (
        put(f"{RUN}/snapshots/{'0' * 200}"), [f"its timeline does not have the snapshot {'0' * 100}"]),
    "a score of a snapshot": (
        first(score=0.123), [f"after 10 s its score was 0.123, now {NONE}"]),
    "a score that is rounded": (first(score=NONE + 1e-5), []),
    "no score of a snapshot": (first(score=None), [f"after 10 s its score was None, now {NONE}"]),
    "a medal of a snapshot": (first(medal="gold"), ["after 10 s its medal was gold, now None"]),
    "an error of a snapshot": (first(error="x" * 200), [f"after 10 s its error was '{'x' * 99}, now None"]),
    "no error of an invalid snapshot": (
        all_of(_invalid, timeline(replace(BAD_FIRST, error=None), BAD_LAST)),
        ["after 10 s its error was None, now 'bad'"]),
    "another error of an invalid snapshot": (
        all_of(_invalid, timeline(replace(BAD_FIRST, error="worse"), BAD_LAST)), []),
    "a file of another folder": (
        all_of(timeline(replace(FIRST, file="code/0001.csv"), LAST), put(f"{RUN}/code/0001.csv", str(NONE)),
               without("snapshots/0001.csv")),
        ["its timeline has the unexpected file 'code/0001.csv'"]),
    "a file of a folder of snapshots": (
        all_of(timeline(replace(FIRST, file="snapshots/a/0001.csv"), LAST),
               put(f"{RUN}/snapshots/a/0001.csv", str(NONE)), without("snapshots/0001.csv")),
        ["its timeline has the unexpected file 'snapshots/a/0001.csv'", "its timeline does not have the snapshot a"]),
    "the record as a file": (first(file="run.json"), ["its timeline has the unexpected file 'run.json'",
                                                      "its timeline does not have the snapshot 0001.csv"]),
    "a file with a path to the parent": (
        timeline(FIRST, replace(FIRST, file="snapshots/.."), LAST),
        ["its timeline has the unexpected file 'snapshots/..'"]),
    "no file": (timeline(FIRST, replace(FIRST, file=""), LAST), ["its timeline has the unexpected file ''"]),
    "a file with a long name": (
        timeline(FIRST, replace(FIRST, file="x" * 200), LAST), [f"its timeline has the unexpected file '{'x' * 100}'"]),
    "a snapshot that is missing": (
        without("snapshots/0001.csv"), ["snapshots/0001.csv of its timeline is missing"]),
    "a snapshot that is missing, with a long name": (
        timeline(FIRST, replace(FIRST, file=f"snapshots/{'x' * 200}"), LAST),
        [f"snapshots/{'x' * 90} of its timeline is missing"]),
    "a submission that is missing, and snapshots that were left out": (
        all_of(_no_submission, timeline(ONE), omitted("snapshots"), without("snapshots/0001.csv")),
        ["submission/submission.csv of its timeline is missing"]),
    "a snapshot that was not graded": (first(score=None, medal=None, error=NOT_GRADED), []),
    "one that was not graded, with a score": (
        first(error=NOT_GRADED), ["after 10 s it was not graded, but has a grade"]),
    "one that was not graded, with a medal": (
        first(score=None, medal="gold", error=NOT_GRADED), ["after 10 s it was not graded, but has a grade"]),
    "one that was not graded, at the end": (
        last(score=None, medal=None, error=NOT_GRADED),
        ["after 50 s it was not graded, but has a grade", "the end of its timeline has another score or medal"]),
    "no final point": (last(final=False), [ENDS]),
    "two ends": (timeline(replace(FIRST, final=True), LAST), [
        ENDS, "the end of its timeline has another score or medal"]),
    "an end before others": (timeline(LAST, FIRST), [ENDS]),
    "an end with another score": (
        all_of(last(score=0.123)),
        [f"after 50 s its score was 0.123, now {GOLD}", "the end of its timeline has another score or medal"]),
    "an end with another medal": (
        all_of(last(medal="silver")),
        ["after 50 s its medal was silver, now gold", "the end of its timeline has another score or medal"]),
    "an end that is another file of this score": (
        put(f"{RUN}/snapshots/0002.csv", f" {GOLD}"), ["the end of its timeline is not its submission"]),
    "grading that timed out here and there": (
        all_of(put(f"{RUN}/submission/submission.csv", SLOW), put(f"{RUN}/snapshots/0002.csv", SLOW),
               record(report=report_of(COMPETITION, None, error=SLOW),
                      timeline=(FIRST, replace(LAST, score=None, medal=None, error=SLOW)))), []),
    "a score where grading took too long": (
        report(error=SLOW, score=0.99), [
            f"score 0.99, now {GOLD}", "the end of its timeline has another score or medal"]),
    "a reason of the grader that quotes the submission": (
        all_of(_invalid, put(f"{RUN}/submission/submission.csv", f"column {SLOW}"), timeline(),
               report(valid_submission=True), without("snapshots/0001.csv"),
               without("snapshots/0002.csv")),
        ["valid submission True, now False"]),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADES)
def test_grades_and_timelines_match_the_files(name: str, world: World) -> None:
    change, expected = GRADES[name]
    change(world)
    assert world.differs("grades") == expected
    if not expected:
        assert world.differs("tables") == [] == world.differs("records")


def _slow_submission(world: World) -> None:
    for path in ("submission/submission.csv", "snapshots/0002.csv"):
        world.put(f"{RUN}/{path}", SLOW)
    world.record(timeline=(FIRST,))
    (world.run_dir / "snapshots/0002.csv").unlink()


def _left_out(world: World) -> None:
    world.omit("submissions")
    (world.run_dir / "submission/submission.csv").unlink()


UNKNOWN: dict[str, tuple[Change, list[str]]] = {
    "an obstacle": (
        lambda world: setattr(world.graders, "obstacles", {RUN: "no data"}), ["no data"]),
    "submissions that were left out": (_left_out, ["its submission was left out"]),
    "snapshots that were left out": (
        all_of(without("snapshots/0001.csv"), without("snapshots/0002.csv"),
               omitted("snapshots")),
        ["snapshots/0001.csv of its timeline was left out", "snapshots/0002.csv of its timeline was left out"]),
    "grading that timed out here": (
        all_of(put(f"{RUN}/submission/submission.csv", SLOW), put(f"{RUN}/snapshots/0002.csv", SLOW)),
        [IS_SLOW, f"after 50 s its score was {GOLD}, now None"]),
    "grading that timed out there": (
        record(
            report=report_of(COMPETITION, None, error=SLOW),
            timeline=(FIRST, replace(LAST, score=None, medal=None, error=SLOW))),
        [IS_SLOW, f"after 50 s its score was None, now {GOLD}"]),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_runs_that_cannot_be_regraded_have_unknown_grades(name: str, world: World) -> None:
    change, expected = UNKNOWN[name]
    change(world)
    reasons = tuple(f"{RUN}: {text}" for text in expected)
    assert world.check("grades") == Check("grades", CheckResult.unchecked, "1 of 1 run", reasons)
    assert world.differs("tables") == [], "they are compared only with the records"


@pytest.mark.parametrize(
    ("score", "error", "result"),
    [
        (GOLD, None, CheckResult.verified),
        (0.99, SLOW, CheckResult.differs),
        (None, f"column {SLOW}", CheckResult.differs),
        (None, SLOW, CheckResult.unchecked),
    ],
)
def test_a_later_grade_is_unknown_if_grading_timed_out_and_not_if_a_text_says_so(
    score: float | None, error: str | None, result: CheckResult, world: World
) -> None:
    (own,) = world.records
    after = replace(own.report, score=score, error=error)
    run = RegradedRun(run_id=RUN, **own.key._asdict(), before=own.report, after=after,
                      changes=changes(own.report, after))  # fmt: skip
    versions = {"pytest-mlebench": __version__}
    told = Regrading(run_group="g", bench_version="v1", regraded_at=at(9000), versions=versions, runs=(run,))
    world.put("regraded-v1-1.json", json_text(asdict(told)))
    assert world.check("later grades").result is result


def test_a_difference_outweighs_unknown_results_and_other_runs_are_graded(world: World) -> None:
    world.another()
    world.graders.obstacles = {RUN: "no data"}
    assert world.check("grades") == Check("grades", CheckResult.unchecked, "1 of 2 runs", (f"{RUN}: no data",))
    world.put(f"{world.records[1].run_id}/submission/submission.csv", "0.5")
    found = world.check("grades")
    assert found.result is CheckResult.differs and found.detail == f"{len(found.reasons)} differences"
    assert found.reasons[0] == f"{world.records[1].run_id}: score {GOLD}, now 0.5"
    world.graders.obstacles = {}
    _left_out(world)
    assert world.check("grades").reasons == found.reasons


def test_a_submission_listed_as_omitted_is_graded_if_present(world: World) -> None:
    world.omit("submissions")
    assert world.differs("grades") == []
    (world.run_dir / "submission/submission.csv").unlink()
    world.left_out.clear()
    assert "submission exists True, now False" in world.differs("grades")


def test_without_runs_no_grades_are_known(world: World) -> None:
    world.records, world.edits = [], [lambda: shutil.rmtree(world.run_dir, ignore_errors=True)]
    world.omit(MISSING_RUNS)
    assert world.check("grades") == Check("grades", CheckResult.unchecked, "0 of 0 runs")
    assert world.check("records") == Check("records", CheckResult.verified, "0 runs")


TABLE: dict[str, tuple[Change, list[str]]] = {
    "a score": (
        raw(lambda v: v["scores"].update({RUN: 0.5}), TABLES),
        [f"tables.json: scores.{RUN} is 0.5, but {GOLD} follows from the records"]),
    "an additional score": (
        raw(lambda v: v["scores"].update(other=0.5), TABLES),
        ["tables.json: scores.other is 0.5, but None follows from the records"]),
    "a score that is not a number": (
        raw(lambda v: v["scores"].update({RUN: float("nan")}), TABLES),
        [f"tables.json: scores.{RUN} is nan, but {GOLD} follows from the records"]),
    "no table": (
        lambda world: world.edits.append(lambda: (world.folder / TABLES).unlink()), ["tables.json is missing"]),
    "a score of another version's table": (
        all_of(lambda world: setattr(world, "made_by", "pytest-mlebench 0.0.1"),
               raw(lambda v: v["scores"].update({RUN: 0.5}, other=1), TABLES)),
        [f"tables.json: scores.{RUN} is 0.5, but {GOLD} follows from the records"]),
    "a record": (
        all_of(report(score=0.5), raw(lambda v: v["scores"].update({RUN: GOLD}), TABLES)),
        [f"tables.json: scores.{RUN} is {GOLD}, but 0.5 follows from the records"]),
    "a record and its table": (
        report(score=0.5),
        [f"tables.json: scores.{RUN} is 0.5, but {GOLD} follows from the records"]),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_tables_match_the_records_and_the_new_grades(name: str, world: World) -> None:
    change, expected = TABLE[name]
    change(world)
    assert world.differs("tables") == expected


def test_fields_unknown_to_one_of_two_versions_are_not_checked(world: World) -> None:
    world.made_by = f"pytest-mlebench 0.0.1{'x' * 90}"
    assert world.differs("tables") == [], "both versions write the same"
    for change in (lambda v: v.clear(), lambda v: v.update(more=[]), lambda v: v["scores"].update(other=1)):
        world.later(TABLES, change)
        (tables,) = [check for check in world.card().checks if check.name == "tables"]
        assert tables.result is CheckResult.unchecked and "0.0.1" in tables.detail
        assert tables.reasons == ("tables.json: only one of the two versions writes some of its values",)
        world.edits.clear()
    text = f"tables: values that only pytest-mlebench 0.0.1{'x' * 29}, which made the bundle, or only this version has"
    assert text in world.card().not_checked


def test_a_missing_report_is_not_a_difference(world: World) -> None:
    world.files = lambda group: {"grading_report.json": {}, **scores(group)}
    assert world.differs("tables") == []
    world.later(TABLES, lambda v: v.update(scores={}))
    assert len(world.differs("tables")) == 1, "the next table is compared"
    world.edits.clear()
    world.put("grading_report.json", '{"a": 1}')
    assert world.differs("tables") == ["grading_report.json: a is 1, but None follows from the records"]


def _imported(world: World) -> None:
    group = imported(RunGroup(folder=world.folder, records=tuple(world.records), manifest=world.manifest))
    world.records, world.manifest = list(group.records), group.manifest


def test_settings_and_models_of_an_imported_group_cannot_be_checked(world: World) -> None:
    _imported(world)
    why = "the runs are from harbor 1, which records no sessions, limits or model calls to check"
    assert world.check("settings") == Check("settings", CheckResult.unchecked, "the runs were imported", (why,))
    assert "models" not in {check.name for check in world.card().checks}
    assert objections(world.write(), world.regrader, world.files) == []
    world.plan(options={"--cpus": "1"})
    assert world.check("settings").result is CheckResult.differs


def test_a_group_that_would_fail_verification_is_not_packed(world: World) -> None:
    world.report(score=0.5)  # only a grader can tell
    world.omit("submissions")
    bundle = world.write()
    (world.folder / TABLES).unlink()  # created while packing
    assert objections(bundle, world.regrader, world.files) == []
    assert set(world.versions) == {"v1"}
    world.record(split="low")
    world.plan(created_at="")
    world.files = lambda group: {"grading_report.json": {"a": 2}, **scores(group)}
    world.put("grading_report.json", '{"a": 1}')
    bundle = world.write()
    assert objections(bundle, world.regrader, world.files) == [
        f"records: {RUN}: it counts for low / Image Classification, but its competition does not",
        "settings: the times of the group or of its sessions are invalid",
        "tables: grading_report.json: a is 1, but 2 follows from the records",
    ]


def test_important_warnings_come_first(world: World) -> None:
    little = "left neither code nor recorded model calls, so there was little to audit"
    assert world.card().warnings == (f"1 of 1 run {little}",)
    world.another()
    assert world.card().warnings == (f"2 of 2 runs {little}",)
    world.put(f"{RUN}/code/main.py", "print()")
    assert world.card().warnings == (f"1 of 2 runs {little}",)
    world.put(f"{world.records[1].run_id}/trajectory.json", "{}")
    assert world.card().warnings == ()
    world.plan(runs=(*world.manifest.runs, *(PlannedRun("mine", COMPETITION.id, seed) for seed in (7, 8))))
    assert world.card().warnings == ("2 of 4 planned runs left no record",)
    world.plan(runs=world.manifest.runs[:2])
    world.records[0] = replace(world.records[0], sandbox=replace(world.records[0].sandbox, name="local"))
    (text,) = world.card().warnings
    assert text.startswith("local sandbox for 1 of 2 runs: nothing was isolated")
    world.records[1] = replace(world.records[1], sandbox=world.records[0].sandbox)
    (text,) = world.card().warnings
    assert text.startswith("local sandbox: nothing was isolated")
    noted = replace(world.manifest.sessions[0], changes=("limits cpus was 1, is 2",))
    world.plan(sessions=(world.manifest.sessions[0], noted))
    changed = "settings were changed between the sessions of this group (--allow-changes)"
    assert world.card().warnings == (text, changed)
