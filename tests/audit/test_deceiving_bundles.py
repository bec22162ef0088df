"""Results and exit status of ``mlebench verify`` for honest bundles, and for forged ones in which all files that depend
on a change were rewritten."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench._version import __version__
from pytest_mlebench.cli.main import main
from pytest_mlebench.extras.bundles.bundle import TABLES, write_bundle
from pytest_mlebench.extras.bundles.card import Card, CheckResult
from pytest_mlebench.llm.ledger import BODIES, CALLS
from pytest_mlebench.records.group import report_name
from pytest_mlebench.records.record import MANIFEST
from pytest_mlebench.results import read_group
from pytest_mlebench.results.findings import FINDINGS
from pytest_mlebench.results.profile import fairness_profile
from tests.audit.test_verify import (
    World,
    copy,
    edit,
    in_manifest,
    in_record,
    rewritten,
    run_json,
    tables,
    with_files,
    world,
)
from tests.plugin.conftest import TOYS

__all__ = ["copy", "world"]
pytestmark = pytest.mark.full
Values = dict[str, Any]


def card_of(world: World, group: Path, scratch: Path, **options: Any) -> Card:
    """Verify a bundle of the group, with tables and an index that match its present state."""
    try:
        extra = tables(group)
    except Exception:  # the tables cannot be computed from such records
        extra = b"{}"
    write_bundle(group, scratch / "b.tar.zst", extra={TABLES: extra})
    (scratch / "read").mkdir()
    return world.card(scratch / "b.tar.zst", scratch / "read", **options)


def every(change: Callable[[Values], object]) -> Callable[[Path], None]:
    def changed(group: Path) -> None:
        for path in group.glob("*/run.json"):
            edit(path, change)

    return changed


def both(*changes: Callable[[Path], object]) -> Callable[[Path], None]:
    def changed(group: Path) -> None:
        for change in changes:
            change(group)

    return changed


def with_changes(*texts: str, session: int = 0) -> Callable[[Path], None]:
    return in_manifest(lambda v: v["sessions"][session].update(changes=list(texts)))


def later(text: str, days: float) -> str:
    return (datetime.fromisoformat(text) + timedelta(days=days)).isoformat()


def _shifted(days: float) -> Callable[[Values], object]:
    return lambda v: v.update(started_at=later(v["started_at"], days), ended_at=later(v["ended_at"], days))


def _gold_point(**more: Any) -> Callable[[Path], None]:
    point = {"seconds": 0.001, "score": 1.0, "medal": "gold", "file": "snapshots/0001.csv", "final": False, **more}
    return in_record(lambda v: v["timeline"].insert(0, point), "silver")


def _asked(group: Path) -> Path:
    (path,) = group.glob(f"*/{CALLS}")
    return path.parents[1]


def in_asked(change: Callable[[Values], object]) -> Callable[[Path], None]:
    return lambda group: edit(_asked(group) / "run.json", change)


def in_ledger(change: Callable[[list[Values]], object]) -> Callable[[Path], None]:
    def changed(group: Path) -> None:
        path = _asked(group) / CALLS
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        change(lines)
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    return changed


def _tokens_everywhere(group: Path) -> None:
    """Reduce the tokens in the record and its models, but not in the ledger."""
    in_asked(lambda v: (v["llm"]["tokens"].update(input=3), v["llm"]["models"]["small"].update(input_tokens=3)))(group)


def _second_attempt(group: Path) -> None:
    """Delete the record of the bad seed, but keep its files."""
    run_json(group, "silver").unlink()


def _stray_snapshot(group: Path) -> None:
    folder = run_json(group, "silver").parent / "snapshots"
    folder.mkdir(exist_ok=True)
    shutil.copyfile(run_json(group).parent / "submission/submission.csv", folder / "0007.csv")


def _stray_files(group: Path) -> None:
    (group / "more").mkdir()
    (group / "more/run.log").write_text("x")


def _code(text: str) -> Callable[[Path], None]:
    def changed(group: Path) -> None:
        for path in group.glob("*/run.json"):
            (path.parent / "code").mkdir(exist_ok=True)
            (path.parent / "code/solution.py").write_text(text)

    return changed


TAMPERINGS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a note of changes, and limits of a record": (
        "settings", both(with_changes("x"), in_record(lambda v: v["limits"].update(time_limit=3600.0)))),
    "a note of changes, and limits of all records": (
        "settings", both(with_changes("x"), every(lambda v: v["limits"].update(time_limit=864000.0)))),
    "a note of changes, and another agent": (
        "settings", both(with_changes("x"), in_record(lambda v: v["agent_definition"]["kwargs"].update(right=3)))),
    "a note of changes, and the canonical setting": (
        "settings",
        both(with_changes("x"), in_manifest(lambda v: v.update(canonical={"is_canonical": True, "differences": []})))),
    "a well-formed note of the first session": (
        "settings", both(with_changes("limits time_limit was 3600.0, is 86400.0"),
                         in_record(lambda v: v["limits"].update(time_limit=3600.0)))),
    "a note of a value that the settings do not have": (
        "settings", in_manifest(lambda v: v["sessions"].append(
            {**v["sessions"][0], "changes": ["limits cpus was 2, is 3"]}))),
    "a note that is code": ("settings", with_changes("limits time_limit was __import__('os'), is 1")),
    "settings without limits": ("settings", in_manifest(lambda v: v["settings"].pop("limits"))),
    "settings without agents": ("settings", in_manifest(lambda v: v["settings"].update(agents={}))),
    "a manifest without sessions": ("settings", in_manifest(lambda v: v.update(sessions=[]))),
    "a manifest without the canonical setting": ("settings", in_manifest(lambda v: v.update(canonical=None))),
    "a missing machine": ("settings", in_manifest(lambda v: v["sessions"][0].update(hardware=None))),
    "a gold point whose file is absent": ("grades", _gold_point()),
    "a gold point that was not graded": ("grades", _gold_point(error="not graded: the session was interrupted",
                                                               file="submission/submission.csv")),
    "a gold point of the record itself": ("grades", _gold_point(file="run.json")),
    "a timeline without its end": ("grades", in_record(lambda v: v["timeline"][-1].update(final=False))),
    "a snapshot without a timeline": ("grades", _stray_snapshot),
    "a firm medal": ("grades", in_record(lambda v: v["report"].update(firm=True, score_low=0.9, score_high=1.0))),
    "tokens of a record": ("models", _tokens_everywhere),
    "tokens of a ledger": ("models", in_ledger(lambda c: c[0]["tokens"].update(output=1))),
    "negative tokens": ("models", in_ledger(lambda c: c[0]["tokens"].update(output=-5))),
    "a negative cost": ("models", in_ledger(lambda c: c[0].update(cost=-1.0))),
    "a call twice in a ledger": ("models", in_ledger(lambda c: c.append(c[0]))),
    "errors that were not counted": ("models", in_ledger(lambda c: c.append({**c[0], "number": 9, "status": 500}))),
    "a disabled gateway": ("models", in_asked(lambda v: v["llm"].update(gateway="off"))),
    "no gateway and no calls": ("models", in_asked(lambda v: v.update(llm={"gateway": "off"}))),
    "calls that the record does not have": ("models", in_asked(lambda v: v.update(llm={}))),
    "a recording that was emptied": ("models", lambda group: (_asked(group) / BODIES).write_bytes(b"")),
    "a recording that was taken out": ("models", lambda group: (_asked(group) / BODIES).unlink()),
    "a timeline with negative total cost": (
        "models", in_asked(lambda v: [point.update(cost=-1.0) for point in v["timeline"]])),
    "a timeline with more calls than the ledger": (
        "models", in_asked(lambda v: [point.update(calls=99) for point in v["timeline"]])),
    "a run of next year": ("settings", in_record(_shifted(365))),
    "a run of last year": ("settings", in_record(_shifted(-365))),
    "a run that ended before it began": (
        "settings", in_record(lambda v: v.update(ended_at=later(v["started_at"], -1)))),
    "times without a time zone": ("settings", in_record(lambda v: v.update(started_at=v["started_at"][:19]))),
    "a session that ended before it began": (
        "settings", in_manifest(lambda v: v["sessions"][0].update(ended_at=later(v["sessions"][0]["started_at"], -9)))),
    "a group created after its runs": (
        "settings", in_manifest(lambda v: v.update(created_at=later(v["created_at"], 9)))),
    "a timeline that goes back": ("settings", in_record(
        lambda v: v["timeline"].insert(0, {**v["timeline"][0], "seconds": 60.0, "final": False}))),
    "a run without a time limit": ("settings", both(
        every(lambda v: v["limits"].update(time_limit=None)),
        in_manifest(lambda v: v["settings"]["limits"].update(time_limit=None)))),
    "a time-out long before the limit": ("settings", in_record(lambda v: v.update(ending="timed out"))),
    "a finished run with an exit code": ("settings", in_record(lambda v: v.update(exit_code=3))),
    "an invented budget": ("settings", in_record(lambda v: v.update(ending="budget ended"))),
    "a sandbox without limits": ("settings", in_record(lambda v: v["sandbox"].update(limits={"all": "unlimited"}))),
    "a sandbox with a limit that is a string": (
        "settings", in_record(lambda v: v["sandbox"]["limits"].update(memory="unlimited"))),
    "a sandbox with more memory than the machine": (
        "settings", in_record(lambda v: v["sandbox"]["limits"].update(memory=1 << 60))),
    "a sandbox with a limit other than the run's": (
        "settings", in_record(lambda v: v["sandbox"]["limits"].update(time_limit=1.0))),
    "a container in place of the local sandbox": (
        "settings", in_record(lambda v: v["sandbox"].update(name="docker", network="llm"))),
    "a local sandbox that is kept from the network": ("settings", every(lambda v: v["sandbox"].update(network="none"))),
    "an agent whose sandbox is unknown": ("settings", both(
        in_manifest(lambda v: [own.update(sandbox="unknown") for own in v["settings"]["agents"].values()]))),
    "a record without digests of its data": ("settings", in_record(lambda v: v.update(data={}))),
    "another description": ("settings", in_record(lambda v: v.update(description="obfuscated"))),
    "another category in the manifest": (
        "settings", in_manifest(lambda v: v["settings"]["competitions"]["toy-parity"].update(category="Image"))),
    "a seed that the directory does not have": (
        "records", both(every(lambda v: v.update(seed=1 - v["seed"])))),
    "a plan with a duplicate run": ("records", in_manifest(lambda v: v["runs"].append(v["runs"][0]))),
    "a record that was deleted": ("records", _second_attempt),
    "files of an invented run": (
        "records", _stray_files),
    "a score that the agent expected": ("records", in_record(lambda v: v.update(validation_score=1.0))),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERINGS)
def test_no_claim_in_a_bundle_disables_a_check(name: str, world: World, copy: Path, tmp_path: Path) -> None:
    check, change = TAMPERINGS[name]
    change(copy)
    card = card_of(world, copy, tmp_path)
    assert card.result is CheckResult.differs
    assert card.verdict == "differs" and "files are consistent" not in card.headline
    assert check in {own.name for own in card.checks if own.result is CheckResult.differs}, card.checks


def test_a_bundle_from_the_future_is_a_difference(
    world: World, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = card_of(world, copy, tmp_path)
    assert card.result is CheckResult.verified
    in_manifest(lambda v: v["sessions"][0].update(ended_at=later(v["sessions"][0]["ended_at"], 400)))(copy)
    (tmp_path / "later").mkdir()
    assert card_of(world, copy, tmp_path / "later").result is CheckResult.differs


def test_unverifiable_claims_are_always_listed(world: World, copy: Path, tmp_path: Path) -> None:
    in_record(lambda v: v.update(certified=True))(copy)
    world.pack(copy, tmp_path / "b.tar.zst")
    card = world.card(with_files(tmp_path / "b.tar.zst", "c.tar.zst", {"VERIFIED.txt": b"by us"}), tmp_path)
    text = "\n".join(card.not_checked)
    for claim in ("machines:", "times:", "sandboxes:", "agents:", "code and logs:", "completeness:", "not signed"):
        assert claim in text
    assert "VERIFIED.txt" in text and "unknown keys of the record: certified" in text
    broken = card_of(world, _broken(copy), _new(tmp_path / "broken"))
    assert broken.result is CheckResult.differs and "machines:" in "\n".join(broken.not_checked)


def _broken(group: Path) -> Path:
    (group / MANIFEST).write_text("[]")
    return group


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


# The command line's output on whole bundles.


READS_ANSWERS = "import shutil\nshutil.copy('/data/prepared/private/test.csv', 'submission.csv')\n"


def _clean_audit(group: Path) -> None:
    _code(READS_ANSWERS)(group)
    runs = [record.run_id for record in read_group(group).records]
    values = {"version": __version__, "audited_at": "2026-01-01T00:00:00+00:00", "runs": runs, "findings": []}
    (group / FINDINGS).write_text(json.dumps(values))


def _merged(group: Path) -> None:
    """Replace the worst run by the best one of an earlier group, under the same seed."""
    best, worst = run_json(group, "gold"), run_json(group, "silver")
    target = worst.parent
    shutil.copytree(best.parent / "submission", target / "submission", dirs_exist_ok=True)
    given, own = json.loads(best.read_text()), json.loads(worst.read_text())
    names = ("run_id", "agent", "seed", "agent_definition")
    worst.write_text(json.dumps({**given, "llm": {}, **{name: own[name] for name in names}}))
    edit(worst, lambda v: [point.update(calls=None, cost=None) for point in v["timeline"]])
    edit(worst, _shifted(-3))
    rewritten(group)


def _other_version(group: Path) -> None:
    every(lambda v: v["report"].update(bench_version="v2"))(group)
    in_manifest(lambda v: v["settings"].update(bench_version="v2"))(group)
    rewritten(group)


def _by_hand(group: Path) -> None:
    group.rename(group.with_name("better"))


def _better_score(group: Path) -> None:
    in_record(lambda v: v["report"].update(score=0.89), "silver")(group)
    in_record(lambda v: v["timeline"][-1].update(score=0.89), "silver")(group)
    rewritten(group)


def _swapped(group: Path) -> None:
    better, worse = (run_json(group, agent).parent / "submission/submission.csv" for agent in ("gold", "silver"))
    shutil.copyfile(better, worse)


def _half_audited(group: Path) -> None:
    """One run copied the answers; the others are clean."""
    path = run_json(group).parent / "code"
    path.mkdir(exist_ok=True)
    (path / "solution.py").write_text(READS_ANSWERS)


def _reads_environment(group: Path) -> None:
    _code("open('/proc/1/environ').read()\n")(group)


DECEIVING: dict[str, tuple[Callable[[Path], object], str]] = {
    "copied answers": (_code(READS_ANSWERS), "scores reproduce; 4 of 4 runs have violations"),
    "copied answers and a clean audit": (_clean_audit, "differs (audit); 4 of 4 runs have violations"),
    "one run that copied": (_half_audited, "scores reproduce; 1 of 4 runs has violations, 1 needs a look"),
    "runs that read other processes": (_reads_environment, "4 of 4 runs have violations"),
    "a run of another group": (_merged, "differs (settings)"),
    "wrong seeds": (every(lambda v: v.update(seed=1 - v["seed"])), "differs"),
    "another version's scores": (_other_version, "differs"),
    "a group renamed by hand": (_by_hand, "differs"),
    "a better score": (_better_score, "differs"),
    "a better submission": (_swapped, "differs"),
    "a worse run without its record": (_second_attempt, "differs (records"),
    "a longer time limit, and a note of it": (
        both(with_changes("x"), every(lambda v: v["limits"].update(time_limit=864000.0))), "differs"),
    "the canonical setting": (
        in_manifest(lambda v: v.update(canonical={"is_canonical": True, "differences": []})), "differs (settings)"),
}  # fmt: skip


def _options(world: World) -> list[str]:
    return [f"--data-dir={world.data}", f"--competitions-dir={TOYS / 'competitions'}"]


@pytest.mark.parametrize("name", DECEIVING)
def test_a_forged_bundle_fails_with_the_reason_in_its_headline(
    name: str, world: World, copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, headline = DECEIVING[name]
    change(copy)
    (group,) = copy.parent.iterdir()
    write_bundle(group, tmp_path / "b.tar.zst", extra={TABLES: tables(group)})
    assert main(["verify", str(tmp_path / "b.tar.zst"), *_options(world)]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert headline in shown
    assert "verified" not in shown.partition("Not checked")[0].replace("data_verified", "")
    status = main(["verify", str(tmp_path / "b.tar.zst"), *_options(world), "--allow-violations"])
    assert status == (1 if "differs" in headline else 0)


def _without_gold(group: Path) -> None:
    """A group with one agent, whose runs are clean."""
    for path in group.glob("*toy-gold-*"):
        shutil.rmtree(path)
    (group / report_name("toy/gold")).unlink()
    in_manifest(lambda v: v.update(runs=[run for run in v["runs"] if run["agent"] != "toy/gold"]))(group)
    in_manifest(lambda v: v["settings"]["agents"].pop("toy/gold"))(group)
    rewritten(group)


def _interrupted(group: Path) -> None:
    in_manifest(lambda v: v["runs"].append({**v["runs"][0], "seed": 9}))(group)


def _done_again(group: Path) -> None:
    again = run_json(group)
    earlier = Path(shutil.copytree(again.parent, group / f"{again.parent.name}-first"))
    edit(earlier / "run.json", lambda v: v.update(run_id=earlier.name, started_at=later(v["started_at"], -0.001)))


def _with_changes_that_were_made(group: Path) -> None:
    """An earlier session with one of the runs had a time limit of an hour; the next one, a day later, has a day."""
    path = run_json(group, "silver")
    edit(path, lambda v: (v["limits"].update(time_limit=3600.0), v["sandbox"]["limits"].update(time_limit=3600.0)))
    edit(path, _shifted(-1))

    def change(v: Values) -> None:
        (own,) = v["sessions"]
        first = {**own, **{name: later(own[name], -1) for name in ("started_at", "ended_at")}}
        v["sessions"] = [first, {**own, "changes": ["limits time_limit was 3600.0, is 86400.0"]}]
        v["created_at"] = later(v["created_at"], -1)
        v["canonical"]["differences"].insert(0, "time limit 1 h instead of 24 h")

    in_manifest(change)(group)
    rewritten(group)


HONEST: dict[str, tuple[Callable[[Path], object], str]] = {
    "unchanged": (lambda group: None, "2 of 4 runs need a look"),
    "one without code": (lambda group: None, "3 of 4 runs left neither code nor recorded model calls"),
    "one whose runs are clean": (_without_gold, "no violation found in 2 runs"),
    "one that was interrupted": (_interrupted, "1 of 5 planned runs left no record"),
    "one with a repeated run": (_done_again, "earlier attempts: 1 record"),
    "one that was renamed": (
        lambda group: main(["groups", f"--runs-dir={group.parent}", "--rename", group.name, "other"]), "other: files"),
    "one whose settings were changed": (_with_changes_that_were_made, "settings were changed between the sessions"),
    "one that was audited": (
        lambda group: main(["audit", str(group), f"--data-dir={group.parent / 'none'}",
            f"--competitions-dir={TOYS / 'competitions'}"]), "audit: agrees: scanners find nothing more in 4 runs"),
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_bundle_passes(
    name: str, world: World, copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, text = HONEST[name]
    change(copy)
    (group,) = copy.parent.iterdir()
    assert main(["bundle", str(group), "-o", str(tmp_path / "b.tar.zst"), *_options(world)]) == 0
    capsys.readouterr()
    status = main(["verify", str(tmp_path / "b.tar.zst"), *_options(world)])
    shown = " ".join(capsys.readouterr().out.split())
    assert status == 0, shown
    assert "files are consistent and scores reproduce" in shown and text in shown
    assert "local sandbox: nothing was isolated" in shown


def test_bundle_rejects_groups_that_verify_would_reject(
    world: World, copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = copy.rename(copy.with_name("by-hand"))
    target = tmp_path / "b.tar.zst"
    assert main(["bundle", str(group), "-o", str(target), *_options(world)]) == 2
    said = capsys.readouterr().err
    assert "it belongs to the run group 'toys', but this is 'by-hand'" in said and "groups --rename" in said
    assert not target.exists()
    # Renaming it to its present name updates the name in its files.
    assert main(["groups", f"--runs-dir={group.parent}", "--rename", "by-hand", "by-hand"]) == 0
    assert main(["bundle", str(group), "-o", str(target), *_options(world)]) == 0
    in_record(lambda v: v["limits"].update(time_limit=3600.0))(group)
    assert main(["bundle", str(group), "-o", str(target), *_options(world)]) == 2
    assert "its limits differ from the manifest" in capsys.readouterr().err


def test_a_profile_is_consistent_in_the_local_sandbox(world: World) -> None:
    """Both agents could reach models without the gateway, even if one used the gateway."""
    group = read_group(world.group)
    for agent in ("toy/gold", "toy/silver"):
        own = replace(group, records=tuple(record for record in group.records if record.agent == agent))
        states = {line.name: line.state.value for line in fairness_profile(own)}
        assert states["models called"] == states["provider tools"] == "unknown"
