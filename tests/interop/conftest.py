from __future__ import annotations

from tests.reports.conftest import browser, open_tab

__all__ = ["browser", "open_tab"]
