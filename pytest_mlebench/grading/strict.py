"""Deprecated, and gone with version 0.3: import from ``pytest_mlebench.authoring.checks``."""

import sys
import warnings

from pytest_mlebench.authoring import checks

warnings.warn(
    "pytest_mlebench.grading.strict is now pytest_mlebench.authoring.checks", DeprecationWarning, stacklevel=2
)
sys.modules[__name__] = checks
