"""Finding the user's credentials for Kaggle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kagglesdk import KaggleCredentials, get_access_token_from_env

from pytest_mlebench.data.download.kaggle_client import Credentials, RefusedError, connected
from pytest_mlebench.data.download.retry import RetryPolicy
from pytest_mlebench.errors import DataError

SETTINGS = "https://www.kaggle.com/settings/api"


def find_credentials(policy: RetryPolicy) -> Credentials:
    """The user's credentials, looked for where, and in the order that, Kaggle's client does; not yet tried.

    An access token (``KAGGLE_API_TOKEN``, ``~/.kaggle/access_token``), an API key (``KAGGLE_USERNAME`` and
    ``KAGGLE_KEY``, ``kaggle.json``), a login (``kaggle auth login``). Raises DataError that says how to get some.
    """
    try:
        token, source = get_access_token_from_env()
    except (OSError, UnicodeDecodeError) as error:  # whose texts may hold the token
        raise DataError(f"Kaggle's access token cannot be read; get a new one at {SETTINGS}") from error
    if token:
        source = "~/.kaggle/access_token" if source == "access_token" else f"${source}"
        return Credentials(source=f"the access token in {source}", token=token)
    found = _api_key() or _login(policy)
    if found is None:
        raise DataError(
            f"no Kaggle credentials: get a token at {SETTINGS} and put it into ~/.kaggle/access_token "
            f"or $KAGGLE_API_TOKEN (or put a kaggle.json into {_config_folder()}, or run `kaggle auth login`)"
        )
    return found


def _api_key() -> Credentials | None:
    path = Path("kaggle.json")
    try:
        path = _config_folder() / path
        values: Mapping[str, Any] = dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        values = {}
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"Kaggle credentials {path} cannot be read: {error}; get new ones at {SETTINGS}") from error
    username = os.environ.get("KAGGLE_USERNAME") or values.get("username")
    key = os.environ.get("KAGGLE_KEY") or values.get("key")
    if not username or not key:
        return None
    source = "$KAGGLE_KEY" if os.environ.get("KAGGLE_KEY") else str(path)
    return Credentials(source=f"the API key in {source}, user {username}", username=str(username), key=str(key))


def _config_folder() -> Path:
    if configured := os.environ.get("KAGGLE_CONFIG_DIR"):
        return Path(configured)
    usual = Path.home() / ".kaggle"
    return usual if usual.is_dir() else Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "kaggle"


def _login(policy: RetryPolicy) -> Credentials | None:
    path = KaggleCredentials.DEFAULT_CREDENTIALS_FILE
    try:
        with connected(None, policy) as client:
            login = KaggleCredentials.load(client)
            token = login and login.get_access_token()  # requests a new one when the last has expired
    except RefusedError as error:
        raise DataError(f"Kaggle refuses the login in {path}; run `kaggle auth login` again") from error
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DataError(f"the login in {path} cannot be used: {error}; run `kaggle auth login` again") from error
    return Credentials(source=f"the login in {path}", token=token) if token else None
