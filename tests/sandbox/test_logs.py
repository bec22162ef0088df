"""An agent's output on its way to the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_mlebench.sandbox.redaction import LogWriter, Redactor, tail


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.log"


def test_a_short_log_is_complete_and_readable_while_it_grows(path: Path) -> None:
    log = LogWriter(path, 1000)
    log.write(b"one\n")
    assert path.read_bytes() == b"one\n"
    log.write(b"two\n")
    log.close()
    log.close()
    assert path.read_bytes() == b"one\ntwo\n"


def test_a_long_log_keeps_its_head_and_tail(path: Path) -> None:
    log = LogWriter(path, 1000)
    for number in range(10_000):
        log.write(b"%05d\n" % number)
    log.close()
    content = path.read_bytes()
    assert content.startswith(b"00000\n00001\n") and content.endswith(b"09998\n09999\n")
    assert b"bytes left out" in content and len(content) < 1100
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_secrets_are_masked_even_if_split(path: Path, step: int) -> None:
    log = LogWriter(path, 10_000, Redactor(["hunter2-key", "hunter2-key2", ""]))
    text = b"key hunter2-key, longer hunter2-key2, part hunter2"
    for start in range(0, len(text), step):
        log.write(text[start : start + step])
    log.close()
    content = path.read_bytes()
    assert (
        b"hunter2-key" not in content
        and content.startswith(b"key ***, longer ***")
        and content.endswith(b"part hunter2")
    )


def test_the_tail_of_a_log_is_always_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\n" * 100 + b"last\n")
    assert tail(path, lines=2).splitlines()[-1] == "last"
    assert tail(path.with_name("none")) == ""
