"""The sandbox's account of a run in the run's record."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pytest_mlebench.sandbox import Connection, SandboxAccount, Validation

FULL = SandboxAccount(
    name="docker",
    image="mlebench-agent-x:1",
    image_digest="sha256:0",
    container="mlebench-1",
    network="llm",
    runtime="runc",
    privileged=True,
    gpus=("GPU-1",),
    disk="quota",
    connections=(Connection(at=1.5, host="api.example", port=443, method="CONNECT", allowed=True, sent=2, received=3),),
    unrecorded_connections=4,
    validations=(Validation(at=2.0, verdict="The submission is valid."),),
    left_out=("logs/pipe (not a regular file)",),
    left_out_unnamed=5,
    left_behind=6,
    limits={"memory": 1024},
    notes=("a note",),
    kept="container mlebench-1",
)


def test_an_account_survives_json() -> None:
    assert SandboxAccount.from_json(json.loads(json.dumps(FULL.to_json()))) == FULL
    assert SandboxAccount.from_json({}) == SandboxAccount()


def test_keys_of_later_versions_are_ignored_and_null_counts_as_missing() -> None:
    values: dict[str, Any] = {
        "name": "docker",
        "runtime": None,
        "connections": [{"host": "a", "new": 1}],
        "invented": {},
    }
    assert SandboxAccount.from_json(values) == SandboxAccount(name="docker", connections=(Connection(host="a"),))


def test_validations_are_json_pairs_and_empty_values_are_omitted() -> None:
    assert FULL.to_json()["validations"] == [[2.0, "The submission is valid."]]
    assert replace(SandboxAccount(), name="local").to_json() == {"name": "local"}


@pytest.mark.parametrize(
    "values",
    [
        [],
        {"name": 1},
        {"privileged": "yes"},
        {"left_out": "text"},
        {"left_behind": True},
        {"connections": [1]},
        {"connections": [{"port": "443"}]},
        {"validations": [[1.0, 2]]},
        {"validations": [[1.0]]},
        {"validations": [1]},
        {"limits": []},
    ],
)
def test_an_invalid_account_is_an_error(values: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        SandboxAccount.from_json(values)  # type: ignore[arg-type]
