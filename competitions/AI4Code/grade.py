import pandas as pd

from pytest_mlebench.authoring import InvalidSubmission, align, require_columns, texts
from pytest_mlebench.authoring.metrics.ranking import inversions, kendall_tau
from pytest_mlebench.authoring.resampling import RowScores, ratio


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[list[str]]:
    require_columns(submission, ["id", "cell_order"])
    orders = _orders(align(submission, template, on="id"))
    for id, cells, given in zip(template["id"], _orders(template), orders, strict=True):
        _require_same_cells(id, cells, given)
    return orders


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return kendall_tau(_orders(answers), check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    orders = zip(_orders(answers), check(submission, answers), strict=True)
    swaps = [inversions(map(true.index, given)) for true, given in orders]
    pairs = [len(cells) * (len(cells) - 1) for cells in _orders(answers)]
    return ratio(swaps, pairs, then=lambda share: 1 - 4 * share)


def _orders(table: pd.DataFrame) -> list[list[str]]:
    return [cells.split() for cells in texts(table, "cell_order")]


def _require_same_cells(id: str, cells: list[str], given: list[str]) -> None:
    if len(given) != len(cells):
        raise InvalidSubmission(
            f"column 'cell_order', id {id!r}: {len(given)} cells separated by spaces; {len(cells)} were expected"
        )
    if missing := sorted(set(cells) - set(given)):
        raise InvalidSubmission(f"column 'cell_order', id {id!r}: cell {missing[0]!r} of the notebook is missing")
