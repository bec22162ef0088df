from pathlib import Path

from pytest_mlebench.authoring.corrections import without_fields

from .. import prepare as first

GIVEN_AWAY = "giver_username_if_known"


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test, fields = first.choose(raw)
    fields.remove(GIVEN_AWAY)
    first.write_sides(without_fields(train, [GIVEN_AWAY]), test, fields, public, private)
