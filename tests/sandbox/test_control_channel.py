"""Which messages of a container's first process the harness accepts."""

from __future__ import annotations

import pytest

from pytest_mlebench.sandbox.channels import AgentEnded, ControlChannelClosed, Started, parse_message


def test_the_protocol_is_parsed() -> None:
    assert parse_message(b'{"started": true}') == Started()
    assert parse_message(b'{"exit_code": 3, "oom_kills": 2}') == AgentEnded(3, None, 2)
    assert parse_message(b'{"signal": 9, "oom_kills": null}') == AgentEnded(None, "SIGKILL", None)
    assert parse_message(b'{"signal": 40}') == AgentEnded(None, "signal 40", None)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"junk",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b"[" * 60_000,
        b'{"a":' * 30_000,
        b'{"exit_code": "0"}',
        b'{"exit_code": true}',
        b'{"exit_code": -1}',
        b'{"exit_code": 256}',
        b'{"exit_code": 1e400}',
        b'{"exit_code": ' + b"9" * 4000 + b"}",
        b'{"exit_code": 0, "oom_kills": "many"}',
        b'{"exit_code": 0, "oom_kills": -1}',
        b'{"exit_code": 0, "oom_kills": true}',
        b'{"exit_code": 0, "oom_kills": 1e99}',
        b'{"gpus_seen": true}',
        b'{"gpus_seen": -1}',
        b'{"signal": "SIGKILL"}',
        b'{"signal": 0}',
        b'{"signal": 128}',
        b'{"signal": true}',
        b'{"started": true, "junk": "' + b"x" * 10_000 + b'"}',
    ],
)
def test_anything_else_closes_the_channel(line: bytes) -> None:
    with pytest.raises(ControlChannelClosed):
        parse_message(line)
