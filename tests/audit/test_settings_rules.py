"""Rules for settings and times when verifying a bundle, each with boundary values, without a real session."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.extras.bundles.verify_settings import _settings_by_session, counts, settings
from pytest_mlebench.io.values import parse
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.manifest import Canonical, Manifest, PlannedRun, SessionRecord, canonical_differences
from pytest_mlebench.records.outcome import Connection, Ending, Hardware, Limits, TimelinePoint
from pytest_mlebench.sandbox.limits import describe
from tests.groups import record_with

Change = Callable[[RunGroup], RunGroup]
COMPETITION = default_catalogue()["smoke-digits"]
MACHINE = Hardware(host="a", cpu="b", cpus=8, memory=16 << 30)
LIMITS: dict[str, Any] = {"time_limit": 3600.0, "cpus": 2, "memory": 8 << 30}
NOW = datetime.now(UTC)


def at(seconds: float) -> str:
    """A time relative to the start of the group's only session, which began three hours ago and took an hour."""
    return (NOW - timedelta(hours=3) + timedelta(seconds=seconds)).isoformat()


def canonical(limits: Mapping[str, Any] = LIMITS, sandbox: str = "docker") -> Canonical:
    given = parse(Limits, dict(limits))
    return Canonical.combine(None, canonical_differences(given, MACHINE, workers=1, sandboxes={sandbox}))


def honest() -> RunGroup:
    record = record_with(COMPETITION, "gold", agent="mine")
    record = replace(
        record,
        started_at=at(600),
        ended_at=at(660),
        limits=LIMITS,
        agent_definition={"id": "mine", "kwargs": {"steps": 3}},
        data={"answers": "d"},
        sandbox=replace(
            record.sandbox, limits=describe(parse(Limits, LIMITS)), image="i", image_digest="x", network="llm"
        ),
    )
    noted = {"split": record.split, "category": record.category, "version": record.report.bench_version, "digest": "c"}
    manifest = Manifest(
        run_group="g",
        created_at=at(0),
        settings={
            "limits": LIMITS,
            "network": "llm",
            "agents": {"mine": {"id": "mine", "kwargs": {"steps": 3}, "digest": "a", "sandbox": "docker"}},
            "competitions": {COMPETITION.id: noted},
        },
        runs=(PlannedRun("mine", COMPETITION.id, 0),),
        sessions=(SessionRecord(started_at=at(0), ended_at=at(3600), workers=1, hardware=MACHINE),),
        canonical=canonical(),
    )
    return with_records(RunGroup(folder=Path("g"), records=(record,), manifest=manifest))


def with_records(group: RunGroup) -> RunGroup:
    """Recompute the manifest's totals from the records."""
    empty = replace(group.manifest, images={}, connections={}, data={}, models={}, permissions={})
    return replace(group, manifest=empty.with_records(group.records))


def record(**changes: Any) -> Change:
    def changed(group: RunGroup) -> RunGroup:
        (own,) = group.records
        account = {name.removeprefix("sandbox_"): changes[name] for name in changes if name.startswith("sandbox_")}
        plain = {name: value for name, value in changes.items() if not name.startswith("sandbox_")}
        return replace(group, records=(replace(own, **plain, sandbox=replace(own.sandbox, **account)),))

    return changed


def manifest(**changes: Any) -> Change:
    return lambda group: replace(group, manifest=replace(group.manifest, **changes))


def noted(**changes: Any) -> Change:
    """Change settings of the manifest; None removes a setting."""

    def changed(group: RunGroup) -> RunGroup:
        values = {name: value for name, value in {**group.manifest.settings, **changes}.items() if value is not None}
        return replace(group, manifest=replace(group.manifest, settings=values))

    return changed


def session(**changes: Any) -> Change:
    return lambda group: replace(
        group, manifest=replace(group.manifest, sessions=(replace(group.manifest.sessions[0], **changes),))
    )


def limited(**changes: Any) -> Change:
    """Change limits consistently in the record, its sandbox, the manifest, and the manifest's verdict."""
    limits = {name: value for name, value in {**LIMITS, **changes}.items() if value is not None}
    return lambda group: record(limits=limits, sandbox_limits=describe(parse(Limits, limits)))(
        noted(limits=limits)(manifest(canonical=canonical(limits))(group))
    )


def locally(group: RunGroup) -> RunGroup:
    agents = {"mine": {**group.manifest.settings["agents"]["mine"], "sandbox": "local"}}
    group = noted(agents=agents)(manifest(canonical=canonical(sandbox="local"))(group))
    return record(sandbox_name="local", sandbox_network="not enforced", sandbox_image="", sandbox_image_digest="")(
        group
    )


def point(seconds: float) -> TimelinePoint:
    return TimelinePoint(seconds=seconds, file="submission/submission.csv")


def found(*changes: Change, made_at: str = "", sums: bool = True) -> list[str]:
    group = honest()
    for change in changes:
        group = change(group)
    said = settings(with_records(group) if sums else group, made_at or NOW.isoformat())
    return [text.removeprefix(f"{group.records[0].run_id}: ") for text in said]


def test_an_honest_group_has_no_contradiction() -> None:
    assert found() == [] == found(locally)


ANOTHER = (Connection(host="a.example", port=443, allowed=True),)
TIMES: dict[str, tuple[list[Change], list[str]]] = {
    "an end two minutes before the end by its seconds": ([record(seconds=180.0)], []),
    "more than two minutes": ([record(seconds=181.0)], ["it took 181 s between times that are 60 s apart"]),
    "zero seconds": ([record(seconds=0.0)], []),
    "negative seconds": ([record(seconds=-1.0)], ["it took -1 s between times that are 60 s apart"]),
    "an end at the start": ([record(seconds=0.0, ended_at=at(600))], []),
    "an end before the start": ([record(seconds=0.0, ended_at=at(599))], ["it ended before it began"]),
    "a start two minutes before the session": ([record(started_at=at(-120), ended_at=at(0))], []),
    "an earlier start": (
        [record(started_at=at(-121), ended_at=at(0))], ["it ran outside the sessions of the group"]),
    "an end two minutes after the session": ([record(started_at=at(3600), ended_at=at(3720))], []),
    "a later end": ([record(started_at=at(3600), ended_at=at(3721))], ["it ran outside the sessions of the group"]),
    "invalid times": (
        [record(started_at="x")], ["its times are invalid, or have no time zone"]),
    "times without a time zone": ([record(ended_at=at(660)[:19])], ["its times are invalid, or have no time zone"]),
    "two minutes over a short limit": (
        [limited(time_limit=10.0), record(seconds=130.0, ended_at=at(730))], []),
    "more over a short limit": (
        [limited(time_limit=10.0), record(seconds=131.0, ended_at=at(731))],
        ["it took 131 s with a time limit of 10 s"]),
    "5 % over a long limit": (
        [limited(time_limit=6000.0), record(seconds=6300.0, ended_at=at(6900)), session(ended_at=at(7000))], []),
    "more over a long limit": (
        [limited(time_limit=6000.0), record(seconds=6301.0, ended_at=at(6901)), session(ended_at=at(7000))],
        ["it took 6301 s with a time limit of 6000 s"]),
    "a time-out at nearly the limit": (
        [record(ending=Ending.TIMED_OUT, seconds=3419.0, started_at=at(0), ended_at=at(3419))], []),
    "a time-out before": (
        [record(ending=Ending.TIMED_OUT, seconds=3418.0, started_at=at(0), ended_at=at(3418))],
        ["it timed out after 3418 s of 3600 s"]),
    "a limit of a second": ([limited(time_limit=1.0)], []),
    "an end before the limit": ([record(seconds=20.0, ending=Ending.FINISHED)], []),
    "a timeline to two minutes after the end": ([record(timeline=(point(0), point(60), point(60), point(180)))], []),
    "a longer timeline": (
        [record(timeline=(point(181),))], ["it took 60 s, but its timeline is longer, or goes back in time"]),
    "a timeline that goes back twice": (
        [record(timeline=(point(30), point(20), point(10)))],
        ["it took 60 s, but its timeline is longer, or goes back in time"]),
    "a timeline that begins before the run": (
        [record(timeline=(point(-1),))], ["it took 60 s, but its timeline is longer, or goes back in time"]),
    "a group created two minutes after its session": ([manifest(created_at=at(120))], []),
    "a group created later": (
        [manifest(created_at=at(121))], ["the group was created after its first session"]),
    "a group without a time": (
        [manifest(created_at="")], ["the times of the group or of its sessions are invalid"]),
    "a session without a time": (
        [session(started_at="soon")], ["the times of the group or of its sessions are invalid"]),
    "a session with an invalid end": (
        [session(ended_at="soon")], ["the times of the group or of its sessions are invalid"]),
    "a session that ended at its start": (
        [session(ended_at=at(0)), record(started_at=at(0), ended_at=at(60))], []),
    "a session that ended before its start": (
        [session(ended_at=at(-1))], ["session 1 begins after its end, the next session or the bundle"]),
    "a session without an end": ([session(ended_at=None)], []),
    "a session of a cluster whose jobs continued": (
        [session(cluster={"engine": "slurm"}), record(started_at=at(8000), ended_at=at(8060))], []),
    "a session without workers": ([session(workers=0)], ["session 1 had no worker, or no machine"]),
    "a session without a machine": ([session(hardware=None)], ["session 1 had no worker, or no machine"]),
    "no session": ([manifest(sessions=())], ["the manifest has no session"]),
}  # fmt: skip


@pytest.mark.parametrize("name", TIMES)
def test_times_are_consistent(name: str) -> None:
    changes, expected = TIMES[name]
    assert found(*changes) == expected


@pytest.mark.parametrize("limit", [None, "long", float("inf"), float("nan"), 0, -1.0])
def test_a_run_has_a_time_limit(limit: object) -> None:
    assert "it has no time limit" in found(record(limits={**LIMITS, "time_limit": limit}))


def test_a_bundle_is_created_after_its_sessions_and_not_in_the_future() -> None:
    assert found(made_at=at(3480)) == []
    assert found(made_at=at(3470)) == ["session 1 ended after the bundle was created"]
    assert found(session(ended_at=None), made_at=at(-119)) == ["it ran outside the sessions of the group"]
    assert found(session(ended_at=None), made_at=at(-121)) == [
        "session 1 begins after its end, the next session or the bundle"
    ]
    assert found(made_at=(datetime.now(UTC) + timedelta(seconds=100)).isoformat()) == []
    (said,) = found(made_at=(datetime.now(UTC) + timedelta(seconds=500)).isoformat())
    assert said.startswith("the bundle was created in the future: 2")
    for strange in ("soon", "2026-01-01T00:00:00"):
        assert found(made_at=strange) == ["the index does not say when the bundle was created"]


def agent(**changes: Any) -> Change:
    """Change the agent's definition in the manifest; None removes a value."""

    def changed(group: RunGroup) -> RunGroup:
        values = {**group.manifest.settings["agents"]["mine"], **changes}
        return noted(agents={"mine": {k: v for k, v in values.items() if v is not None}})(group)

    return changed


def competition(**changes: Any) -> Change:
    def changed(group: RunGroup) -> RunGroup:
        return noted(
            competitions={COMPETITION.id: {**group.manifest.settings["competitions"][COMPETITION.id], **changes}}
        )(group)

    return changed


OTHER_COMPETITION = "its competition has another split, category or version in the manifest"
NO_ISOLATION: dict[str, Any] = {"no_isolation": True}
CLAIMS: dict[str, tuple[list[Change], list[str]]] = {
    "other limits": ([record(limits={**LIMITS, "time_limit": 3601.0}, sandbox_limits=describe(
        parse(Limits, {**LIMITS, "time_limit": 3601.0})))], ["its limits differ from the manifest"]),
    "a missing limit": ([record(limits={k: v for k, v in LIMITS.items() if k != "cpus"})],
        ["its limits differ from the manifest"]),
    "an agent that the manifest does not know": (
        [noted(agents={"other": {"id": "other", "sandbox": "docker"}})], ["the manifest lacks its agent mine"]),
    "another argument": (
        [agent(kwargs={"steps": 4})], ["kwargs steps of its agent differs from the manifest"]),
    "an additional argument": (
        [agent(kwargs={"steps": 3, "x": 1})], ["kwargs x of its agent differs from the manifest"]),
    "a missing argument": (
        [agent(kwargs={})], ["kwargs steps of its agent differs from the manifest"]),
    "a different digest of its folder": ([agent(digest="b")], []),
    "an unknown sandbox": ([agent(sandbox="unknown")], []),
    "no sandbox": ([agent(sandbox=None)], []),
    "an argument that is the name of the local sandbox": ([agent(kwargs={"steps": 3, "on": "local"}),
        record(agent_definition={"id": "mine", "kwargs": {"steps": 3, "on": "local"}})], []),
    "another setting that is the name of the local sandbox": ([noted(other={"sandbox": "local"})], []),
    "another sandbox": (
        [agent(sandbox="podman")], ["it ran in the sandbox docker, but the manifest says podman"]),
    "a local sandbox of an unknown kind": ([locally, agent(sandbox="unknown"), manifest(canonical=canonical())],
        ["it ran in the sandbox local, but the manifest says unknown"]),
    "no sandbox in the record": ([agent(sandbox="podman"), record(sandbox_name="", sandbox_limits={})], []),
    "another time to continue until": (
        [noted(until="gold"), record(agent_definition={"id": "mine", "kwargs": {"steps": 3}, "until": "end"})],
        ["it was told to continue until a time other than the manifest says"]),
    "the same moment": (
        [noted(until="end"), record(agent_definition={"id": "mine", "kwargs": {"steps": 3}, "until": "end"})], []),
    "a time that the manifest does not have": (
        [record(agent_definition={"id": "mine", "kwargs": {"steps": 3}, "until": "end"})], []),
    "a limit of the sandbox that is a string": (
        [record(sandbox_limits={"memory": "much"})], ["its limits, or those of its sandbox, are not numbers"]),
    "limits of the sandbox with another name": (
        [record(sandbox_limits={**describe(parse(Limits, LIMITS)), "all": 1})],
        ["the limits of its sandbox are not all numbers"]),
    "an infinite limit of the sandbox": (
        [record(sandbox_limits={**describe(parse(Limits, LIMITS)), "disk": float("inf")})],
        ["its limits, or those of its sandbox, are not numbers"]),
    "a limit that the sandbox did not apply": (
        [record(sandbox_limits={**describe(parse(Limits, LIMITS)), "cpus": 3})],
        ["its sandbox applied the cpus 3.0, but the run was given 2.0"]),
    "a share of the disk in addition": (
        [record(sandbox_limits={**describe(parse(Limits, LIMITS)), "disk": 1 << 30})], []),
    "all of the machine": ([limited(cpus=None, memory=None),
        record(sandbox_limits={**describe(parse(Limits, {"time_limit": 3600.0})), "cpus": 8, "memory": 16 << 30})], []),
    "no share of the machine": ([limited(cpus=None, memory=None)], []),
    "infinite CPUs": ([limited(cpus=None), session(cluster={"engine": "slurm"}),
        record(sandbox_limits={**describe(parse(Limits, LIMITS)), "cpus": float("inf")})],
        ["the limits of its sandbox are not all numbers"]),
    "more CPUs than the machine": ([limited(cpus=None),
        record(sandbox_limits={**describe(parse(Limits, LIMITS)), "cpus": 9})],
        ["its sandbox applied more cpus than the machine has"]),
    "more memory than the machine": ([limited(memory=None),
        record(sandbox_limits={**describe(parse(Limits, LIMITS)), "memory": (16 << 30) + 1})],
        ["its sandbox applied more memory than the machine has"]),
    "more than the machine of the session, on a cluster": ([limited(cpus=None), session(cluster={"engine": "slurm"}),
        record(sandbox_limits={**describe(parse(Limits, LIMITS)), "cpus": 9})], []),
    "more than the machine, as it was given": ([limited(cpus=9)], []),
    "another network": (
        [record(sandbox_network="full")], ["its network was 'full', but the manifest says 'llm'"]),
    "no network": ([record(sandbox_network="none")], []),
    "a network that the record does not say": ([record(sandbox_network="")], []),
    "a network that the manifest does not say": ([noted(network=None), record(sandbox_network="full")], []),
    "a local sandbox with a network": (
        [locally, record(sandbox_network="llm")], ["its network was 'llm', but the manifest says 'llm'"]),
    "a local sandbox in an image": (
        [locally, record(sandbox_image="i")], ["it ran in the local sandbox, but names a container or an image"]),
    "a local sandbox in a container": (
        [locally, record(sandbox_container="c")], ["it ran in the local sandbox, but names a container or an image"]),
    "an agent defined as another": (
        [record(agent_definition={"id": "x", "kwargs": {"steps": 3}})],
        ["id of its agent differs from the manifest", "its agent is defined as 'x'"]),
    "a competition that the manifest does not know": (
        [noted(competitions={})], [f"the manifest lacks its competition {COMPETITION.id}"]),
    "another split": ([competition(split="x")], [OTHER_COMPETITION]),
    "another category": ([competition(category="x")], [OTHER_COMPETITION]),
    "another version": ([competition(version="v9")], [OTHER_COMPETITION]),
    "a competition without a digest": ([competition(split="x", digest=None)], []),
    "no digests of the data": ([record(data={})], ["it does not say which data it had"]),
    "no digests of the data of a run that failed": ([record(data={}, error="the engine is gone")], []),
    "an exit code of a finished run": ([record(exit_code=1)], ["it finished, but with exit code 1"]),
    "an exit code of zero": ([record(exit_code=0)], []),
    "an exit code of a crash": ([record(exit_code=1, ending=Ending.CRASHED)], []),
    "a budget that did not end": (
        [record(ending=Ending.BUDGET_ENDED)], ["it ran out of budget, but its model calls did not exhaust it"]),
    "a budget that ended": ([record(ending=Ending.BUDGET_ENDED, llm={"budget_ended": True})], []),
    "an unknown kind of description": (
        [record(description="ours")], ["its description is of an unknown kind: 'ours'"]),
    "a hidden description": ([record(description="obfuscated")],
        ["it read another kind of description than the manifest says"]),
    "permissions that are not a mapping": (
        [record(permissions={"used": {}})], ["its permissions are not valid"]),
    "permissions without those used": (
        [record(permissions={"granted": {}})], ["its permissions are not valid"]),
    "permissions that match no connections": (
        [record(permissions={"granted": {}, "used": {"hosts": ["x:443"]}})],
        ["the permissions that it used do not follow from its sandbox and its connections"]),
    "a host that it reached": ([record(sandbox_connections=ANOTHER,
        permissions={"granted": {}, "used": {"hosts": ["a.example:443"]}})], []),
    "a secret that was not granted": ([record(permissions={"granted": {}, "used": {"secrets": ["A"]}})],
        ["it used secrets that the user did not grant"]),
    "a granted secret": ([record(permissions={"granted": {"allow_secrets": ["A"]}, "used": {"secrets": ["A"]}})], []),
    "malformed secrets": ([record(permissions={"granted": {"allow_secrets": "AB"}, "used": {"secrets": "A"}})],
        ["it used secrets that the user did not grant"]),
    "no isolation without trust": (
        [locally, record(permissions={"granted": {"trust_agents": ["other"]}, "used": NO_ISOLATION})],
        ["it ran without isolation, which the user did not grant"]),
    "no isolation with trust": (
        [locally, record(permissions={"granted": {"trust_agents": ["mine"]}, "used": NO_ISOLATION})], []),
    "no isolation of a bundled agent": (
        [locally, record(permissions={"granted": {}, "bundled": True, "used": NO_ISOLATION})], []),
    "an infinite limit": (
        [noted(limits={**LIMITS, "time_limit": float("inf")}),
         record(limits={**LIMITS, "time_limit": float("inf")},
                sandbox_limits={**describe(parse(Limits, LIMITS)), "time_limit": float("inf")})],
        ["it has no time limit", "the limits of its sandbox are not all numbers",
         "limits: they are not valid: there is no time limit"]),
    "a limit that is a string": (
        [noted(limits={**LIMITS, "cpus": "two"})],
        ["its limits differ from the manifest",
         "limits: they are not valid: cpus must be a number, not \"two\""]),
    "no verdict on the setting": ([manifest(canonical=None)],
        ["canonical: the manifest does not say how the setting differs from the canonical one"]),
    "the canonical setting": ([manifest(canonical=Canonical(is_canonical=True))],
        ["canonical: the manifest's verdict on the setting does not follow from its limits and machines"]),
    "another verdict on the same differences": (
        [manifest(canonical=replace(canonical(), is_canonical=True))],
        ["canonical: the manifest's verdict on the setting does not follow from its limits and machines"]),
    "an additional difference": (
        [manifest(canonical=Canonical(False, (*canonical().differences, "x")))],
        ["canonical: the manifest's verdict on the setting does not follow from its limits and machines"]),
    "recorded answers that the verdict does not have": ([noted(llm_replay="g")],
        ["canonical: the manifest's verdict on the setting does not follow from its limits and machines"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CLAIMS)
def test_records_and_manifest_agree(name: str) -> None:
    changes, expected = CLAIMS[name]
    assert found(*changes) == expected


def test_a_run_has_the_groups_version_and_its_kind_of_description() -> None:
    (own,) = honest().records
    later = record(report=replace(own.report, bench_version="v2"))
    assert "it uses version v2 of the benchmark" in found(noted(bench_version="v1"), later)
    assert len(found(noted(description="obfuscated"))) == 1, "the record does not say which description the agent read"
    hidden = [noted(description="obfuscated"), record(description="obfuscated")]
    (said,) = found(*hidden)
    assert said.startswith("canonical:")
    assert len(found(noted(description="obfuscated"), record(description="bundled"))) == 2
    assert [found(record(description=kind)) for kind in ("bundled", "kaggle", "other")] == [[], [], []]


SUMS: dict[str, tuple[Change, str]] = {
    "images": (
        manifest(images={"mine": {"i": "y"}}),
        "images: the manifest and the records disagree on mine"),
    "no images": (manifest(images={}), "images: the manifest and the records disagree on mine"),
    "data": (
        manifest(data={COMPETITION.id: {"answers": "e"}}),
        f"data: the manifest and the records disagree on {COMPETITION.id}"),
    "more data": (
        manifest(data={COMPETITION.id: {"answers": "d", "public": "p"}}),
        f"data: the manifest and the records disagree on {COMPETITION.id}"),
    "models": (
        manifest(models={"mine": {"gpt": 2}}), "models: the manifest has gpt × 2, but the records have none"),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_totals_in_the_manifest_match_the_records(name: str) -> None:
    change, expected = SUMS[name]
    assert found(change, sums=False) == [expected]


def test_a_manifest_may_count_replaced_attempts() -> None:
    more = manifest(images={"mine": {"i": "x", "earlier": "y"}, "other": {"j": "z"}})
    assert found(more, sums=False) == []


@pytest.mark.parametrize("still", [session(ended_at=None), session(cluster={"engine": "slurm"})])
def test_an_interrupted_group_may_lack_totals_but_not_have_wrong_ones(still: Change) -> None:
    asked = record(sandbox_connections=ANOTHER)
    assert found(still, asked, manifest(images={}, connections={}, models={}), sums=False) == []
    wrong = manifest(images={"mine": {"i": "y"}})
    assert found(still, wrong, sums=False) == ["images: the manifest and the records disagree on mine"]
    assert found(asked, sums=False) == [f"connections: the manifest and the records disagree on {COMPETITION.id}"]


OTHERS = (*ANOTHER, Connection(host="b.example", port=443, allowed=True))
ASKED = record(llm={"calls": 2, "models": {"gpt": {"calls": 2}}})


@pytest.mark.parametrize("still", [session(ended_at=None), session(cluster={"engine": "slurm"})])
def test_totals_of_an_interrupted_group_may_cover_fewer_runs(still: Change) -> None:
    fewer = manifest(connections={COMPETITION.id: {"a.example": 1}})
    assert found(still, record(sandbox_connections=OTHERS), fewer, sums=False) == []
    assert found(still, ASKED, sums=False) == []
    said = "models: the manifest has gpt × 1, but the records have gpt × 2"
    assert found(still, ASKED, manifest(models={"mine": {"gpt": 1}}), sums=False) == [said]
    assert found(ASKED, sums=False) == ["models: the manifest has none, but the records have gpt × 2"]


def test_the_last_session_shows_whether_a_group_has_ended() -> None:
    said = ["models: the manifest has none, but the records have gpt × 2"]
    for still in ({"ended_at": None}, {"cluster": {"engine": "slurm"}}):
        assert found(sessions(first=still), ASKED, sums=False) == said
        assert found(sessions(last=still), ASKED, sums=False) == []


def test_permissions_in_the_manifest_include_all_that_runs_used() -> None:
    used = record(permissions={"granted": {"allow_secrets": ["A"]}, "used": {"secrets": ["A"]}})
    lacks = "permissions: the manifest lacks secrets that runs of mine used"
    assert found(used, manifest(permissions={"mine": {"secrets": ["A", "B"]}}), sums=False) == []
    assert found(used, manifest(permissions={"mine": {"secrets": ["B"]}}), sums=False) == [lacks]
    assert found(used, manifest(permissions={}), sums=False) == [lacks]
    alone = record(permissions={"granted": {"trust_agents": ["mine"]}, "used": NO_ISOLATION})
    for other in (False, [True]):
        noted_otherwise = manifest(permissions={"mine": {"no_isolation": other}})
        assert found(locally, alone, manifest(images={}), noted_otherwise, sums=False) == [
            "permissions: the manifest lacks no_isolation that runs of mine used"
        ]
    assert found(used, session(ended_at=None), manifest(permissions={}), sums=False) == []
    assert found(used, session(ended_at=None), manifest(permissions={"mine": {"hosts": []}}), sums=False) == [lacks]


def test_models_are_counted_by_name() -> None:
    assert counts({}) == "none"
    assert counts({"a": {"o3": 2, "gpt-5": 10}, "b": {"gpt-5": 2}}) == "gpt-5 × 12, o3 × 2"
    assert counts({"a": {f"m{k}": k for k in range(1, 7)}}) == "m1 × 1, m2 × 2, m3 × 3, m4 × 4, m5 × 5"


def sessions(*changes: str, first: Mapping[str, Any] | None = None, last: Mapping[str, Any] | None = None) -> Change:
    """Two sessions an hour apart; the second has notes of these changes."""

    def changed(group: RunGroup) -> RunGroup:
        (own,) = group.manifest.sessions
        later = replace(own, **{"started_at": at(7200), "ended_at": at(9000), "changes": changes, **(last or {})})
        return replace(group, manifest=replace(group.manifest, sessions=(replace(own, **(first or {})), later)))

    return changed


def test_notes_of_changes_explain_differences_one_by_one() -> None:
    hour = "limits time_limit was 600.0, is 3600.0"
    shorter = {**LIMITS, "time_limit": 600.0}
    both = Canonical.combine(canonical(shorter), canonical().differences)
    early = record(limits=shorter, sandbox_limits=describe(parse(Limits, shorter)))
    late = record(started_at=at(7300), ended_at=at(7360))
    assert found(sessions(hour), early, manifest(canonical=both)) == []
    assert found(sessions(hour), late, manifest(canonical=both)) == []
    unlike = ["its limits differ from the manifest"]
    assert found(sessions(hour), early, late, manifest(canonical=both)) == unlike
    assert found(sessions(hour), manifest(canonical=both)) == unlike
    assert found(sessions(), early) == unlike


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "session 2 has a change of settings that no session writes: 'x'"),
        ("a was os.sep, is 1", "session 2 has a change of settings that no session writes: 'a was os.sep, is 1'"),
        ("limits cpus was 1, is 3", "session 2 changed limits cpus to 3, but the settings do not have that"),
        ("runtime was None, is 'runsc'", "session 2 changed runtime to 'runsc', but the settings do not have that"),
    ],
)
def test_a_note_that_explains_nothing_is_a_contradiction(text: str, said: str) -> None:
    assert found(sessions(text)) == [said]


def test_notes_of_removed_settings_and_values_with_commas_are_read() -> None:
    assert found(sessions("runtime was 'runsc', is None")) == []
    assert found(noted(runtime="runsc"), sessions("runtime was 'runsc', is None")) == [], "its last value is kept"
    assert found(noted(title="b, is c"), sessions("title was 'a, is b', is 'b, is c'")) == []


def test_a_note_of_up_to_4000_characters_is_read() -> None:
    note = f"title was 'a', is '{'x' * 3980}'"
    assert len(note) == 4000 and found(noted(title="x" * 3980), sessions(note)) == []
    (said,) = found(noted(title="x" * 3981), sessions(f"title was 'a', is '{'x' * 3981}'"))
    assert said.startswith("session 2 has a change of settings that no session writes")


def test_changes_of_several_sessions_follow_each_other() -> None:
    """Three sessions with limits of ten minutes, twenty minutes and an hour."""
    limits = [{**LIMITS, "time_limit": seconds} for seconds in (600.0, 1200.0, 3600.0)]

    def three(group: RunGroup) -> RunGroup:
        (own,) = group.manifest.sessions
        first, second, third = (
            replace(own, started_at=at(start), ended_at=at(start + 900)) for start in (0, 3600, 7200)
        )
        second = replace(second, changes=("limits time_limit was 600.0, is 1200.0",))
        third = replace(third, changes=("limits time_limit was 1200.0, is 3600.0",))
        verdict = None
        for own_limits in limits:
            verdict = Canonical.combine(verdict, canonical(own_limits).differences)
        return manifest(sessions=(first, second, third), canonical=verdict)(group)

    for number, start in enumerate((0, 3600, 7200)):
        for other, own in enumerate(limits):
            run = record(
                started_at=at(start), ended_at=at(start + 60), limits=own, sandbox_limits=describe(parse(Limits, own))
            )
            expected = [] if other == number else ["its limits differ from the manifest"]
            assert found(three, run) == expected


def test_a_run_between_two_sessions_is_compared_with_the_better_match() -> None:
    notes = ("agents mine kwargs steps was 2, is 3", "limits time_limit was 600.0, is 3600.0")
    two = sessions(*notes, last={"started_at": at(3660)})
    verdict = Canonical.combine(canonical({**LIMITS, "time_limit": 600.0}), canonical().differences)
    run = record(started_at=at(3600), ended_at=at(3660), agent_definition={"id": "mine", "kwargs": {"steps": 4}})
    assert found(two, run, manifest(canonical=verdict)) == ["kwargs steps of its agent differs from the manifest"]


def test_the_first_session_has_no_notes_of_changes() -> None:
    text = "limits cpus was 1, is 2"
    assert found(session(changes=(text,))) == [f"session 1 has a change of settings that no session writes: {text!r}"]


def test_sessions_are_in_chronological_order() -> None:
    follows = ["session 1 begins after its end, the next session or the bundle"]
    assert found(sessions(first={"started_at": at(7320), "ended_at": None})) == [
        "it ran outside the sessions of the group"
    ]
    assert found(sessions(first={"started_at": at(7321), "ended_at": None})) == follows
    assert found(sessions(), manifest(created_at=at(500))) == ["the group was created after its first session"]
    between = record(started_at=at(5000), ended_at=at(5060))
    assert found(sessions(), between) == ["it ran outside the sessions of the group"]
    assert found(sessions(first={"ended_at": None}), between) == [], "it was killed, and its workers went on"


def imported(group: RunGroup) -> RunGroup:
    (own,) = group.records
    plain = replace(own, limits={}, sandbox=replace(own.sandbox, name="", limits={}))
    values = {**group.manifest.settings, "run_by": {"name": "harbor", "version": "1"}}
    return replace(
        group, records=(plain,), manifest=replace(group.manifest, settings=values, sessions=(), canonical=None)
    )


SESSIONS = "the runs are from harbor 1, but the manifest has sessions"
A_SANDBOX = "it is from harbor 1, but its record has a sandbox, limits or permissions"
IMPORTED: dict[str, tuple[Change, list[str]]] = {
    "nothing": (record(), []),
    "sessions": (manifest(sessions=honest().manifest.sessions), [SESSIONS]),
    "a verdict on the setting": (manifest(canonical=canonical()), [SESSIONS]),
    "options": (manifest(options={"--cpus": "1"}), [SESSIONS]),
    "a sandbox": (record(sandbox_name="docker"), [A_SANDBOX]),
    "connections": (record(sandbox_connections=ANOTHER), [A_SANDBOX]),
    "limits": (record(limits=LIMITS), [A_SANDBOX]),
    "permissions": (record(permissions={"granted": {}}), [A_SANDBOX]),
    "a time": (record(seconds=180.0), []),
    "no time": (record(seconds=0.0), []),
    "a longer time": (record(seconds=181.0), ["its times contradict each other"]),
    "a negative duration": (record(seconds=-1.0), ["its times contradict each other"]),
    "invalid times": (record(started_at="x"), ["its times contradict each other"]),
    "no definition of its agent": (record(agent_definition={}), []),
    "another agent": (record(agent_definition={"id": "x"}), ["its agent is defined as 'x'"]),
}


@pytest.mark.parametrize("name", IMPORTED)
def test_an_imported_group_has_no_claims_that_only_a_session_can_make(name: str) -> None:
    change, expected = IMPORTED[name]
    assert found(imported, change) == expected


@pytest.mark.parametrize(
    ("text", "number", "expected"),
    [
        ("x was [" + "', is '," * 450 + "], is 1", 20, "has a change of settings that no session writes"),
        ("x was 1, is 1", 100_000, "more changes of settings than any session writes"),
    ],
)
def test_changes_are_read_in_limited_time(text: str, number: int, expected: str) -> None:
    own = honest().manifest.sessions[0]
    manifest = replace(honest().manifest, settings={"x": 1}, sessions=(own, replace(own, changes=(text,) * number)))
    started = time.process_time()
    found = _settings_by_session(manifest)
    assert isinstance(found, str) and expected in found
    assert time.process_time() - started < 0.3


def test_settings_of_many_sessions_take_limited_memory() -> None:
    own, values = honest().manifest.sessions[0], {str(number): 1 for number in range(2000)}
    manifest = replace(honest().manifest, settings=values, sessions=(own,) * 10_000)
    found = _settings_by_session(manifest)
    assert len(found) == 10_000 and all(one is found[0] for one in found), "they are not copied"
    changing = (own, *[replace(own, changes=("0 was 1, is 1",))] * 1001)
    found = _settings_by_session(replace(manifest, sessions=changing))
    assert isinstance(found, str) and "more changes of settings than any session writes" in found
    assert len(_settings_by_session(replace(manifest, sessions=changing[:-1]))) == 1001
