"""All sources of credentials of Kaggle's client, and errors for missing and invalid ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.download.kaggle import KaggleDownloads
from pytest_mlebench.data.download.transfers import RetryPolicy
from pytest_mlebench.errors import DataError
from tests.kaggle_server import KEY, TOKEN, USERNAME, KaggleServer, Status

ID = "spaceship-titanic"
QUICK = RetryPolicy(attempts=4, delay=0.01, stall=0.5)
JSON_KEY = json.dumps({"username": USERNAME, "key": KEY})


def login(token: str = TOKEN, expiration: str = "2999-01-01T00:00:00+00:00") -> str:
    """Content of the file that ``kaggle auth login`` writes."""
    return json.dumps({"refresh_token": "refresh", "access_token": token, "access_token_expiration": expiration})


@pytest.fixture
def home(kaggle_server: KaggleServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of a user without credentials."""
    for name in ("KAGGLE_USERNAME", "KAGGLE_KEY", "KAGGLE_CONFIG_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    kaggle_server.add(ID, {}).scores = [0.9, 0.8]
    return Path.home()


def write(home: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, errors="surrogateescape")


def ask() -> list[float]:
    return KaggleDownloads(QUICK).leaderboard(default_catalogue()[ID])


@pytest.mark.parametrize(
    ("files", "environment", "scheme"),
    [
        ({".kaggle/kaggle.json": JSON_KEY}, {}, "Basic"),
        ({".config/kaggle/kaggle.json": JSON_KEY}, {}, "Basic"),
        ({"xdg/kaggle/kaggle.json": JSON_KEY}, {"XDG_CONFIG_HOME": "{home}/xdg"}, "Basic"),
        ({"elsewhere/kaggle.json": JSON_KEY}, {"KAGGLE_CONFIG_DIR": "{home}/elsewhere"}, "Basic"),
        ({}, {"KAGGLE_USERNAME": USERNAME, "KAGGLE_KEY": KEY}, "Basic"),
        ({".kaggle/kaggle.json": json.dumps({"username": USERNAME})}, {"KAGGLE_KEY": KEY}, "Basic"),
        ({}, {"KAGGLE_API_TOKEN": TOKEN}, "Bearer"),
        ({"token.txt": TOKEN + "\n"}, {"KAGGLE_API_TOKEN": "{home}/token.txt"}, "Bearer"),
        ({".kaggle/access_token": TOKEN + "\n"}, {}, "Bearer"),
        ({".kaggle/access_token": TOKEN, ".kaggle/kaggle.json": JSON_KEY}, {}, "Bearer"),
        ({".kaggle/credentials.json": login()}, {}, "Bearer"),
        ({".kaggle/credentials.json": login("old", "2020-01-01T00:00:00+00:00")}, {}, "Bearer"),
    ],
)
def test_credentials_are_found_in_all_sources_of_the_client(
    files: dict[str, str],
    environment: dict[str, str],
    scheme: str,
    home: Path,
    kaggle_server: KaggleServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(home, files)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(home=home))
    assert ask() == [0.9, 0.8]
    assert kaggle_server.requests[-1].headers["Authorization"].startswith(scheme)


@pytest.mark.parametrize(
    ("files", "environment", "source"),
    [
        ({".kaggle/kaggle.json": JSON_KEY}, {}, "the API key in {home}/.kaggle/kaggle.json, user ada"),
        ({}, {"KAGGLE_USERNAME": "ada", "KAGGLE_KEY": KEY}, "the API key in $KAGGLE_KEY, user ada"),
        ({}, {"KAGGLE_API_TOKEN": TOKEN}, "the access token in $KAGGLE_API_TOKEN"),
        ({".kaggle/access_token": TOKEN}, {}, "the access token in ~/.kaggle/access_token"),
    ],
)
def test_invalid_credentials_are_named_but_not_shown(
    files: dict[str, str],
    environment: dict[str, str],
    source: str,
    home: Path,
    kaggle_server: KaggleServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kaggle_server.keys.clear()
    kaggle_server.tokens.clear()
    write(home, files)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(DataError) as error:
        ask()
    text = str(error.value)
    assert "401" in text and source.format(home=home) in text and "https://www.kaggle.com/settings/api" in text
    assert KEY not in text and TOKEN not in text
    with pytest.raises(DataError) as error:
        KaggleDownloads(QUICK).check([default_catalogue()[ID]] * 3)
    assert str(error.value).count("is not accepted") == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("kaggle.json", "{", r"Kaggle credentials .*kaggle.json cannot be read: .*get new ones at https"),
        ("access_token", "\udcff", "Kaggle's access token cannot be read"),
        ("kaggle.json", "5", r"Kaggle credentials .*kaggle.json cannot be read"),
        ("credentials.json", "[]", r"the login in ~/.kaggle/credentials.json cannot be used"),
        ("credentials.json", login(expiration="soon"), "cannot be used"),
    ],
)
def test_damaged_credentials_are_a_readable_error(name: str, content: str, message: str, home: Path) -> None:
    write(home, {f".kaggle/{name}": content})
    with pytest.raises(DataError, match=message):
        ask()


def test_an_expired_login_is_reported(home: Path, kaggle_server: KaggleServer) -> None:
    kaggle_server.script("GenerateAccessToken", Status(401))
    write(home, {".kaggle/credentials.json": login("")})
    with pytest.raises(DataError, match=r"refuses the login in .*credentials.json; run `kaggle auth login` again"):
        ask()


def test_without_credentials_the_command_explains_how_to_get_them(home: Path, kaggle_server: KaggleServer) -> None:
    command = [sys.executable, "-m", "pytest_mlebench.cli", "leaderboard", "-c", ID]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, timeout=60)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("mlebench: no Kaggle credentials: get a token at https://www.kaggle.com/settings/api")
    assert len(done.stderr.splitlines()) == 1
    assert kaggle_server.requests == [] and list(home.iterdir()) == []  # Kaggle's client did not create a folder


def test_without_a_home_folder_credentials_come_from_the_environment(
    home: Path, kaggle_server: KaggleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # the user has no entry, as in many containers
    with pytest.raises(DataError, match="no Kaggle credentials: get a token"):
        ask()
    monkeypatch.setenv("KAGGLE_USERNAME", USERNAME)
    monkeypatch.setenv("KAGGLE_KEY", KEY)
    assert ask() == [0.9, 0.8]


def test_the_client_is_not_imported_before_it_is_needed() -> None:
    program = (
        "import sys, pytest_mlebench.plugin.hooks, pytest_mlebench.cli.main\n"
        "from pytest_mlebench.data.download.kaggle import KaggleDownloads\n"
        "KaggleDownloads()\n"
        "print([name for name in ('kaggle', 'kagglesdk', 'requests', 'pandas', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout == "[]\n"
