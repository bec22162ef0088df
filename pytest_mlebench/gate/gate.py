"""The checks of competitions, in one class. Its imports are slow, so callers import it only to run the checks."""

from __future__ import annotations

from pytest_mlebench.data.dataset import checksum_errors
from pytest_mlebench.data.tables import changed_cells
from pytest_mlebench.gate import golden
from pytest_mlebench.gate.groups import grader_problems
from pytest_mlebench.gate.leaks import exposed
from pytest_mlebench.grading.grader import Grader


class Gate:
    """The checks of a competition, and what they need. Each check returns a string or value for each problem."""

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
