"""Checks that prove a competition. They take long to import, so those who run them import all of them as ``Gate``."""

from __future__ import annotations

from pytest_mlebench.data.dataset import checksum_errors
from pytest_mlebench.data.tables import changed_cells
from pytest_mlebench.gate import golden
from pytest_mlebench.gate.groups import grader_problems
from pytest_mlebench.gate.leaks import exposed
from pytest_mlebench.grading.grader import Grader


class Gate:
    """Each finds problems, a text or a value for each, where a competition is not as it must be."""

    ANSWERS = golden.ANSWERS
    Grader = Grader
    advice = staticmethod(golden.advice)
    cell_differences = staticmethod(golden.cell_differences)
    changed_cells = staticmethod(changed_cells)
    checksum_errors = staticmethod(checksum_errors)
    exposed = staticmethod(exposed)
    grader_problems = staticmethod(grader_problems)
    prepared_differences = staticmethod(golden.prepared_differences)
    rejection_differences = staticmethod(golden.rejection_differences)
    score_differences = staticmethod(golden.score_differences)
