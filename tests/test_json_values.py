"""The nesting limit for untrusted JSON does not depend on the Python version."""

from __future__ import annotations

import pytest

from pytest_mlebench.io.values import MAX_DEPTH, loads


@pytest.mark.parametrize(("before", "after"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")], ids=["[", "{", "[{"])
def test_depth_is_limited(before: str, after: str) -> None:
    levels = MAX_DEPTH // (2 if before.startswith("[{") else 1)
    loads(before * levels + "1" + after * levels)
    for more in (1, 1_000, 100_000):
        with pytest.raises(ValueError, match="it is nested deeper than 100 levels"):
            loads(before * (levels + more) + "1" + after * (levels + more))


def test_text_that_only_looks_nested_is_accepted() -> None:
    assert loads('["' + "[" * 1000 + '"]') == ["[" * 1000]
    assert loads("[" + "[]," * 1000 + "[]]") == [[]] * 1001
