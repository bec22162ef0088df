"""Deprecated, and gone with version 0.3: import from ``pytest_mlebench.authoring.metrics``."""

import sys
import warnings
from importlib import import_module

from pytest_mlebench.authoring import metrics

_MERGED = {
    **dict.fromkeys(("divergence", "likelihood", "probabilistic", "roc"), "classification"),
    **dict.fromkeys(("audio", "correlation"), "ranking"),
    "geometry": "detection",
}
warnings.warn(
    "pytest_mlebench.grading.metrics is now pytest_mlebench.authoring.metrics", DeprecationWarning, stacklevel=2
)
__path__ = metrics.__path__  # its modules are found under the old names as well
for _old, _new in _MERGED.items():
    sys.modules[f"{__name__}.{_old}"] = import_module(f"{metrics.__name__}.{_new}")
