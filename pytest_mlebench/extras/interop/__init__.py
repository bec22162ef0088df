"""Other systems: exports of run groups and competitions, and live traces of runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_mlebench.extras.interop.otlp_live import LiveTraces
    from pytest_mlebench.options import Settings


def live_traces(settings: Settings, group: Path) -> LiveTraces | None:
    """Return the sender of a session's runs; without ``--otlp``, return None and import nothing."""
    if settings.otlp is None:
        return None
    from pytest_mlebench.extras.interop.otlp_live import create

    return create(settings, settings.otlp, group)
