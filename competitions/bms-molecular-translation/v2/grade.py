from pytest_mlebench.grading.strict import AS_TEXT

from .v1.grade import check as check
from .v1.grade import grade as grade
from .v1.grade import row_scores as row_scores

READ_OPTIONS = AS_TEXT
