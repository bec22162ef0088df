from pytest_mlebench.authoring.checks import AS_TEXT

from ..grade import check as check
from ..grade import grade as grade
from ..grade import row_scores as row_scores

READ_OPTIONS = AS_TEXT
