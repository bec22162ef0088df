"""Rules for model calls when verifying a bundle, each with boundary values, without a real session."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.extras.bundles.bundle import Bundle, BundleIndex, LeftOut
from pytest_mlebench.extras.bundles.card import Check, CheckResult
from pytest_mlebench.extras.bundles.verify_models import models
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.llm.ledger import BODIES, CALLS, Call, Ledger
from pytest_mlebench.llm.prices import Tokens
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.manifest import Manifest, SessionRecord
from pytest_mlebench.records.outcome import TimelinePoint
from pytest_mlebench.records.record import RunRecord
from tests.groups import record_with

RUN = record_with(default_catalogue()["smoke-digits"], "gold", agent="mine")
SESSION = SessionRecord(started_at="", ended_at="")
Change = Callable[["World"], object]


class World:
    """A run with three model calls on disk, and a record that matches them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_dir = folder / RUN.run_id
        self.run_dir.mkdir()
        ledger = Ledger(self.run_dir)
        for number in range(3):
            tokens = Tokens(input=100, output=10)
            ledger.write(
                Call(number=number, kind="generate", model="small", status=200, tokens=tokens, cost=Decimal("0.1"),
                     seconds=2.0, provider="p")
            )  # fmt: skip
            ledger.write_bodies(number, {"request": {}, "response": {}})
        ledger.close()
        self.trajectory([0, 1, 2])
        self.llm: dict[str, Any] = json.loads(json.dumps({"gateway": "on", **ledger.totals.to_json()}))
        self.timeline: tuple[TimelinePoint, ...] = ()
        self.options: dict[str, Any] = {}
        self.sessions = (SESSION,)
        self.left_out: list[str] = []
        self.seconds = 60.0
        self.sandbox = "docker"

    def trajectory(self, calls: list[Any]) -> None:
        steps = [{"step_id": 1, "extra": {"call": call}} for call in calls]
        (self.run_dir / "trajectory.json").write_text(json.dumps({"steps": steps}))

    def lines(self, change: Callable[[list[dict[str, Any]]], object]) -> None:
        found = [json.loads(line) for line in (self.run_dir / CALLS).read_text().splitlines()]
        change(found)
        (self.run_dir / CALLS).write_text("".join(f"{json.dumps(line)}\n" for line in found))

    def bodies(self, *numbers: int) -> None:
        (self.run_dir / BODIES).unlink()
        kept = (self.run_dir / CALLS).read_bytes()
        ledger = Ledger(self.run_dir)
        for number in numbers:
            ledger.write_bodies(number, {"request": {}, "response": {}})
        ledger.close()
        (self.run_dir / CALLS).write_bytes(kept)

    def record(self) -> RunRecord:
        account = replace(RUN.sandbox, name=self.sandbox)
        return replace(RUN, llm=self.llm, timeline=self.timeline, seconds=self.seconds, sandbox=account)

    def check(self, **bounds: int) -> Check:
        manifest = Manifest(options=self.options, sessions=self.sessions)
        group = RunGroup(folder=self.folder, records=(self.record(),), manifest=manifest)
        left_out = tuple(LeftOut(what=what, files=1, size=1, why="") for what in self.left_out)
        index = BundleIndex(format="", version=1, made_by="", made_at="", run_group="g", files=(), left_out=left_out)
        return models(Bundle(index, "", b"", None, self.folder), group, **bounds)

    def differs(self, **bounds: int) -> list[str]:
        """The differences, without the run's id; an empty list if everything agrees."""
        found = self.check(**bounds)
        assert found.result is (CheckResult.differs if found.reasons else CheckResult.verified), found
        if found.reasons:
            assert found.detail == pluralize(len(found.reasons), "difference")
        return [text.removeprefix(f"{RUN.run_id}: ") for text in found.reasons]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_record_that_follows_from_its_ledger_is_verified(world: World) -> None:
    found = world.check()
    assert (found.name, found.result, found.detail) == (
        "models", CheckResult.verified, "ledgers of 1 run match the calls of the records")  # fmt: skip


def call(which: int, /, **values: Any) -> Change:
    return lambda world: world.lines(lambda lines: lines[which].update(values))


def told(**values: Any) -> Change:
    return lambda world: world.llm.update(values)


def point(**values: Any) -> TimelinePoint:
    return TimelinePoint(**{"seconds": 1.0, "file": "submission/submission.csv", **values})


def timeline(*points: TimelinePoint) -> Change:
    return lambda world: setattr(world, "timeline", points)


def attribute(name: str, value: Any) -> Change:
    return lambda world: setattr(world, name, value)


STRANGE_CALL = "its ledger has a call that no gateway writes"
NUMBERS = "its ledger has calls without a unique number"
LONGER = "a call took longer than the run, or a negative time"
CALLS_OF_TIMELINE = "its timeline counts other calls than its ledger"
COSTS_OF_TIMELINE = "its timeline counts other costs than its ledger"
RULES: dict[str, tuple[list[Change], list[str]]] = {
    "a cost within rounding": ([told(known_cost=0.3000005)], []),
    "another cost": ([told(known_cost=0.31)], ["cost: its ledger has 0.3, but its record 0.31"]),
    "a cost beyond rounding": ([told(known_cost=0.3000015)], [
        "cost: its ledger has 0.3, but its record 0.3000015"]),
    "a cost below": ([told(known_cost=0.29)], ["cost: its ledger has 0.3, but its record 0.29"]),
    "seconds within a second": ([told(seconds=11.9)], []),
    "seconds at the bound": ([told(seconds=12.0)], []),
    "seconds beyond it": ([told(seconds=12.1)], ["seconds: its ledger has 6.0, but its record 12.1"]),
    "other tokens": ([told(tokens={"input": 3, "output": 30})], [
        "tokens: its ledger has {'input': 300, 'output': 30, 'cached': 0, 'cache_written': 0, 'reasoning': 0}, "
        "but its record {'input': 3, 'output': 30}"]),
    "fewer kinds of tokens": ([told(tokens={"input": 300, "output": 30})], [
        "tokens: its ledger has {'input': 300, 'output': 30, 'cached': 0, 'cache_written': 0, 'reasoning': 0}, "
        "but its record {'input': 300, 'output': 30}"]),
    "a total that is true instead of 1": ([told(retries=False)], []),
    "bodies that were left out": ([told(left_out=2)], []),
    "retries": ([told(retries=2)], ["retries: its ledger has 0, but its record 2"]),
    "no number of calls": ([lambda w: w.llm.pop("calls")], ["calls: its ledger has 3, but its record None"]),
    "no models": ([lambda w: w.llm.pop("models")], [
        "its ledger has small × 3, but its record none",
        "models: its ledger has {'small': {'provider': 'p', 'calls': 3, 'input_tokens': 300, 'output_tokens': 30, "
        "'cost': 0.3}}, but its record None"]),
    "a call number that is a string": ([call(0, number="0")], [NUMBERS, STRANGE_CALL]),
    "a call number twice": ([call(0, number=1)], [NUMBERS, "its trajectory has the call 0, which its ledger lacks",
        "its recording has the call 0, which its ledger lacks"]),
    "a number that is a boolean": ([call(1, number=True)], [NUMBERS, STRANGE_CALL]),
    "negative tokens": ([call(0, tokens={"input": -1})], [STRANGE_CALL]),
    "tokens that are not counts": ([call(0, tokens={"input": 1.5})], [STRANGE_CALL]),
    "tokens that are a list": ([call(0, tokens=[1])], [STRANGE_CALL]),
    "a negative cost": ([call(0, cost=-0.1)], [STRANGE_CALL]),
    "a cost that is a string": ([call(0, cost="free")], [STRANGE_CALL]),
    "a cost that is a boolean": ([call(0, cost=True)], [STRANGE_CALL]),
    "an infinite cost": ([call(0, cost=float("inf"))], [STRANGE_CALL]),
    "retries that are a string": ([call(0, retries="2")], [STRANGE_CALL]),
    "seconds that are a string": ([call(0, seconds="2")], [STRANGE_CALL]),
    "seconds that are a boolean": ([call(0, seconds=True)], [STRANGE_CALL]),
    "a status that is a string": ([call(0, status="200")], [STRANGE_CALL]),
    "a model that is a number": ([call(0, model=3)], [STRANGE_CALL]),
    "a provider that is a number": ([call(0, provider=3)], [STRANGE_CALL]),
    "a kind that is a number": ([call(0, kind=3)], [STRANGE_CALL]),
    "a model that answered and is a number": ([call(0, answered_model=3)], [STRANGE_CALL]),
    "a key of a later version": ([call(0, later="x")], []),
    "nothing removed": ([call(0, withheld=None)], []),
    "a call as long as the run": ([call(0, seconds=60.0), told(seconds=64.0)], []),
    "a call two minutes longer": ([call(0, seconds=180.0), told(seconds=184.0)], []),
    "a longer call": ([call(0, seconds=181.0), told(seconds=185.0)], [LONGER]),
    "a call with negative time": ([call(0, seconds=-1.0), told(seconds=3.0)], [LONGER]),
    "a call that took no time": ([call(0, seconds=0.0), told(seconds=4.0)], []),
    "a step of another call": ([lambda w: w.trajectory([0, 7, 8])], [
        "its trajectory has the call 7, which its ledger lacks"]),
    "steps without a call": ([lambda w: w.trajectory([None, "x", 1])], []),
    "a step of a subagent's other call": (
        [lambda w: (w.run_dir / "trajectory.json").write_text(
            '{"subagent_trajectories": [{"steps": [{"is_copied_context": true, "extra": {"call": 7}}]}]}')],
        ["its trajectory has the call 7, which its ledger lacks"]),
    "steps that are not objects": (
        [lambda w: (w.run_dir / "trajectory.json").write_text('{"steps": [1, {"extra": 2}]}')], []),
    "no steps": ([lambda w: (w.run_dir / "trajectory.json").write_text('{"steps": null}')], []),
    "no trajectory": ([lambda w: (w.run_dir / "trajectory.json").unlink()], []),
    "a recording of one call": ([lambda w: w.bodies(1)], []),
    "an empty recording": ([lambda w: w.bodies()], ["its recording is empty, but its ledger has answered calls"]),
    "a recording of another call": ([lambda w: w.bodies(0, 5, 6)], [
        "its recording has the call 5, which its ledger lacks"]),
    "no recording": ([lambda w: (w.run_dir / BODIES).unlink()], [
        "it has a trajectory, but no recording to build it from"]),
    "a recording that was left out": (
        [lambda w: (w.run_dir / BODIES).unlink(), attribute("left_out", ["recordings"])], []),
    "something else that was left out": (
        [lambda w: (w.run_dir / BODIES).unlink(), attribute("left_out", ["recordings", "code"])], []),
    "neither recording nor trajectory": (
        [lambda w: (w.run_dir / BODIES).unlink(), lambda w: (w.run_dir / "trajectory.json").unlink()], []),
    "a timeline with calls": ([timeline(point(calls=0), point(calls=3), point(calls=3), point())], []),
    "a timeline with more calls": ([timeline(point(calls=4))], [CALLS_OF_TIMELINE]),
    "a timeline with negative calls": ([timeline(point(calls=-1))], [CALLS_OF_TIMELINE]),
    "a timeline whose calls go back": ([timeline(point(calls=2), point(calls=1))], [CALLS_OF_TIMELINE]),
    "a timeline with costs": ([timeline(point(cost=0.0), point(cost=0.3), point())], []),
    "a timeline with higher cost": ([timeline(point(cost=0.31))], [COSTS_OF_TIMELINE]),
    "a timeline with negative cost": ([timeline(point(cost=-0.1))], [COSTS_OF_TIMELINE]),
    "a timeline whose cost goes back": ([timeline(point(cost=0.2), point(cost=0.1))], [COSTS_OF_TIMELINE]),
    "an unknown kind of gateway": ([told(gateway="own")], ["its gateway was 'own'"]),
    "no gateway, and calls": ([lambda w: w.llm.pop("gateway")], ["its gateway was 'None'"]),
    "a disabled gateway": ([told(gateway="off")], [
        "it had no gateway, but its record counts calls", "it had no gateway, but has a ledger of one"]),
    "a replay in a session without replays": ([told(gateway="replay")], []),
    "a replay": ([told(gateway="replay"), attribute("options", {"--llm-replay": "g"})], []),
    "no replay in a session with replays": ([attribute("options", {"--llm-replay": "g"})], [
        "its gateway was on, but that of the group replay"]),
    "a gateway of a session without": ([attribute("options", {"--llm-gateway": "off"})], [
        "its gateway was on, but that of the group off"]),
    "a gateway of one of two sessions": (
        [attribute("options", {"--llm-gateway": "off"}), attribute("sessions", (SESSION, SESSION))], []),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_record_ledger_recording_and_trajectory_agree(name: str, world: World) -> None:
    changes, expected = RULES[name]
    for change in changes:
        change(world)
    assert world.differs() == expected


def test_a_trajectory_is_compared_up_to_a_size(world: World) -> None:
    world.trajectory([7])
    size = (world.run_dir / "trajectory.json").stat().st_size
    assert world.differs(max_trajectory=size) == ["its trajectory has the call 7, which its ledger lacks"]
    too_large = f"{RUN.run_id}: its trajectory cannot be read, or is too large to be compared"
    for text, most in (('{"steps": []}', 1), ("[]", size), ("{", size)):
        (world.run_dir / "trajectory.json").write_text(text)
        check = world.check(max_trajectory=most)
        assert (check.result, check.reasons) == (CheckResult.unchecked, (too_large,))


def test_calls_that_are_missing_because_of_a_full_disk_cannot_be_checked(world: World) -> None:
    world.lines(lambda lines: lines.pop())
    world.llm |= {"left_out": 1, "write_error": "No space left on device"}
    found = world.check()
    assert (found.result, found.detail) == (CheckResult.unchecked, "calls were not recorded")
    assert f"{RUN.run_id}: calls: its ledger has 2, but its record 3" in found.reasons
    world.llm |= {"left_out": 0}
    assert "calls: its ledger has 2, but its record 3" in world.differs()


def test_refused_connections_are_not_in_ledgers(world: World) -> None:
    told(connections_refused=5)(world)
    assert world.differs() == []


def test_a_failed_call_needs_no_recording(world: World) -> None:
    world.lines(
        lambda lines: [line.update(status=status) for line, status in zip(lines, (400, None, 500), strict=True)]
    )
    world.bodies()
    world.llm = {"gateway": "on"}
    assert world.differs() == []
    world.lines(lambda lines: lines[0].update(status=399))
    assert "its recording is empty, but its ledger has answered calls" in world.differs()


def test_missing_files_cannot_be_checked(world: World) -> None:
    world.left_out = ["ledgers"]
    found = world.check()
    assert found == Check("models", CheckResult.unchecked, "the ledgers were left out")
    world.left_out = ["code"]
    (world.run_dir / CALLS).unlink()
    found = world.check()
    assert (found.name, found.result, found.detail) == ("models", CheckResult.unchecked, "calls were not recorded")
    assert found.reasons == (f"{RUN.run_id}: it has no ledger of its calls",)
    world.llm = {}
    assert world.check().result is CheckResult.unchecked, "because there is a recording"
    (world.run_dir / BODIES).unlink()
    assert world.check().detail == "ledgers of 0 runs match the calls of the records"


@pytest.mark.parametrize("name", ["known_cost", "cost", "models"])
def test_costs_and_models_without_a_call_are_a_difference(name: str, world: World) -> None:
    (world.run_dir / CALLS).unlink()
    (world.run_dir / BODIES).unlink()
    world.llm = {"gateway": "on", name: {"a": {}} if name == "models" else 1.0}
    assert world.differs() == ["it has costs or models without a call"]


def test_a_killed_run_may_have_a_ledger_without_totals(world: World) -> None:
    world.llm, world.sandbox = {}, ""
    found = world.check()
    assert found.result is CheckResult.unchecked and found.reasons
    world.sandbox = "docker"
    assert world.check().result is CheckResult.differs
    world.llm, world.sandbox = {"gateway": "on"}, ""
    assert world.check().result is CheckResult.differs


def test_a_disabled_gateway_counts_nothing(world: World) -> None:
    (world.run_dir / CALLS).unlink()
    (world.run_dir / BODIES).unlink()
    world.llm = {"gateway": "off"}
    assert world.differs() == []
    world.options = {"--llm-gateway": "off"}
    assert world.differs() == []
    world.llm = {"gateway": "off", "errors": {}}
    assert world.differs() == ["it had no gateway, but its record counts calls"]


def test_a_ledger_that_is_too_large_is_not_read(world: World) -> None:
    size = (world.run_dir / CALLS).stat().st_size
    assert world.check(max_calls=size).result is CheckResult.verified
    found = world.check(max_calls=size - 1)
    assert (found.result, found.reasons) == (CheckResult.unchecked, (f"{RUN.run_id}: it has no ledger of its calls",))


def test_calls_without_a_prompt_need_no_recording(world: World) -> None:
    world.bodies()
    empty = RULES["an empty recording"][1][0]
    assert empty in world.differs()
    world.lines(lambda lines: [line.update(kind="count") for line in lines])
    assert empty not in world.differs()


def test_an_unknown_cost_differs_from_the_recorded_cost(world: World) -> None:
    call(0, cost=None)(world)
    assert "cost: its ledger has None, but its record 0.3" in world.differs()


def test_a_run_without_a_gateway_may_have_an_empty_ledger(world: World) -> None:
    world.llm = {"gateway": "off"}
    assert "it had no gateway, but has a ledger of one" in world.differs()
    world.lines(lambda lines: lines.clear())
    assert "it had no gateway, but has a ledger of one" not in world.differs()


def test_removed_tools_are_counted(world: World) -> None:
    call(0, withheld=["web_search"])(world)
    assert any(text.startswith("withheld: its ledger has") for text in world.differs())
