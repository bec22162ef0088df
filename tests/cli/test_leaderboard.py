"""``mlebench leaderboard`` with a local server that implements Kaggle's API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.catalog.schema import medal_ranks
from pytest_mlebench.data.download.kaggle import read_scores
from pytest_mlebench.errors import DataError
from tests.cli.test_cli import mlebench
from tests.kaggle_server import KaggleServer, leaderboard_zip, zip_bytes

SAME, OTHER, ABSENT = "spaceship-titanic", "aerial-cactus-identification", "leaf-classification"


def scores_of(id: str) -> list[float]:
    """A leaderboard with the bundled thresholds."""
    leaderboard = default_catalogue()[id].leaderboard
    scores: list[float] = []
    for medal, rank in medal_ranks(leaderboard.teams).items():
        scores += [leaderboard.threshold(medal)] * (rank - len(scores))
    return scores + [leaderboard.median] * (leaderboard.teams - len(scores))


@pytest.fixture
def kaggle(kaggle_server: KaggleServer) -> KaggleServer:
    kaggle_server.add(SAME, {}).scores = scores_of(SAME)
    # one additional team, and one without a score
    kaggle_server.add(OTHER, {}).scores = [*scores_of(OTHER), 0.0, ""]
    return kaggle_server


def test_a_table_shows_differences(kaggle: KaggleServer) -> None:
    done = mlebench("leaderboard", "-c", SAME, "-c", OTHER)
    assert done.returncode == 0, done.stderr
    teams = default_catalogue()[OTHER].leaderboard.teams
    assert done.stderr.splitlines() == [f"{SAME}: 2288 teams", f"{OTHER}: {teams + 1} teams"]
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[:3] == [
        "competition leaderboard teams gold silver bronze median differs",
        "spaceship-titanic bundled 2288 0.82066 0.81388 0.80967 0.79565",
        "kaggle 2288 0.82066 0.81388 0.80967 0.79565 nothing",
    ]
    assert lines[3].startswith(f"{OTHER} bundled {teams} ")
    assert lines[4].startswith(f"kaggle {teams + 1} ") and lines[4].endswith(" teams")


def test_failures_are_reported_and_the_others_are_compared(kaggle: KaggleServer, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text(f"{ABSENT}\n{SAME}\n")
    done = mlebench("leaderboard", "-l", tmp_path / "ids.txt", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found[SAME]["differs"] == [] and found[SAME]["bundled"] == found[SAME]["kaggle"]
    assert "Kaggle answered 404" in found[ABSENT]["error"] and found[ABSENT]["error"] in done.stderr


CSV = "TeamId,Score\n1,0.5\n2,\n3,0.25\n"


@pytest.mark.parametrize(
    "content",
    [
        CSV.encode(),
        ("\ufeff" + CSV.replace("Score", " score")).encode(),
        zip_bytes({"board.csv": CSV.encode()}),
        zip_bytes({"x-publicleaderboard.csv": b"Score\n1\n", "x-privateleaderboard.csv": CSV.encode()}),
    ],
)
def test_scores_are_read_from_tables_and_archives(content: bytes) -> None:
    scores, file = read_scores(content)
    assert scores == [0.5, 0.25] and "public" not in file


@pytest.mark.parametrize("kind", ["private", "public"])
def test_a_leaderboard_that_is_not_public_is_downloaded(kind: str, kaggle: KaggleServer) -> None:
    served = kaggle.competitions[SAME]
    served.scores, served.leaderboard = None, leaderboard_zip(f"{SAME}-{kind}leaderboard.csv", scores_of(SAME))
    done = mlebench("leaderboard", "-c", SAME, "--json")
    assert json.loads(done.stdout)[SAME]["differs"] == []
    assert ("looks like the public leaderboard" in done.stderr) == (kind == "public")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no column Score among no columns"),
        (b"TeamId,Points\n1,2\n", "no column Score among TeamId, Points"),
        (b"TeamId,Score\n1,many\n", "team 1: 'many' is not a score"),
        (b"TeamId,Score\n1,\n", "no scores"),
        (b'TeamId,Score\n"' + b"1" * 140_000 + b'",1\n', "not a table: field larger than field limit"),
        (zip_bytes({"board.csv": CSV.encode()})[:-10], "damaged"),
        (zip_bytes({"board.csv": CSV.encode()}).replace(b"PK\1\2\x14\3\x14\0\0", b"PK\1\2\x14\3\x14\0\1"), "encrypted"),
        (zip_bytes({"a.csv": b"Score\n1\n", "b.csv": b"Score\n1\n"}), "2 tables, not one"),
    ],
)
def test_an_invalid_leaderboard_is_an_error(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_scores(content)
