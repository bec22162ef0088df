"""Options, commands, ini keys, environment variables and fixtures in pages exist, and existing ones are documented."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest

from pytest_mlebench import options as settings
from pytest_mlebench.cli import main
from tests.docs.pages import pages
from tools.docs.inline import inlined
from tools.docs.reference import PAGES
from tools.docs.variables import VARIABLES

PAGES_BY_HAND = {name: text for name, text in pages().items() if name.startswith("docs/")}
GUIDES = "\n".join(PAGES_BY_HAND.values())
OF_OTHERS = {
    "--account": "sbatch",
    "--all": "docker image prune",
    "--collect-only": "pytest",
    "--baseline": "tools.twins",
    "--image": "tools.attack_metadata",
    "--spoil": "tools.attack_metadata",
    "--fail": "curl",
    "--filter": "docker image prune",
    "--fixtures": "pytest",
    "--fsgofer-host-uds": "runsc",
    "--from": "COPY of a Dockerfile",
    "--full": "this project's own tests",
    "--header": "curl",
    "--host-uds": "runsc",
    "--html": "pytest-html",
    "--ignore-cgroups": "runsc",
    "--jsonl": "tools.twins",
    "--junitxml": "pytest",
    "--lf": "pytest",
    "--markdown": "tools.twins",
    "--mount": "RUN of a Dockerfile",
    "--number": "tools.mutate",
    "--option": "any option, in a sentence about all of them",
    "--output": "curl, nvidia-ctk",
    "--overwrite-checksums": "MLE-bench, refused here",
    "--partition": "sbatch",
    "--seed": "tools.mutate",
    "--served-model-name": "vllm serve",
    "--shortcuts": "tools.twins",
    "--solvers": "tools.twins",
    "--strict": "mkdocs build",
    "--versions": "tools.twins",
    **dict.fromkeys(
        "--fork --kill-after --kill-child --map-user --mount-proc --pid --user".split(), "unshare, timeout"
    ),
    # MLE-bench's own
    "--agent-id": "MLE-bench's run_agent.py",
    "--competition-set": "MLE-bench's run_agent.py",
    "--n-seeds": "MLE-bench's run_agent.py",
    "--n-workers": "MLE-bench's run_agent.py",
    "--retain": "MLE-bench's run_agent.py",
    "--steps": "an argument of an agent in an example",
}
"""Options of other programs."""


def parsers() -> dict[str, argparse.ArgumentParser]:
    return dict(main.parser_and_commands()[1])


def known_options() -> set[str]:
    own = {name for option in settings.OPTIONS.values() for name in (option.name, option.long_name)}
    return own | {name for parser in parsers().values() for name in parser._option_string_actions}


def mentioned(pattern: str) -> Iterator[tuple[str, str]]:
    for page, text in pages().items():
        yield from ((page, found) for found in re.findall(pattern, text))


def test_options_that_pages_mention_exist() -> None:
    known = known_options() | OF_OTHERS.keys() | {"--help", "--version"}
    found = {own for own in mentioned(r"(?<![\w-])(--[a-z][a-z0-9-]*)") if own[1] not in known}
    assert {own for own in found if own[1] != "--mlebench-"} == set()


@pytest.mark.parametrize("option", settings.OPTIONS)
def test_each_option_of_pytest_is_explained_on_a_handwritten_page(option: str) -> None:
    assert re.search(rf"{option}(?![\w-])", GUIDES)


def test_commands_that_pages_mention_exist() -> None:
    names = {*parsers(), "dev"}  # MLE-bench's name for `leaderboard`
    found = {own for own in mentioned(r"(?:`|^|&& )mlebench ([a-z][a-z-]*)") if own[1] not in names}
    assert found == set()


def test_each_command_is_explained_on_a_handwritten_page() -> None:
    assert [name for name in parsers() if f"mlebench {name}" not in GUIDES] == []


def test_ini_keys_and_variables_that_pages_mention_exist() -> None:
    keys = {option.ini_key for option in settings.OPTIONS.values() if option.traits & settings.INI}
    assert {own for own in mentioned(r"\b(mlebench_[a-z_]+)\b(?!\.)") if own[1] not in keys} == set()
    of_tests = {"MLEBENCH_FUZZ_EXAMPLES", *(f"MLEBENCH_TEST_{name}" for name in ("ENGINE", "RUNTIME", "SANDBOX"))}
    found = {own for own in mentioned(r"\b(MLEBENCH_[A-Z_]+)\b") if own[1] not in VARIABLES.keys() | of_tests}
    assert found == set()


def test_the_reference_has_every_option_key_variable_and_command() -> None:
    text = {name: made() for name, made in PAGES.items()}
    for option in settings.OPTIONS.values():
        assert f"data-toc-label='{option.name}'" in text["reference/options.md"]
        assert (f"`{option.ini_key}`" in text["reference/ini.md"]) == bool(option.traits & settings.INI)
    for name in VARIABLES:
        assert f"`{name}`" in text["reference/environment.md"]
    for name, parser in parsers().items():
        section = text["reference/commands.md"].partition(f"{{#{name}}}")[2].partition("\n## ")[0]
        for action in parser._actions:
            if action.help != argparse.SUPPRESS and action.dest != "help":
                assert all(f"`{option}" in section for option in action.option_strings), (name, action.option_strings)


def test_the_reference_has_no_values_of_the_machine_that_built_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    text = "\n".join(made() for made in PAGES.values())
    values = {value for value in os.environ.values() if len(value) > 12}
    assert [value for value in values if value in text] == []


def test_code_in_pages_matches_the_files_they_name() -> None:
    shown = 0
    for page, text in pages().items():
        assert inlined(text) == text, f"{page} is out of date: python -m tools.docs.inline"
        assert "--8<--" not in text and "\n??? " not in text and "\n!!! " not in text, f"{page} is also read on GitHub"
        shown += text.count("<!-- file: ")
    assert shown >= 15
