from pytest_mlebench.grading.strict import AS_TEXT

from .v1.grade import check as check
from .v1.grade import grade as grade

READ_OPTIONS = AS_TEXT
