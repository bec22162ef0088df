"""Deprecated, and gone with version 0.3: import from ``pytest_mlebench.authoring.metrics``."""

import warnings

from pytest_mlebench.authoring import metrics

warnings.warn(
    "pytest_mlebench.grading.metrics is now pytest_mlebench.authoring.metrics", DeprecationWarning, stacklevel=2
)
__path__ = metrics.__path__  # its modules are found under the old names as well
