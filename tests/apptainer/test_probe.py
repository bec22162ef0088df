"""Interpreting the probe's output."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.extras.apptainer.probe import CHILDREN, read

GOOD = {
    "first": True,
    "interfaces": ["lo"],
    "writable": True,
    "pinned": True,
    "capabilities": "",
    "no_new_privileges": True,
    "filtered": True,
    "children": CHILDREN - 20,
    "disk": False,
    "group": {},
}
GROUP = {"memory.max": "1073741824", "memory.swap.max": "0", "cpu.max": "50000 100000", "pids.max": "256"}


def output(**changes: Any) -> str:
    return "a warning\n" + json.dumps({**GOOD, **changes})


def test_a_complete_installation_enforces_all_limits() -> None:
    assert not read(output(), network=False).unenforced


@pytest.mark.parametrize(
    ("changes", "limit"),
    [({"pinned": False}, "processors"), ({"children": 0}, "processes"), ({"children": CHILDREN}, "processes")],
)
def test_a_limit_that_cannot_be_enforced_is_named(changes: dict[str, Any], limit: str) -> None:
    abilities = read(output(**changes), network=False)
    assert list(abilities.unenforced) == [limit]
    assert any(f"not enforced by this installation: {limit}" in note for note in abilities.notes)


def test_a_control_group_enforces_all_limits() -> None:
    without_swap = {name: limit for name, limit in GROUP.items() if name != "memory.swap.max"}
    for group in (GROUP, without_swap):
        abilities = read(output(group=group, pinned=False, children=0), network=False)
        assert abilities.groups and not abilities.unenforced
        assert "limit on memory enforced by a control group of the run" in abilities.notes


@pytest.mark.parametrize("name", GROUP)
def test_a_control_group_that_lacks_a_limit_is_not_used(name: str) -> None:
    for limit in ("max", "max 100000"):
        abilities = read(output(group={**GROUP, name: limit}), network=False)
        assert not abilities.groups and "limit on memory enforced by polling" in abilities.notes


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"first": False}, "a process namespace"),
        ({"interfaces": ["lo", "eth0"]}, "a network namespace"),
        ({"capabilities": "3fffffffff"}, "no capabilities"),
        ({"no_new_privileges": False}, "no-new-privileges"),
    ],
)
def test_a_container_that_does_not_isolate_is_rejected(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(SandboxError, match=what):
        read(output(**changes), network=False)


def test_full_network_access_is_accepted_if_requested() -> None:
    assert read(output(interfaces=["lo", "eth0"]), network=True).writable


@pytest.mark.parametrize("text", ["", "Traceback", "{}", "[]", '{"first": true}'])
def test_output_of_another_program_is_an_error(text: str) -> None:
    with pytest.raises(SandboxError, match="gave no result"):
        read(text, network=False)
