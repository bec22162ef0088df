import pandas as pd
from sklearn.metrics import root_mean_squared_log_error

from pytest_mlebench.grading import numeric, require_above, require_columns, require_finite, require_row_count

TARGETS = ["formation_energy_ev_natom", "bandgap_energy_ev"]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, TARGETS)
    require_row_count(submission, answers)
    energies = numeric(submission, TARGETS)
    require_finite(energies, TARGETS)
    require_above(energies, TARGETS, -1)
    return root_mean_squared_log_error(answers[TARGETS], energies)  # by position: ids are not compared
