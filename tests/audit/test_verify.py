"""An unchanged bundle verifies on a machine that has only the data; a changed one never does."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from backports import zstd

from pytest_mlebench._version import __version__
from pytest_mlebench.catalog import Catalogue, Competition
from pytest_mlebench.cli.main import main
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import DataError, UsageError
from pytest_mlebench.extras.audit.familiarity import scores
from pytest_mlebench.extras.bundles.api import group_files
from pytest_mlebench.extras.bundles.bundle import TABLES, Bundle, read_bundle, write_bundle
from pytest_mlebench.extras.bundles.card import Card, CheckResult, card_sections
from pytest_mlebench.extras.bundles.verify import verify
from pytest_mlebench.grading.twins import TwinStore
from pytest_mlebench.io.values import json_text
from pytest_mlebench.llm.ledger import CALLS, Call, Ledger
from pytest_mlebench.llm.prices import Tokens
from pytest_mlebench.records.group import report_name, write_group
from pytest_mlebench.records.manifest import Manifest
from pytest_mlebench.records.record import MANIFEST
from pytest_mlebench.results import read_group
from pytest_mlebench.results.findings import FINDINGS
from pytest_mlebench.runs.regrade import Regrader
from tests.plugin.conftest import TOYS

pytestmark = pytest.mark.full

Values = dict[str, Any]


class World(NamedTuple):
    """A session's run group, its data, and the graders that regrade it with this data."""

    group: Path
    data: Path
    regrader: Regrader

    def pack(self, group: Path, target: Path, **options: Any) -> Bundle:
        return write_bundle(group, target, extra={TABLES: tables(self.group)}, **options)

    def card(self, file: Path, scratch: Path, **options: Any) -> Card:
        return verify(read_bundle(file, scratch), lambda _: self.regrader, files=group_files, **options)


def tables(group: Path) -> bytes:
    return json_text(group_files(read_group(group))[TABLES]).encode()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Two agents × two seeds on the toy competition; one run has the gateway's ledger of model calls."""
    kept = os.environ.get("MLEBENCH_TEST_WORLD")
    project = Path(kept) if kept else tmp_path_factory.mktemp("project")
    if (project / "runs/toys").is_dir():
        return world_in(project)
    shutil.copytree(TOYS, project, dirs_exist_ok=True)
    return made_world(project, ("toy/gold", "toy/silver"), seeds=2)


def made_world(project: Path, agents: Sequence[str], *, seeds: int) -> World:
    """A session of these agents in a folder with the toys; one run of toy/gold called models."""
    command = [sys.executable, "-m", "pytest", "competitions/toy-parity", "-q", "-p", "no:cacheprovider"]
    command += [f"{option}={agent}" for agent in agents for option in ("--agent", "--trust-agent")]
    command += [f"--seeds={seeds}", "--agents-dir=agents", "--data-dir=data"]
    command += ["--sandbox=local", "--run-group=toys", "--runs-dir=runs", "-c", "/dev/null", f"--rootdir={project}"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    _with_models(project / "runs/toys")
    return world_in(project)


def world_in(project: Path) -> World:
    group = project / "runs/toys"
    data = project / "data"
    regrader = Regrader(Catalogue(project / "competitions"), DataStore(data), partial(TwinStore, data))
    return World(group, data, regrader)


def _with_models(group: Path) -> None:
    record = next(record for record in read_group(group).records if record.agent == "toy/gold")
    run_dir = group / record.run_id
    ledger = Ledger(run_dir)
    for number in range(3):
        tokens = Tokens(input=100, output=10)
        ledger.write(
            Call(number=number, kind="generate", model="small", status=200, tokens=tokens, cost=Decimal("0.1"))
        )
        ledger.write_bodies(number, {"request": {"messages": []}, "response": {"choices": []}})
    ledger.close()
    steps = [{"step_id": k + 1, "source": "agent", "message": "Well.", "extra": {"call": k}} for k in range(3)]
    (run_dir / "trajectory.json").write_text(json.dumps({"steps": steps}))
    replace(record, llm={"gateway": "on", "providers": ["a"], **ledger.totals.to_json()}).write(run_dir)
    manifest = Manifest.read(group)
    assert manifest is not None
    records = read_group(group).records
    manifest.with_records(records).write(group)
    write_group(group, manifest.created_at, records)


def rewritten(group: Path) -> None:
    """Rewrite all files that depend on the records, as a knowledgeable forger would."""
    manifest = Manifest.read(group)
    assert manifest is not None
    records = read_group(group).records
    replace(manifest, models={}, images={}, connections={}, data={}, permissions={}).with_records(records).write(group)
    write_group(group, manifest.created_at, records)


@pytest.fixture
def copy(world: World, tmp_path: Path) -> Path:
    """A copy of the group, to be tampered with."""
    return Path(shutil.copytree(world.group, tmp_path / "copy" / "toys"))


def run_json(group: Path, agent: str = "gold") -> Path:
    return sorted(group.glob(f"*toy-{agent}-*/run.json"))[0]


def edit(path: Path, change: Callable[[Values], object]) -> None:
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


def in_record(change: Callable[[Values], object], agent: str = "gold") -> Callable[[Path], None]:
    return lambda group: edit(run_json(group, agent), change)


def in_manifest(change: Callable[[Values], object]) -> Callable[[Path], None]:
    return lambda group: edit(group / MANIFEST, change)


def _swap_submissions(group: Path) -> None:
    better, worse = (run_json(group, agent).parent / "submission/submission.csv" for agent in ("gold", "silver"))
    worse.write_bytes(better.read_bytes())


def _with_calls_of(group: Path) -> Path:
    (path,) = group.glob(f"*/{CALLS}")
    return path


def _fewer_calls(group: Path) -> None:
    path = _with_calls_of(group)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))


def _rename_model(group: Path) -> None:
    """Change the name in the record and the manifest, where readers would look."""
    run = _with_calls_of(group).parents[1] / "run.json"
    run.write_text(run.read_text().replace('"small"', '"large"'))
    (group / MANIFEST).write_text((group / MANIFEST).read_text().replace('"small"', '"large"'))


def _promote(values: Values) -> None:
    """Add a medal everywhere in a record."""
    values["report"] |= {"gold_medal": True, "silver_medal": False, "score": values["report"]["gold_threshold"]}
    values["outcome"] = "gold"
    values["timeline"][-1:] = [
        point | {"score": values["report"]["score"], "medal": "gold"} for point in values["timeline"][-1:]
    ]


def _drop_from_plan(values: Values) -> None:
    values["runs"].pop()


def _other_data(group: Path) -> None:
    digest = "0" * 32
    for path in [*group.glob("*/run.json"), group / MANIFEST]:
        values = json.loads(path.read_text())
        for own in values["data"].values() if path.name == MANIFEST else [values["data"]]:
            own["answers"] = digest
        path.write_text(json.dumps(values))


def _calls_that_never_were(group: Path) -> None:
    """Remove half of the cost from ledger, record and manifest; the trajectory still has the calls."""
    path = _with_calls_of(group)
    lines = path.read_text().splitlines(keepends=True)[:1]
    path.write_text("".join(lines))
    path.with_name("bodies.jsonl.zst").unlink()
    run = path.parents[1] / "run.json"
    own = {"calls": 1, "cost": 0.1, "known_cost": 0.1, "tokens": {"input": 100, "output": 10}}
    edit(run, lambda v: (v["llm"].update(own), v["llm"]["models"]["small"].update(calls=1, cost=0.1)))
    rewritten(group)


def _key_twice(group: Path) -> None:
    """Readers that use the first of two values see another score than those that use the last."""
    run = run_json(group)
    run.write_text(run.read_text().replace('"score":', '"score": 0.999, "score":', 1))


def _longer_than_its_limit(group: Path) -> None:
    edit(group / MANIFEST, lambda v: v["settings"]["limits"].update(time_limit=60.0))
    for path in group.glob("*/run.json"):
        edit(path, lambda v: v["limits"].update(time_limit=60.0))
    edit(run_json(group), lambda v: v.update(seconds=5000.0, started_at="2020-01-01T00:00:00+00:00"))


def _audit_of(group: Path, change: Callable[[Values], object]) -> None:
    """Add code that reads the answers to a run, audit the group, and change the audit."""
    (run_json(group).parent / "code").mkdir(exist_ok=True)
    (run_json(group).parent / "code/solution.py").write_text("print(open('/private/test.csv').read())\n")
    world_data = [f"--data-dir={group.parent / 'nothing'}", f"--competitions-dir={TOYS / 'competitions'}"]
    assert main(["audit", str(group), *world_data]) == 1
    edit(group / FINDINGS, change)


def _clean(values: Values) -> None:
    values["findings"] = []


def _with_plagiarism(group: Path, kept: int) -> None:
    """An audit that found two similar pairs, and contains only the given number of findings."""
    run_id = run_json(group).parent.name
    alike = {"run_id": run_id, "scanner": "plagiarism", "verdict": "look", "text": "70 % of it is in a/b"}
    account = {"library": "copydetect", "version": "1", "kgram": 30, "window": 15, "threshold": 0.6, "least": 250}

    def change(values: Values) -> None:
        values["findings"] += [alike] * kept
        values["plagiarism"] = {**account, "runs": values["runs"], "pairs": {run_id: 2}}

    _audit_of(group, change)


def _graded_again(group: Path, change: Callable[[Values], object]) -> None:
    """Regrade with the same results, and change these afterwards."""
    runs = [
        {
            "run_id": record.run_id,
            **record.key._asdict(),
            "before": record.report.to_json(),
            "after": record.report.to_json(),
        }
        for record in read_group(group).records
    ]
    values: Values = {
        "run_group": "toys",
        "bench_version": "v1",
        "regraded_at": "2100-01-01T00:00:00+00:00",
        "runs": runs,
    }
    values["versions"] = {"pytest-mlebench": __version__}
    change(values)
    (group / "regraded-v1-21000101T000000.json").write_text(json.dumps(values))


def _better_later(values: Values) -> None:
    """Change a later grade and everything that depends on it."""
    run = next(run for run in values["runs"] if run["agent"] == "toy/silver")
    run["after"] |= {"score": 0.999}
    run["changes"] = [f"score {run['before']['score']}, now 0.999"]


def _judge_without_account(group: Path) -> None:
    _audit_of(group, lambda v: None)
    (group / "judge").mkdir()
    (group / "judge/votes.jsonl").write_text("{}\n")


def _familiarity(group: Path, r: float = 0.1) -> None:
    """A measurement with invented correlation and scores."""
    known = [{"competition_id": "toy-parity", "familiarity": 0.1, "scores": {"toy/gold": 0.123}}]
    found = [{"agent": "toy/gold", "competitions": 22, "r": r, "low": -0.3, "high": 0.4}]
    values = {"model": "base", "correlations": found, "competitions": known}
    (group / "familiarity-base.json").write_text(json.dumps(values))


def _familiarity_twice(group: Path) -> None:
    """A competition listed twice, with a wrong and the correct score."""
    load = Competition.load
    own, _ = scores(read_group(group).records, lambda id: load(TOYS / f"competitions/{id}/competition.yaml"))
    listed = [
        {"competition_id": "toy-parity", "familiarity": 0.1, "scores": {"toy/gold": score}}
        for score in (0.123, own["toy/gold"]["toy-parity"])
    ]
    values = {"model": "base", "correlations": [], "competitions": listed}
    (group / "familiarity-base.json").write_text(json.dumps(values))


TAMPERINGS: dict[str, Callable[[Path], object]] = {
    "a score in a record": in_record(lambda v: v["report"].update(score=0.99)),
    "a medal and everything that depends on it": in_record(_promote, "silver"),
    "an outcome": in_record(lambda v: v.update(outcome="gold"), "silver"),
    "a threshold": in_record(lambda v: v["report"].update(gold_threshold=0.1)),
    "a submission": _swap_submissions,
    "a run that is missing": lambda group: shutil.rmtree(run_json(group, "silver").parent),
    "a run that was not planned": in_manifest(_drop_from_plan),
    "a record in another run's folder": lambda group: run_json(group, "gold").replace(run_json(group, "silver")),
    "a seed": in_record(lambda v: v.update(seed=7)),
    "a model's name": _rename_model,
    "a call that is not in the ledger": _fewer_calls,
    "the cost of the models": lambda group: edit(
        _with_calls_of(group).parents[1] / "run.json", lambda v: v["llm"].update(cost=0.01, known_cost=0.01)
    ),
    "a limit in a record": in_record(lambda v: v["limits"].update(time_limit=1.0)),
    "a limit in the manifest": in_manifest(lambda v: v["settings"]["limits"].update(time_limit=1.0)),
    "the canonical setting": in_manifest(lambda v: v.update(canonical={"is_canonical": True, "differences": []})),
    "the machine": in_manifest(lambda v: v["sessions"][0]["hardware"].update(cpus=4096)),
    "an agent's argument": in_record(lambda v: v["agent_definition"]["kwargs"].update(right=3)),
    "the digest of the data": _other_data,
    "that the data was verified": in_record(lambda v: v.update(data_verified=not v["data_verified"])),
    "that the data was synthetic": in_record(lambda v: v.update(synthetic_data=not v["synthetic_data"])),
    "the time that a run took": in_record(lambda v: v.update(seconds=1e6)),
    "a split": in_record(lambda v: v.update(split="low")),
    "the version of the benchmark": in_record(lambda v: v["report"].update(bench_version="v2")),
    "a score of the timeline": in_record(lambda v: v["timeline"][0].update(score=0.123)),
    "the grading report": lambda group: edit(group / "grading_report.json", lambda v: v.update(total_gold_medals=4)),
    "a run's success": lambda group: edit(
        group / "metadata.json", lambda v: next(iter(v["runs"].values())).update(success=False)
    ),
    "an audit made clean": lambda group: _audit_of(group, _clean),
    "a finding with a lower severity": lambda group: _audit_of(
        group, lambda v: v["findings"][0].update(verdict="look")
    ),
    "an audit that cannot be read": lambda group: (group / FINDINGS).write_text('{"runs": 3}'),
    "a finding of plagiarism that was deleted": lambda group: _with_plagiarism(group, 1),
    "the account of a judge": _judge_without_account,
    "a later grade": lambda group: _graded_again(group, _better_later),
    "a first grade next to a later one": lambda group: _graded_again(
        group, lambda v: v["runs"][0]["before"].update(score=0.1)
    ),
    "a change between grades": lambda group: _graded_again(group, lambda v: v["runs"][0].update(changes=["better"])),
    "a run left out of later grades": lambda group: _graded_again(group, lambda v: v["runs"].pop()),
    "a later grade of an invented run": lambda group: _graded_again(
        group, lambda v: v["runs"][0].update(run_id="toy-parity_other")
    ),
    "unreadable later grades": lambda group: (group / "regraded-v1-1.json").write_text("[]"),
    "a familiarity": _familiarity,
    "a familiarity that is listed twice": _familiarity_twice,
    "calls removed from ledger, record and manifest": _calls_that_never_were,
    "a cost that is not a number": lambda group: edit(
        _with_calls_of(group).parents[1] / "run.json", lambda v: v["llm"].update(known_cost=float("nan"))
    ),
    "a duplicate key": _key_twice,
    "a limit below what a run took": _longer_than_its_limit,
    "a negative time": in_record(lambda v: v.update(seconds=-1.0)),
    "that it ran without isolation": in_record(lambda v: v["permissions"]["used"].pop("no_isolation")),
    "a host that it reached": in_record(lambda v: v["permissions"]["used"].update(hosts=["evil.example:443"])),
    "a secret that was not granted": in_record(lambda v: v["permissions"]["used"].update(secrets=["TOKEN"])),
    "that its agent was trusted": in_record(lambda v: v["permissions"]["granted"].pop("trust_agents")),
    "permissions in the manifest": in_manifest(lambda v: v["permissions"]["toy/gold"].pop("no_isolation")),
    "malformed permissions": in_record(lambda v: v.update(permissions={"used": ["all"]})),
    "another competition": in_record(lambda v: v.update(competition_id="toy-distance")),
    "a score that is not a number": in_record(lambda v: v["report"].update(score=float("nan"))),
    "an invalid record": lambda group: run_json(group).write_text("{}"),
}


SEEN_BY = {
    "an audit made clean": "audit",
    "a finding with a lower severity": "audit",
    "an audit that cannot be read": "audit",
    "a finding of plagiarism that was deleted": "plagiarism",
    "the account of a judge": "judge",
    "a later grade": "later grades",
    "a first grade next to a later one": "later grades",
    "a change between grades": "later grades",
    "a run left out of later grades": "later grades",
    "a later grade of an invented run": "later grades",
    "unreadable later grades": "later grades",
    "a familiarity": "familiarity",
    "a familiarity that is listed twice": "familiarity",
    "calls removed from ledger, record and manifest": "models",
    "a cost that is not a number": "records",
    "a duplicate key": "records",
    "a limit below what a run took": "settings",
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_a_changed_group_does_not_verify_even_with_a_new_index(
    name: str, world: World, copy: Path, tmp_path: Path
) -> None:
    before = world.pack(copy, tmp_path / "before.tar.zst")
    TAMPERINGS[name](copy)
    after = world.pack(copy, tmp_path / "after.tar.zst")
    assert after.digest != before.digest
    card = world.card(tmp_path / "after.tar.zst", tmp_path)
    assert card.result is (CheckResult.unchecked if name == "the digest of the data" else CheckResult.differs)
    assert any(check.reasons for check in card.checks)
    if name in SEEN_BY:
        assert SEEN_BY[name] in {check.name for check in card.checks if check.result is CheckResult.differs}


def test_an_unchanged_bundle_verifies_and_every_number_is_recomputed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bundle", str(world.group)]) == 0
    *_, digest = capsys.readouterr().out.split()
    options = [f"--data-dir={world.data}", f"--competitions-dir={TOYS / 'competitions'}"]
    assert main(["verify", "toys.tar.zst", *options, "--digest", digest, "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert card["headline"].startswith("files are consistent and scores reproduce; 2 of 4 runs need a look")
    assert card["result"] == "look" and f"sha256:{card['digest']}" == digest, "scores of 1 are perfect"
    assert {check["result"] for check in card["checks"]} == {"agrees"}
    assert card["warnings"][0].startswith("local sandbox: nothing was isolated")
    (grades,) = [check["detail"] for check in card["checks"] if check["name"] == "grades"]
    assert grades.startswith("4 submissions graded again")
    states = {line["name"]: line["state"] for line in card["profile"]}
    assert states["seeds"] == states["hardware"] == "differs (declared)" and states["audit"] == "differs (declared)"
    assert states["models called"] == states["provider tools"] == "unknown"

    assert main(["verify", "toys.tar.zst", *options, "--digest", "0" * 64]) == 1
    refused = capsys.readouterr().out
    assert main(["verify", "toys.tar.zst", *options, "--digest", "SHA256"]) == 2
    assert "digest: 'SHA256' is not 64 hexadecimal digits" in capsys.readouterr().err
    assert "toys: differs (index)" in refused and "`mlebench bundle` prints it" in refused
    # Without the data, nothing is confirmed.
    assert main(["verify", "toys.tar.zst", f"--data-dir={tmp_path / 'none'}", options[1]]) == 1
    assert "grades: cannot be checked: 4 of 4 runs" in capsys.readouterr().out
    assert main(["verify", "-c", "smoke-digits", "--digest", "0" * 64]) == 2


def test_repeated_and_missing_runs_are_not_tampering(world: World, copy: Path, tmp_path: Path) -> None:
    again = run_json(copy)
    earlier = Path(shutil.copytree(again.parent, copy / f"{again.parent.name}-first"))
    edit(earlier / "run.json", lambda v: v.update(run_id=earlier.name, started_at="2020-01-01T00:00:00+00:00"))
    world.pack(copy, tmp_path / "again.tar.zst")
    (tmp_path / "a").mkdir()
    assert world.card(tmp_path / "again.tar.zst", tmp_path / "a").result is CheckResult.verified

    edit(copy / MANIFEST, lambda v: v["runs"].append({**v["runs"][0], "seed": 9}))  # interrupted before this one
    group = read_group(copy)
    write_bundle(copy, tmp_path / "part.tar.zst", extra={TABLES: tables(copy)}, missing_runs=1)
    (tmp_path / "b").mkdir()
    card = world.card(tmp_path / "part.tar.zst", tmp_path / "b")
    assert len(group.planned) == 5 and card.result is CheckResult.verified
    assert any("planned runs without a record: 1 (" in text for text in card.left_out)
    assert {line.name: line.detail for line in card.profile}["seeds"] == "1 of 5 planned runs without a result"


def _every(group: Path, change: Callable[[Values], object]) -> None:
    for path in group.glob("*/run.json"):
        edit(path, change)


def _moved(group: Path, was: str, now: str) -> None:
    """Rename run directories, whose names identify the run, along with their records."""
    for path in sorted(group.glob(f"*{was}*")):
        edit(path / "run.json", lambda v: v.update(run_id=v["run_id"].replace(was, now)))
        path.rename(path.with_name(path.name.replace(was, now)))


def _renumbered(group: Path) -> None:
    _every(group, lambda v: v.update(seed=v["seed"] + 5))
    edit(group / MANIFEST, lambda v: [run.update(seed=run["seed"] + 5) for run in v["runs"]])
    for seed in (0, 1):
        _moved(group, f"-{seed}-", f"-{seed + 5}-")


def _without_the_worst_seed(group: Path) -> None:
    for path in group.glob("*/run.json"):
        if json.loads(path.read_text())["seed"] == 1:
            shutil.rmtree(path.parent)
    edit(group / MANIFEST, lambda v: v.update(runs=[run for run in v["runs"] if run["seed"] != 1]))


def _renamed_agent(group: Path) -> None:
    for path in [*group.glob("*/run.json"), group / MANIFEST]:
        path.write_text(path.read_text().replace("toy/silver", "toy/shiny"))
    _moved(group, "toy-silver-", "toy-shiny-")
    (group / report_name("toy/silver")).unlink()


def _quicker(group: Path) -> None:
    _every(group, lambda v: (v.update(seconds=0.001), [point.update(seconds=0.0) for point in v["timeline"]]))


def _a_better_submission_with_its_grade(group: Path) -> None:
    better, worse = run_json(group, "gold"), run_json(group, "silver")
    given = json.loads(better.read_text())
    for path in ("submission/submission.csv", *(point["file"] for point in given["timeline"])):
        (worse.parent / path).parent.mkdir(exist_ok=True)
        shutil.copyfile(better.parent / path, worse.parent / path)
    names = ("report", "timeline", "outcome", "last_change", "validation_score")
    edit(worse, lambda v: v.update({name: given[name] for name in names if name in given}))


FORGERIES: dict[str, Callable[[Path], object]] = {
    "seeds with other numbers": _renumbered,
    "the worst seed left out of plan and runs": _without_the_worst_seed,
    "another name of an agent": _renamed_agent,
    "shorter times": _quicker,
    "a better submission, with its grade": _a_better_submission_with_its_grade,
}
"""Consistent changes of all related files, which leave no contradiction."""


@pytest.mark.parametrize("name", FORGERIES)
def test_a_consistent_forgery_is_detected_only_by_digest_or_signature(
    name: str, world: World, copy: Path, tmp_path: Path
) -> None:
    published = world.pack(copy, tmp_path / "honest.tar.zst").digest
    FORGERIES[name](copy)
    rewritten(copy)
    write_bundle(copy, tmp_path / "forged.tar.zst", extra={TABLES: tables(copy)})
    signers = tmp_path / "signers"
    signers.write_text("")
    asked: list[tuple[Values, CheckResult]] = [
        ({}, CheckResult.verified),
        ({"digest": published}, CheckResult.differs),
        ({"allowed_signers": signers}, CheckResult.differs),
    ]
    for number, (options, result) in enumerate(asked):
        (tmp_path / str(number)).mkdir()
        card = world.card(tmp_path / "forged.tar.zst", tmp_path / str(number), **options)
        assert card.result is result, card.checks
        if not options:
            shown = "\n".join(section.text() for section in card_sections(card))
            assert "not signed: the files agree" in shown, "the bundle claims no more"


def test_an_honest_audit_and_later_grades_are_reproduced(world: World, copy: Path, tmp_path: Path) -> None:
    _with_plagiarism(copy, 2)
    assert main(["regrade", str(copy), f"--data-dir={world.data}", f"--competitions-dir={TOYS / 'competitions'}"]) == 0
    world.pack(copy, tmp_path / "b.tar.zst")
    card = world.card(tmp_path / "b.tar.zst", tmp_path)
    details = {check.name: check.detail for check in card.checks}
    assert card.result is CheckResult.verified, card.checks
    assert details["audit"] == "scanners find nothing more in 4 runs"
    assert details["later grades"] == "4 submissions graded again"
    assert details["plagiarism"].startswith("as many findings as its account says")
    # The files that scanners read were omitted, so the result is unknown.
    world.pack(copy, tmp_path / "less.tar.zst", leave_out=["code"])
    (tmp_path / "less").mkdir()
    card = world.card(tmp_path / "less.tar.zst", tmp_path / "less")
    assert {check.name: check.detail for check in card.checks}["audit"] == "scanner input was left out: code"
    assert card.result is CheckResult.unchecked


STRANGE: dict[str, Callable[[Path], object]] = {
    "no workers": in_manifest(lambda v: v["sessions"][0].update(workers=0)),
    "a limit that is not a number": in_manifest(lambda v: v["settings"]["limits"].update(time_limit=float("nan"))),
    "an infinite time": in_record(lambda v: v["limits"].update(time_limit=float("inf"))),
    "an invalid time": in_record(lambda v: v.update(started_at="x", ended_at="-1")),
    "an infinite threshold": in_record(lambda v: v["report"].update(gold_threshold=float("inf"))),
    "a run's id with a path to the parent": in_record(lambda v: v.update(run_id="../../../../etc")),
    "a file with a path to the parent": in_record(lambda v: v["timeline"][0].update(file="../../../etc/passwd")),
    "an unknown version of the benchmark": in_manifest(lambda v: v["settings"].update(bench_version="v9")),
    "invalid agents": in_manifest(lambda v: v["settings"].update(agents={"toy/gold": {"id": 3}})),
    "a manifest of lists": lambda group: (group / MANIFEST).write_text("[" * 90 + "]" * 90),
    "a competition with a path to the parent": in_record(lambda v: v.update(competition_id="../toy-parity")),
}


@pytest.mark.parametrize("name", STRANGE)
def test_impossible_values_are_a_difference_and_not_a_traceback(
    name: str, world: World, copy: Path, tmp_path: Path
) -> None:
    STRANGE[name](copy)
    world.pack(copy, tmp_path / "strange.tar.zst")
    card = world.card(tmp_path / "strange.tar.zst", tmp_path)
    assert card.result is CheckResult.differs


def test_omitted_files_are_listed_and_not_counted_as_verified(world: World, tmp_path: Path) -> None:
    world.pack(world.group, tmp_path / "b.tar.zst", leave_out=["submissions", "code"])
    card = world.card(tmp_path / "b.tar.zst", tmp_path)
    assert card.result is CheckResult.unchecked
    assert "submissions: 4 (by --leave-out)" in card.left_out


def test_a_signature_shows_who_created_a_bundle(world: World, tmp_path: Path) -> None:
    keys = [tmp_path / name for name in ("ours", "theirs")]
    for key in keys:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key, "-C", "x"], check=True)
    signers = tmp_path / "signers"
    signers.write_text(f"lab@example.org {keys[0].with_suffix('.pub').read_text()}")
    for number, key in enumerate(keys):
        world.pack(world.group, tmp_path / f"{number}.tar.zst", key=key)
    (tmp_path / "a").mkdir()
    ours = world.card(tmp_path / "0.tar.zst", tmp_path / "a", allowed_signers=signers)
    assert ours.result is CheckResult.verified
    (said,) = [check.detail for check in ours.checks if check.name == "signature"]
    assert "good, by lab@example.org" in said
    (tmp_path / "b").mkdir()
    theirs = world.card(tmp_path / "1.tar.zst", tmp_path / "b", allowed_signers=signers)
    assert [check.name for check in theirs.checks if check.result is CheckResult.differs] == ["signature"]
    # A valid signature of another index does not count, nor does a missing one.
    (tmp_path / "c").mkdir()
    packed = read_bundle(tmp_path / "0.tar.zst", tmp_path / "c")
    for signature in (world.pack(copy_of(world, tmp_path), tmp_path / "2.tar.zst", key=keys[0]).signature, None):
        swapped = replace(packed, signature=signature)
        card = verify(swapped, lambda _: world.regrader, files=group_files, allowed_signers=signers)
        assert card.result is CheckResult.differs


def copy_of(world: World, tmp_path: Path) -> Path:
    group = Path(shutil.copytree(world.group, tmp_path / "other" / "toys"))
    run_json(group).with_name("run.log").write_text("another log")
    return group


Member = tuple[str, bytes]


def members(file: Path) -> list[Member]:
    with zstd.open(file, "rb") as stream, tarfile.open(fileobj=io.BytesIO(stream.read())) as archive:
        return [(m.name, archive.extractfile(m).read()) for m in archive]  # type: ignore[union-attr]


def pack(found: list[Member], target: Path, *, kind: bytes = tarfile.REGTYPE) -> Path:
    """Write an archive of these members; the last may be a special file."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, value in found:
            header = tarfile.TarInfo(name)
            header.size = len(value)
            if name == found[-1][0] and kind != tarfile.REGTYPE:
                header.type, header.linkname, header.size = kind, "/etc/passwd", 0
            archive.addfile(header, io.BytesIO(value))
    target.write_bytes(zstd.compress(content.getvalue()))
    return target


def reindexed(found: list[Member], change: Callable[[Values], object]) -> list[Member]:
    (name, content), *others = found
    values = json.loads(content)
    change(values)
    return [(name, json.dumps(values).encode()), *others]


def with_files(bundle: Path, name: str, files: dict[str, bytes], *, only: bool = False) -> Path:
    """Write another bundle next to this one, with these files added, or with these only."""
    index, *blobs = members(bundle)
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    entries = [{"path": path, "size": len(files[path]), "sha256": digest} for path, digest in digests.items()]
    contents = {f"blobs/{digest}": files[path] for path, digest in digests.items()} | dict([] if only else blobs)

    def change(values: Values) -> None:
        values["files"] = entries if only else values["files"] + entries

    return pack(reindexed([index, *contents.items()], change), bundle.with_name(name))


def _first(key: str, value: Any, **more: Any) -> Callable[[list[Member]], list[Member]]:
    return lambda found: reindexed(found, lambda v: v["files"][0].update({key: value, **more}))


HOSTILE: dict[str, tuple[Callable[[list[Member]], list[Member]], str]] = {
    "content": (lambda m: [*m[:-1], (m[-1][0], b"x" * len(m[-1][1]))], "its SHA-256 differs"),
    "length": (lambda m: [*m[:-1], (m[-1][0], m[-1][1] + b"x")], "bytes and not"),
    "a missing member": (lambda m: m[:-1], "is missing"),
    "an additional member": (lambda m: [*m, ("blobs/" + "0" * 64, b"")], "is not in the index"),
    "a duplicate member": (lambda m: [*m, m[-1]], "is a duplicate"),
    "a member with a path": (lambda m: [*m, ("../../evil", b"x")], "is not in the index"),
    "no index": (lambda m: m[1:], "first member"),
    "a path to the parent": (_first("path", "../evil"), "not within a run group"),
    "an absolute path": (_first("path", "/tmp/evil"), "not within a run group"),
    "a path with a control character": (_first("path", "a\x1b[2J"), "not within a run group"),
    "a path as file and folder": (
        lambda m: reindexed(m, lambda v: v["files"][0].update(path="manifest.json/inside")),
        "as both a file and a folder",
    ),
    "a negative size": (_first("size", -1), "unpacks to"),
    "a size that is too large": (_first("size", 1 << 50), "at most"),
    "a group's name with a path to the parent": (
        lambda m: reindexed(m, lambda v: v.update(run_group="..")),
        "not the name of a run group",
    ),
    "a later format": (lambda m: reindexed(m, lambda v: v.update(version=99)), "version 99"),
    "a key of the index twice": (
        lambda m: [("index.json", m[0][1].replace(b'"run_group"', b'"run_group": "other", "run_group"')), *m[1:]],
        "has the duplicate key 'run_group'",
    ),
    "a file of the index twice": (
        lambda m: reindexed(m, lambda v: v["files"].append(v["files"][0])),
        "its index has the duplicate path",
    ),
    "an invalid digest": (_first("sha256", "0" * 63 + "G"), "no valid SHA-256"),
    "a large list of runs in progress": (_first("path", "x/running.json", size=(1 << 20) + 1), "at most 1 MiB are"),
    "a large record": (_first("path", "x/run.json", size=(16 << 20) + 1), "at most 16 MiB are"),
    "a large report": (_first("path", "grading_report.json", size=(64 << 20) + 1), "at most 64 MiB are"),
    "a large index": (lambda m: reindexed(m, lambda v: v.update(x=[[]] * 1_000_001)), "too many objects and lists"),
    "a deeply nested index": (lambda m: [("index.json", b"[" * 100_000), *m[1:]], "levels"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_archive_that_contradicts_its_index_is_rejected(name: str, world: World, tmp_path: Path) -> None:
    world.pack(world.group, tmp_path / "honest.tar.zst")
    change, why = HOSTILE[name]
    file = pack(change(members(tmp_path / "honest.tar.zst")), tmp_path / "hostile.tar.zst")
    (tmp_path / "into").mkdir()
    with pytest.raises(DataError, match=why):
        read_bundle(file, tmp_path / "into")
    outside = {path.name for path in tmp_path.iterdir()}
    assert outside == {"honest.tar.zst", "hostile.tar.zst", "into"}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_links_and_special_members_are_rejected(kind: bytes, world: World, tmp_path: Path) -> None:
    world.pack(world.group, tmp_path / "honest.tar.zst")
    file = pack(members(tmp_path / "honest.tar.zst"), tmp_path / "hostile.tar.zst", kind=kind)
    with pytest.raises(DataError, match="not a regular file"):
        read_bundle(file, tmp_path)


def test_reading_a_bomb_stops_at_the_limit_of_index_or_reader(world: World, tmp_path: Path) -> None:
    world.pack(world.group, tmp_path / "honest.tar.zst")
    with pytest.raises(DataError, match="at most 10"):
        read_bundle(tmp_path / "honest.tar.zst", tmp_path, max_bytes=10)
    content = (tmp_path / "honest.tar.zst").read_bytes()
    for cut in (3, 200, len(content) - 20):
        (tmp_path / "cut.tar.zst").write_bytes(content[:cut])
        with pytest.raises(DataError):
            read_bundle(tmp_path / "cut.tar.zst", tmp_path / "nowhere")
        (tmp_path / "nowhere").mkdir(exist_ok=True)
        shutil.rmtree(tmp_path / "nowhere")
    header = tarfile.TarInfo("index.json")
    header.size = 1 << 40  # a member with a declared size of a terabyte
    (tmp_path / "bomb.tar.zst").write_bytes(zstd.compress(header.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 24)))
    with pytest.raises(DataError, match="first member"):
        read_bundle(tmp_path / "bomb.tar.zst", tmp_path)


def test_small_bundles_cannot_take_much_disk_or_memory(world: World, tmp_path: Path) -> None:
    world.pack(world.group, tmp_path / "honest.tar.zst")

    def read(files: dict[str, bytes], max_bytes: int = 64 << 20) -> Bundle:
        (tmp_path / "into").mkdir(exist_ok=True)
        bundle = with_files(tmp_path / "honest.tar.zst", "b.tar.zst", files, only=True)
        return read_bundle(bundle, tmp_path / "into", max_bytes=max_bytes)

    deep = {f"{number}/{'a/' * 57}f": b"" for number in range(20)}
    with pytest.raises(DataError, match=r"it unpacks to 4\.531 MiB, but at most 4 MiB"):
        read(deep, 4 << 20)
    full = b"[" + b"[]," * 4_000_000 + b"1]"
    for name in ("x/trajectory.json", "judge/votes.jsonl"):
        with pytest.raises(DataError, match=rf"{name} has more than 4,000,000 objects and lists"):
            read({name: full})
        shutil.rmtree(tmp_path / "into")
    assert read({"x/code/a.json": full, **deep}).index.size == len(full)


def test_files_that_no_reader_accepts_are_not_packed(world: World, copy: Path, tmp_path: Path) -> None:
    """The harness keeps messages of such a size, so an agent can cause it."""
    (run_json(copy).parent / "trajectory.json").write_bytes(b'"' + b"[" * 4_000_001 + b'"')
    world.pack(copy, tmp_path / "b.tar.zst")
    (own,) = read_bundle(tmp_path / "b.tar.zst", tmp_path).index.left_out
    assert (own.what, own.files, own.why) == ("trajectories", 1, "more than 4,000,000 objects and lists")
    with (copy / FINDINGS).open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(UsageError, match=r"was not packed: audit\.json has 64 MiB, but at most 64 MiB are allowed"):
        world.pack(copy, tmp_path / "c.tar.zst")
    (copy / FINDINGS).write_bytes(b"[" * 4_000_001)
    with pytest.raises(UsageError, match=r"audit\.json cannot be packed: it has more than 4,000,000 objects"):
        world.pack(copy, tmp_path / "c.tar.zst")


def test_data_after_the_end_of_an_archive_is_rejected(world: World, tmp_path: Path) -> None:
    """Other programs might read such data, which the digest does not cover."""
    world.pack(world.group, tmp_path / "honest.tar.zst")
    honest = (tmp_path / "honest.tar.zst").read_bytes()
    more = pack([("manifest.json", b"{}")], tmp_path / "more.tar.zst").read_bytes()
    for name, content in (("frame", more), ("zeros", zstd.compress(bytes(1 << 24)))):
        (tmp_path / f"{name}.tar.zst").write_bytes(honest + content)
        (tmp_path / name).mkdir()
        with pytest.raises(DataError, match="data follows its end"):
            read_bundle(tmp_path / f"{name}.tar.zst", tmp_path / name)


def test_names_that_differ_in_unicode_normalization_stay_two_files(world: World, copy: Path, tmp_path: Path) -> None:
    code = run_json(copy).parent / "code"
    code.mkdir(exist_ok=True)
    for form in ("NFC", "NFD"):
        (code / unicodedata.normalize(form, "modèle.py")).write_text(form)
    world.pack(copy, tmp_path / "b.tar.zst")
    found = read_bundle(tmp_path / "b.tar.zst", tmp_path)
    texts = {path.name: path.read_text() for path in found.folder.glob("*/code/mod*.py")}
    assert texts == {unicodedata.normalize(form, "modèle.py"): form for form in ("NFC", "NFD")}


def test_links_in_a_group_are_reported_and_not_followed(world: World, copy: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    run_dir = run_json(copy).parent
    (run_dir / "code").mkdir(exist_ok=True)
    (run_dir / "code/link").symlink_to(tmp_path / "secret")
    (run_dir / "code/folder").symlink_to(tmp_path)
    made = world.pack(copy, tmp_path / "b.tar.zst")
    assert all("link" not in entry.path and "folder" not in entry.path for entry in made.index.files)
    assert [(own.what, own.files) for own in made.index.left_out] == [("links and special files", 2)]
