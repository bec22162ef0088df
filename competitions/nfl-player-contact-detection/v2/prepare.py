from pathlib import Path

from pytest_mlebench.authoring.corrections import hold_out_groups

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = hold_out_groups(games)(first.labelled_plays(raw), test_size=0.1)
    first.write_sides(train, test, raw, public, private)


def games(plays: list[str]) -> list[str]:
    """Return the game of each play: the part of its name before the play number."""
    return [play.split("_")[0] for play in plays]
