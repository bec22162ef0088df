"""Deprecated, and gone with version 0.3: import from ``pytest_mlebench.authoring``."""

import warnings

from pytest_mlebench import authoring

MESSAGE = "pytest_mlebench.data.authoring is now pytest_mlebench.authoring"
warnings.warn(MESSAGE, DeprecationWarning, stacklevel=2)
__path__ = authoring.__path__  # its modules are found under the old names as well
