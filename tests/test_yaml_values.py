"""YAML files of users are read or rejected with a one-line error, whatever tags and values they contain."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_mlebench.agents.registry import read_config
from pytest_mlebench.catalog import Competition
from pytest_mlebench.errors import MLEBenchError, UsageError
from pytest_mlebench.io.files import secret_lines
from pytest_mlebench.llm.prices import Prices
from pytest_mlebench.llm.providers import load_providers

READERS: dict[str, Callable[[Path], object]] = {
    "config.yaml": read_config,
    "competition.yaml": Competition.load,
    "providers.yaml": load_providers,
    "prices.yaml": Prices.load,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "value",
    ["!!timestamp ''", "!!int x", "!!int ''", "!!float ''", "!!bool x", "2020-13-45", "!!omap x", "!!set [1]",
     "!!python/object:os.system x", "!!merge x", "!!str [1]", "[" * 5000],
)  # fmt: skip
def test_a_value_that_does_not_fit_its_tag_is_rejected(name: str, value: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(f"a: {value}\n")
    with pytest.raises(MLEBenchError, match=name) as caught:
        READERS[name](tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["a pipe", "an endless file", "a large file"])
def test_only_regular_files_of_a_bounded_size_are_read(name: str, kind: str, tmp_path: Path) -> None:
    file = tmp_path / "folder" / name
    file.parent.mkdir()
    message = "not a regular file"
    if kind == "a pipe":
        os.mkfifo(file)
    elif kind == "an endless file":
        file.symlink_to("/dev/zero")
    else:
        file.write_text("#" * (1 << 20) + "\n")
        message = "it has more than 1,048,576 bytes"
    with pytest.raises(MLEBenchError, match=message):
        READERS[name](file)


def test_a_pipe_is_no_file_with_secrets(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "keys", 0o600)
    with pytest.raises(UsageError, match="must be a file that you own"):
        secret_lines(tmp_path / "keys")
