"""Deprecated names still work, with a warning that gives the new location."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

from pytest_mlebench.authoring.worlds import images, scans

OLD = {
    "from pytest_mlebench.data.authoring.tables import read_csv": "pytest_mlebench.data.authoring is now",
    "from pytest_mlebench.data.authoring import tfrecord": "pytest_mlebench.data.authoring is now",
    "from pytest_mlebench.grading import predictions": "predictions will be removed in version 0.3: import it from",
    "from pytest_mlebench.grading.metrics.text import word_error_rate": "pytest_mlebench.grading.metrics is now",
    "from pytest_mlebench.grading.metrics.roc import weighted_roc_auc": "grading.metrics.roc is now",
    "from pytest_mlebench.grading.metrics.audio import lwlrap": "grading.metrics.audio is now",
    "from pytest_mlebench.grading.metrics.geometry import angular_error": "grading.metrics.geometry is now",
    "from pytest_mlebench.grading.resampling import RowScores": "pytest_mlebench.grading.resampling is now",
}


@pytest.mark.full
@pytest.mark.parametrize("line", OLD)
def test_an_old_import_works_and_names_the_new_one(line: str) -> None:
    done = subprocess.run([sys.executable, "-W", "always", "-c", line], capture_output=True, text=True, check=True)
    assert OLD[line] in done.stderr


def test_a_name_that_never_existed_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="cannot import name 'prediction'"):
        from pytest_mlebench.grading import prediction  # noqa: F401


MOVED = {
    "bundled": "write_competition",
    "private_random": "keyed",
    "worlds.audio": "tone",
    "worlds.boxes": "redrawn",
    "worlds.facts": "Facts",
    "worlds.masks": "blob",
    "worlds.spoken": "Speech",
    "worlds.tables": "hidden_score",
    "worlds.things": "Camera",
    "worlds.video": "mp4",
}


def test_moved_helpers_work_and_name_their_new_modules() -> None:
    lines = [f"from pytest_mlebench.authoring.{old} import {name}" for old, name in MOVED.items()]
    command = [sys.executable, "-W", "always", "-c", "\n".join(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for old in MOVED:
        assert f"pytest_mlebench.authoring.{old} is now pytest_mlebench.authoring." in done.stderr


RENAMED = {
    "data.preparing.Source": "DataSource",
    "extras.engines.contract.State": "JobState",
    "extras.training.observation.Step": "CommandResult",
    "extras.training.pool.Job": "EpisodeJob",
    "extras.training.recording.Recording": "EpisodeRecording",
}


@pytest.mark.parametrize("old", RENAMED)
def test_renamed_classes_are_available_under_their_old_names(old: str) -> None:
    place, _, name = f"pytest_mlebench.{old}".rpartition(".")
    module = import_module(place)
    with pytest.warns(DeprecationWarning, match=f"{name} is now {RENAMED[old]}"):
        assert getattr(module, name) is getattr(module, RENAMED[old])
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = module.Nothing


def test_the_jpeg_files_of_scans_are_those_of_images() -> None:
    pixels = np.zeros((8, 8), np.uint8)
    with pytest.warns(DeprecationWarning, match="scans.jpeg is now images.jpeg"):
        assert scans.jpeg(pixels, 2000) == images.jpeg(pixels, block=2000)
