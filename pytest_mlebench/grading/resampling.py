"""Deprecated, and gone with version 0.3: import from ``pytest_mlebench.authoring.resampling``."""

import sys
import warnings

from pytest_mlebench.authoring import resampling

warnings.warn(
    "pytest_mlebench.grading.resampling is now pytest_mlebench.authoring.resampling", DeprecationWarning, stacklevel=2
)
sys.modules[__name__] = resampling
