import pandas as pd

from pytest_mlebench.grading import InvalidSubmission, align, require_columns, texts
from pytest_mlebench.grading.metrics.correlation import kendall_tau


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["id", "cell_order"])
    true = [cells.split() for cells in texts(answers, "cell_order")]
    predicted = [cells.split() for cells in texts(align(submission, answers, on="id"), "cell_order")]
    for id, cells, given in zip(answers["id"], true, predicted, strict=True):
        _require_same_cells(id, cells, given)
    return kendall_tau(true, predicted)


def _require_same_cells(id: str, cells: list[str], given: list[str]) -> None:
    if len(given) != len(cells):
        raise InvalidSubmission(
            f"column 'cell_order', id {id!r}: {len(given)} cells, parted by blanks; it has {len(cells)}"
        )
    if missing := sorted(set(cells) - set(given)):
        raise InvalidSubmission(f"column 'cell_order', id {id!r}: cell {missing[0]!r} of the notebook is missing")
