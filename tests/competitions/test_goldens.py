"""Properties of all bundled competitions' goldens."""

from __future__ import annotations

import pytest

from pytest_mlebench import default_catalogue


@pytest.mark.parametrize("id", default_catalogue().ids)
def test_a_golden_contains_the_lines_of_its_texts(id: str) -> None:
    """A failing gate shows the first line that differs."""
    golden = default_catalogue()[id].golden
    for side in ("public", "private"):
        lines = golden["lines"][side]
        assert lines.keys() <= golden[side].keys()
        assert all(marks and len(marks) % 4 == 0 and set(marks) <= set("0123456789abcdef") for marks in lines.values())
    assert golden["lines"]["public"] or golden["lines"]["private"]
