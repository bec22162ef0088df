"""Custom tests whose marks name no competition, or not by its id."""

from __future__ import annotations

import pytest


def test_a_mark_with_a_number_fails_only_its_own_test(pytester: pytest.Pytester) -> None:
    """Such a mark once ended the whole session with an internal error before any test."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.competition(5)
        def test_a_number(dataset): pass

        @pytest.mark.parametrize("competition", ["smoke-digits"])
        def test_a_text_in_place_of_the_fixture(dataset): pass

        def test_another(): pass
        """
    )
    done = pytester.runpytest()
    done.assert_outcomes(errors=2, passed=1)
    done.stdout.fnmatch_lines(
        ["*unknown competition '5'*", "*the competition must be of type Competition, not str (default_catalogue()*"]
    )
    done.stdout.no_fnmatch_line("*INTERNALERROR*")
