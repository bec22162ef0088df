import numpy as np
import pandas as pd
from sklearn.metrics import root_mean_squared_error

from pytest_mlebench.authoring import alignment, numeric, predictions, require_columns, require_finite
from pytest_mlebench.authoring.resampling import RowScores, root_mean

SCORED = ["reactivity", "deg_Mg_pH10", "deg_Mg_50C"]
UNSCORED = ["deg_pH10", "deg_50C"]


def check(submission: pd.DataFrame, template: pd.DataFrame) -> None:
    """Check all bases, because which ones are scored is part of the answers."""
    require_columns(submission, UNSCORED)
    predictions(submission, template, SCORED, on="id_seqpos")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(root_mean_squared_error(*_true_and_predicted(submission, answers)))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    true, predicted = _true_and_predicted(submission, answers)
    molecules = true.index.str.rpartition("_").get_level_values(0)
    return root_mean((true.to_numpy() - predicted.to_numpy()) ** 2, units=molecules)


def _true_and_predicted(submission: pd.DataFrame, answers: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    require_columns(submission, ["id_seqpos", *SCORED, *UNSCORED])
    alignment(submission, answers, on="id_seqpos")
    # The mask selects positions: if the order differs from that of the answers, the wrong bases are compared.
    keep = answers["keep"].to_numpy()
    fields = np.where(keep[:, None], submission[SCORED].to_numpy(dtype=object), 0)
    values = numeric(pd.DataFrame(fields, columns=SCORED), SCORED)
    require_finite(values, SCORED)
    predicted = pd.DataFrame(values, index=submission["id_seqpos"])[keep].sort_index()
    true = answers.set_index("id_seqpos")[SCORED][keep].sort_index()
    return true, predicted
