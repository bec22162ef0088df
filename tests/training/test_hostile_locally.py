"""Attacks on guarantees that the local sandbox shares, as commands of episodes."""
# ruff: noqa: F401

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sandbox.hostile.test_dodges import (
    test_a_daemon_wants_to_change_the_submission_while_it_is_collected,
    test_a_daemon_wants_to_outlive_a_successful_agent,
    test_a_pipe_without_an_end_wants_to_be_the_submission,
)
from tests.sandbox.hostile.test_submission import test_a_submission_that_is_not_a_file_is_missing
from tests.sandbox.scripted import MB, Runner
from tests.training.test_hostile import episodes_of_a_toy

pytestmark = [pytest.mark.full, pytest.mark.serial]


@pytest.fixture
def attack(tmp_path: Path) -> Runner:
    return episodes_of_a_toy(tmp_path, "local")


def test_a_step_cannot_have_more_memory_than_the_episode(attack: Runner) -> None:
    result = attack("python3 -c 'print(len(bytearray(b\"x\" * (1 << 30))))'", memory=256 * MB)
    assert str(1 << 30) not in result.log
