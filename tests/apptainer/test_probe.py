"""What the probe's output means."""

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
}


def output(**changes: Any) -> str:
    return "a warning\n" + json.dumps({**GOOD, **changes})


def test_an_installation_that_can_do_all_enforces_all() -> None:
    assert not read(output(), network=False, groups=False).unenforced


@pytest.mark.parametrize(
    ("changes", "limit"),
    [({"pinned": False}, "processors"), ({"children": 0}, "processes"), ({"children": CHILDREN}, "processes")],
)
def test_a_limit_that_nothing_keeps_is_named(changes: dict[str, Any], limit: str) -> None:
    abilities = read(output(**changes), network=False, groups=False)
    assert list(abilities.unenforced) == [limit]
    assert any(f"not enforced by this installation: {limit}" in note for note in abilities.notes)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"first": False}, "a process namespace"),
        ({"interfaces": ["lo", "eth0"]}, "a network namespace"),
        ({"capabilities": "3fffffffff"}, "no capabilities"),
        ({"no_new_privileges": False}, "no-new-privileges"),
    ],
)
def test_a_container_that_does_not_confine_is_refused(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(SandboxError, match=what):
        read(output(**changes), network=False, groups=False)


def test_the_open_network_is_no_mistake_where_it_was_asked_for() -> None:
    assert read(output(interfaces=["lo", "eth0"]), network=True, groups=False).writable


@pytest.mark.parametrize("text", ["", "Traceback", "{}", "[]", '{"first": true}'])
def test_output_of_another_program_is_an_error(text: str) -> None:
    with pytest.raises(SandboxError, match="printed"):
        read(text, network=False, groups=False)
