"""A competition's folder is a Python package whose files can import each other."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_mlebench.catalog import Competition
from pytest_mlebench.catalog.competition import import_file
from pytest_mlebench.errors import CompetitionError

YAML = """\
id: {id}
title: Mine
split: house
category: Tabular
metric: accuracy
direction: higher
leaderboard: {{teams: 1000, gold: 0.9, silver: 0.8, bronze: 0.7, median: 0.6}}
"""
Make = Callable[..., Competition]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make(where: str, /, **files: str) -> Competition:
        folder = tmp_path / where
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "description.md").write_text("# Mine\n")
        (folder / "competition.yaml").write_text(YAML.format(id=folder.name))
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        return Competition.load(folder)

    return make


GRADE = "from .labels import VOTES\n\n\ndef grade(submission, answers):\n    return VOTES\n"


@pytest.mark.parametrize("folder", ["odd name", "caf\udce9"])
def test_the_files_of_a_folder_import_each_other(folder: str, make: Make) -> None:
    competition = make(f"{folder}/my-1.0_comp", labels="VOTES = 1.5", grade=GRADE)
    assert competition.module("grade").grade(None, None) == 1.5
    assert competition.module("labels").VOTES == 1.5


def test_folders_with_the_same_id_do_not_conflict(make: Make) -> None:
    competitions = [make(f"{k}/same", labels=f"VOTES = {k}", grade=GRADE) for k in range(3)]
    assert [competition.module("grade").grade(None, None) for competition in competitions] == [0, 1, 2]
    assert [competition.module("grade").VOTES for competition in competitions] == [0, 1, 2]


def test_a_changed_file_and_its_importers_are_reloaded(make: Make) -> None:
    module = make("same", labels="VOTES = 1", grade=GRADE).module("grade")
    assert make("same").module("grade") is module
    assert make("same", labels="VOTES = 1 + 1").module("grade").VOTES == 2


def test_a_later_version_imports_the_common_files_by_their_relative_path(make: Make, tmp_path: Path) -> None:
    first = make("mine", labels="VOTES = 1", grade=GRADE)
    (tmp_path / "mine/v2").mkdir()
    (tmp_path / "mine/v2/labels.py").write_text("VOTES = 2\n")
    (tmp_path / "mine/v2/grade.py").write_text(
        "from .. import grade as first\nfrom ..labels import VOTES\nfrom . import labels\n\n\n"
        "def grade(submission, answers):\n    return [VOTES, labels.VOTES, first.grade(submission, answers)]\n"
    )
    second = Competition.load(tmp_path / "mine", version="v2")
    assert first.module("grade").grade(None, None) == 1
    assert second.module("grade").grade(None, None) == [1, 2, 1]
    assert second.module("grade").first is first.module("grade")


def test_no_import_hook_is_left_behind(make: Make) -> None:
    hooks = [*sys.meta_path], [*sys.path_hooks], [*sys.path]
    make("mine", labels="VOTES = 1", grade=GRADE).module("grade")
    assert hooks == ([*sys.meta_path], [*sys.path_hooks], [*sys.path])
    assert not any(type(hook).__module__.startswith("pytest_mlebench") for hook in sys.meta_path)
    assert not any(getattr(hook, "__module__", "").startswith("pytest_mlebench") for hook in sys.meta_path)


def test_a_folder_may_have_an_init_file(make: Make) -> None:
    competition = make("mine", __init__="SIZE = 3", grade="from . import SIZE")
    assert competition.module("grade").SIZE == 3


@pytest.mark.parametrize(
    ("grade", "message"),
    [
        ("VOTES = 1\nVOTES = VOTS\n", r"NameError: name 'VOTS' is not defined \(.*grade.py, line 2: VOTES = VOTS\)"),
        ("def grade(:\n", r"SyntaxError: .* \(.*grade.py, line 1: def grade\(:\)"),
        ("from .labels import X", r"ImportError: cannot import name 'X' .*\(.*grade.py, line 1: from .labels import X"),
        ("import nonexistent", r"ModuleNotFoundError: No module named 'nonexistent' \(.*grade.py, line 1: import"),
    ],
)
def test_a_file_that_does_not_import_is_named_with_line_and_code(make: Make, grade: str, message: str) -> None:
    with pytest.raises(CompetitionError, match=f"grade.py cannot be imported: {message}"):
        make("mine", labels="", grade=grade).module("grade")


def test_an_error_in_an_imported_file_names_that_file(make: Make) -> None:
    with pytest.raises(CompetitionError, match=r"grade.py cannot be imported: .*labels.py, line 2: VOTES = 1 / 0\)"):
        make("mine", labels="\nVOTES = 1 / 0\n", grade=GRADE).module("grade")


def test_a_missing_file_is_named(make: Make) -> None:
    with pytest.raises(CompetitionError, match=r"mine/prepare.py is missing"):
        make("mine").module("prepare")


def test_a_package_removed_from_sys_modules_is_imported_again(tmp_path: Path) -> None:
    """pytester restores ``sys.modules``, which removes competitions imported in between."""
    (tmp_path / "grade.py").write_text("VALUE = 1\n")
    before = dict(sys.modules)
    assert import_file(tmp_path, tmp_path / "grade.py").VALUE == 1
    for name in sys.modules.keys() - before.keys():
        del sys.modules[name]
    assert import_file(tmp_path, tmp_path / "grade.py").VALUE == 1
