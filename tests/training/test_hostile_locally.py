"""The sandbox's attacks on what the local sandbox keeps, too, as commands of episodes."""
# ruff: noqa: F401

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sandbox.hostile.test_dodges import (
    test_a_daemon_wants_to_change_the_submission_while_it_is_collected,
    test_a_daemon_wants_to_outlive_an_agent_that_ends_well,
    test_a_pipe_without_an_end_wants_to_be_the_submission,
)
from tests.sandbox.hostile.test_submission import test_a_submission_that_is_no_file_is_none
from tests.sandbox.scripted import MB, Runner
from tests.training.test_hostile import episodes_of_a_toy

pytestmark = [pytest.mark.full, pytest.mark.serial]


@pytest.fixture
def attack(tmp_path: Path) -> Runner:
    return episodes_of_a_toy(tmp_path, "local")


def test_a_step_cannot_have_more_memory_than_the_episode(attack: Runner) -> None:
    result = attack("python3 -c 'print(len(bytearray(b\"x\" * (1 << 30))))'", memory=256 * MB)
    assert str(1 << 30) not in result.log
