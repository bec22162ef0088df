"""The sources of a value (options, ini keys, environment, resumed groups) and the errors for invalid ones."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench import Bench
from pytest_mlebench import options as settings
from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.extensions import extensions
from pytest_mlebench.options import OPTIONS, Settings
from pytest_mlebench.records.manifest import Manifest, PlannedRun
from pytest_mlebench.sandbox.docker.client import ContainerOptions

SANDBOXES = ("auto", "docker", "podman", "local", *sorted(extensions("mlebench.sandboxes")))
WRONG = [
    ("--cpus", "abc", "'abc' is not a positive number"),
    ("--cpus", "-2", "'-2' is not a positive number"),
    ("--cpus", "nan", "'nan' is not a positive number"),
    ("--cpus", "inf", "'inf' is not a positive number"),
    ("--gpus", "-1", "'-1' is not a whole number of at least 0"),
    (
        "--gpus",
        "0.5",
        "'0.5' is not a whole number: runs that share a GPU also share its memory and time. "
        "Split it into MIG instances (`nvidia-smi mig`), which count as GPUs here",
    ),
    ("--seeds", "0", "'0' is not a whole number of at least 1"),
    ("--seeds", "²", "'²' is not a whole number of at least 1"),
    ("--seeds", "9" * 150, f"'{'9' * 99}… is too large"),
    ("--llm-retries", "9" * 150, f"'{'9' * 99}… is too large"),
    ("--gpus", "9" * 150, f"'{'9' * 99}… is too large"),
    ("--max-calls", "0" * 150, f"'{'0' * 99}… is too large"),
    ("--gpu-ids", ", ,", "', ,' names nothing; write names with commas between them"),
    ("--network", "foo", "'foo' is not one of llm, none, full"),
    ("--build-network", "all", "'all' is not one of none, registries, full"),
    ("--sandbox", "vm", f"'vm' is not one of {', '.join(SANDBOXES)}"),
    ("--prepare", "maybe", "'maybe' is not one of auto, never"),
    ("--description", "mine", "'mine' is not one of bundled, kaggle, obfuscated"),
    ("--min-medal", "iron", "'iron' is not one of gold, silver, bronze, median"),
    ("--time-limit", "soon", "'soon' is not a duration; write for example 24h, 90m or 30s"),
    ("--grading-time", "-1", "'-1' is not a duration; write for example 24h, 90m or 30s"),
    *(
        ("--time-limit", text, f"'{text}' is not a duration; write for example 24h, 90m or 30s")
        for text in ("86 400", "1 000 000", "10 10m", "1h30", "1h 30m 5", "24 hm")
    ),
    *(
        ("--memory", text, f"'{text}' is not a size; write for example 16g or 512m")
        for text in ("5ib", "1bb", "5bib", "1 0g")
    ),
    ("--memory", "much", "'much' is not a size; write for example 16g or 512m"),
    ("--max-submission-size", "0", "'0' is not a size; write for example 16g or 512m"),
    ("--agents-dir", "nowhere", "{folder}/nowhere is not a folder"),
    ("--competitions-dir", "nowhere", "{folder}/nowhere is not a folder"),
    ("--data-dir", "a\0b", "the value contains a NUL character"),
    ("--data-dir", "~nobody-of-this-name/data", "there is no home folder ~nobody-of-this-name"),
]

NOT_RESTORED = ("--seeds", "--prepare", "--min-medal")
"""Options that a resumed group does not restore: its runs are fixed, and the others are set per session."""


def read(*sources: settings.OptionSource) -> Settings:
    return settings.read(sources, runs_dir=Path("/reports"))


def from_arguments(folder: Path, *arguments: str) -> settings.OptionSource:
    parser = argparse.ArgumentParser()
    for option in OPTIONS.values():
        parser.add_argument(option.name, **option.for_argparse)
    return settings.from_command_line(parser.parse_args(arguments), folder)


def from_words(folder: Path, words: str) -> settings.OptionSource:
    return from_arguments(folder, *words.split(" "))


def from_option(folder: Path, name: str, text: str) -> settings.OptionSource:
    return from_arguments(folder, f"{name}={text}")


def from_ini(folder: Path, name: str, text: str) -> settings.OptionSource:
    return settings.from_ini({OPTIONS[name].ini_key: text}, folder / "tox.ini", Path("/"))


def manifest(folder: Path, options: Mapping[str, Any]) -> settings.OptionSource:
    runs = (PlannedRun("dummy", "smoke-digits", 0), PlannedRun("baseline", "smoke-digits", 1))
    return settings.from_manifest(Manifest(options=options, runs=runs), folder / "manifest.json")


def from_group(folder: Path, name: str, text: str) -> settings.OptionSource:
    return manifest(folder, {name: text})


@pytest.mark.parametrize(
    ("source", "origin", "name", "text", "message"),
    [
        pytest.param(source, origin, name, text, message, id=f"{kind}-{name}-{text}")
        for kind, source, origin in [
            ("option", from_option, "{name}"),
            ("ini key", from_ini, "{key} in {folder}/tox.ini"),
            ("resumed group", from_group, "{name} in {folder}/manifest.json"),
        ]
        for name, text, message in WRONG
        if source is not from_group or name not in NOT_RESTORED
    ],
)
def test_an_invalid_value_gives_a_one_line_error_with_its_source(
    source: Callable[[Path, str, str], settings.OptionSource],
    origin: str,
    name: str,
    text: str,
    message: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError) as caught:
        read(source(tmp_path, name, text))
    expected = f"{origin}: {message}".format(name=name, key=OPTIONS[name].ini_key, folder=tmp_path)
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        *(("--time-limit", text, 5400.0) for text in ("5400", " 90M ", "1h30m", "1h 30m", "1.5 h", "30m1h", "5400.0")),
        *(("--memory", text, 3 << 29) for text in ("1.5g", "1.5 GiB", "1536 mb", str(3 << 29), f"{3 << 29} b")),
    ],
)
def test_durations_and_sizes_may_have_units_and_spaces(name: str, text: str, value: float, tmp_path: Path) -> None:
    option = OPTIONS[name]
    assert getattr(read(from_option(tmp_path, name, text)), option.name[2:].replace("-", "_")) == value


@pytest.mark.parametrize("value", [[], {}, True, ["a"], {"a": 1}, [[1]]])
def test_invalid_values_in_a_resumed_manifest_are_reported(value: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--network in .*/manifest\.json: .* is not"):
        read(manifest(tmp_path, {"--network": value}))


def test_a_list_of_outcomes_to_retry_is_not_empty(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^--retry-failed: ',' names nothing; write names with commas between them"):
        read(from_option(tmp_path, "--retry-failed", ","))


@pytest.mark.parametrize("name", ["seeds", "gpus", "max_cost", "memory", "time_limit", "network", "models"])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_of_thousands_of_digits_from_python_is_a_short_error(name: str, sign: int) -> None:
    if name == "models":
        assert Bench(models=[1]).settings.models == ("1",)
        return
    with pytest.raises(UsageError, match=rf"^{name}: '?a number of thousands of digits'? ") as caught:
        settings.from_python({name: sign * 10**5000})
    assert len(str(caught.value)) < 200


def test_a_flag_in_a_resumed_manifest_must_be_true_or_false(tmp_path: Path) -> None:
    assert read(manifest(tmp_path, {"--allow-unenforced-limits": True})).allow_unenforced_limits
    with pytest.raises(UsageError, match="'yes' is neither true nor false"):
        read(manifest(tmp_path, {"--allow-unenforced-limits": "yes"}))


def test_a_resumed_group_restores_only_these_two_permissions() -> None:
    """Options are restored by default; those that allow or trust something must opt out."""
    permissions = {name for name in OPTIONS if name.startswith(("--allow-", "--trust-"))}
    restored = {name for name in permissions if OPTIONS[name].traits & settings.RESTORED}
    assert restored == {"--allow-provider-tools", "--allow-unenforced-limits"}
    granted = {name for name in OPTIONS if OPTIONS[name].traits & settings.GRANTED}
    assert granted == {"--allow-secret", "--allow-host", "--trust-agent", "--allow-privileged"}


def test_a_resumed_group_grants_no_permissions(tmp_path: Path) -> None:
    granted = {"--allow-secret": ["A"], "--allow-host": ["a"], "--trust-agent": ["x"], "--allow-privileged": True}
    found = read(manifest(tmp_path, granted))
    assert (found.allow_secrets, found.allow_hosts, found.trust_agents, found.allow_privileged) == ((), (), (), False)
    job = read(settings.from_plan("x", granted, tmp_path / "plan.json"))
    assert (job.allow_secrets, job.allow_hosts, job.trust_agents, job.allow_privileged) == (
        ("A",),
        ("a",),
        ("x",),
        True,
    )


@pytest.mark.parametrize(
    "words", ["--trust-agent=toy/*", "--trust-agent=*", "--allow-secret=A-B", "--allow-host=ftp://a"]
)
def test_a_permission_names_one_thing(tmp_path: Path, words: str) -> None:
    with pytest.raises(UsageError, match=words.partition("=")[0]):
        read(from_words(tmp_path, words))


def test_heavy_may_have_a_value_and_earlier_groups_have_a_flag(tmp_path: Path) -> None:
    for words, expected in (("--heavy", "auto"), ("--heavy=cuda", "cuda"), ("--cpus=2", None)):
        assert read(from_words(tmp_path, words)).heavy == expected
    for recorded, expected in ((True, "auto"), (False, None), (None, None), ("cpu", "cpu")):
        assert read(manifest(tmp_path, {"--heavy": recorded})).heavy == expected
    with pytest.raises(UsageError, match=r"'aide' is not one of auto, cpu, cuda \(before another argument, write --he"):
        read(from_option(tmp_path, "--heavy", "aide"))


def test_heavy_uses_cuda_if_runs_get_gpus(tmp_path: Path) -> None:
    for words, expected in (
        ("--heavy", "cpu"),
        ("--heavy --gpus=1", "cuda"),
        ("--heavy=cpu --gpus=1", "cpu"),
        ("--gpus=1", None),
    ):
        chosen = read(from_words(tmp_path, words))
        assert Bench(settings=chosen).container_options["heavy"] == expected
        assert Bench(settings=chosen).comparable_settings["heavy"] == (expected or False)


def test_podman_builds_bundled_agents_with_a_network_by_default(tmp_path: Path) -> None:
    for words, network, bundled in (
        ("--sandbox=podman --network=none", "none", "full"),
        ("--sandbox=podman --network=none --build-network=none", "none", None),
        ("--sandbox=docker --network=none", "registries", None),
        ("--sandbox=podman", "full", None),
    ):
        made = ContainerOptions(**Bench(settings=read(from_words(tmp_path, words))).container_options)
        assert (made.build_network, made.bundled_build_network) == (network, bundled), words


def test_a_third_party_sandbox_builds_without_a_network_if_agents_have_none(tmp_path: Path) -> None:
    added = replace(read(from_words(tmp_path, "--network=none")), sandbox="added")
    assert Bench(settings=added).container_options["build_network"] == "none"


def test_the_environment_is_checked_and_named_in_errors(tmp_path: Path) -> None:
    assert read(settings.from_environment(tmp_path, {"MLEBENCH_DATA_DIR": "data"})).data_dir == tmp_path / "data"
    with pytest.raises(UsageError, match=r"^\$MLEBENCH_DATA_DIR: there is no home folder ~nobody-of-this-name"):
        read(settings.from_environment(tmp_path, {"MLEBENCH_DATA_DIR": "~nobody-of-this-name"}))


def test_a_source_with_precedence_wins_and_zero_is_a_value(tmp_path: Path) -> None:
    both = (from_option(tmp_path, "--gpus", "0"), from_ini(tmp_path, "--gpus", "4"))
    assert read(*both).gpus == 0
    assert read(*both[1:]).gpus == 4
    assert read().gpus == 0


def test_an_empty_ini_key_is_ignored_but_an_empty_option_is_an_error(tmp_path: Path) -> None:
    assert read(from_ini(tmp_path, "--split", "")).split is None
    with pytest.raises(UsageError, match=r"^--run-group: the value is empty"):
        read(from_option(tmp_path, "--run-group", ""))


def test_paths_are_relative_to_the_folder_of_their_source(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    here, ini = tmp_path / "here", tmp_path
    assert read(from_option(here, "--data-dir", "../data")).data_dir == tmp_path / "data"
    assert read(from_ini(ini, "--runs-dir", "my runs")).runs_dir == tmp_path / "my runs"
    assert read(from_ini(ini, "--split", "mine.txt")).split == str(tmp_path / "mine.txt")
    assert read(from_option(here, "--split", "lite")).split == "lite"


def test_a_resumed_group_restores_its_options_and_the_command_line_overrides_them(tmp_path: Path) -> None:
    ini = settings.from_ini({"mlebench_cpus": "8", "mlebench_split": "dev"}, tmp_path / "tox.ini", tmp_path)
    made_with = {"--cpus": None, "--memory": 1 << 30, "--time-limit": 90.0, "--network": "none", "--allow-host": ["a"]}
    group = manifest(tmp_path, made_with)
    found = read(from_option(tmp_path, "--network", "full"), group, ini)
    assert (found.agents, found.seeds, found.split) == (("dummy", "baseline"), 2, None)
    assert (found.cpus, found.memory, found.time_limit) == (None, 1 << 30, 90.0)
    assert (found.network, found.allow_hosts) == ("full", ())


def test_restored_options_survive_json(tmp_path: Path) -> None:
    words = "--gpu-ids=0,1 --agents-dir=. --allow-host=a --cpus=1.5 --heavy --data-dir=data --disk=2g"
    given = from_words(tmp_path, words)
    options = json.loads(json.dumps(read(given).restored_options()))
    restored = settings.from_manifest(
        Manifest(options=options, runs=(PlannedRun("dummy", "smoke-digits", 0),)), Path("/elsewhere/manifest.json")
    )
    again = read(restored)
    for name in ("gpu_ids", "agents_dirs", "cpus", "heavy", "data_dir", "disk", "time_limit"):
        assert getattr(again, name) == getattr(read(given), name), name


def test_repeated_values_are_deduplicated_in_order(tmp_path: Path) -> None:
    assert read(from_words(tmp_path, "--agent=b --agent=a --agent=b")).agents == ("b", "a")


@pytest.mark.parametrize(
    ("text", "outcomes"),
    [
        ("crashed,no-submission", {"crashed", "no_submission"}),
        ("timed-out", {"timed_out"}),
        (
            "all",
            {"invalid_submission", "no_submission", "timed_out", "out_of_memory", "crashed", "budget_ended", "error"},
        ),
    ],
)
def test_outcomes_to_rerun_are_given_as_shown(text: str, outcomes: set[str], tmp_path: Path) -> None:
    assert read(from_option(tmp_path, "--retry-failed", text)).retry_failed == outcomes


def test_the_help_names_every_choice(tmp_path: Path) -> None:
    for name in ("--network", "--build-network", "--sandbox", "--prepare", "--description", "--min-medal"):
        with pytest.raises(UsageError) as caught:
            read(from_option(tmp_path, name, "?"))
        choices = str(caught.value).rpartition("one of ")[2].split(", ")
        assert [choice for choice in choices if choice not in OPTIONS[name].help] == []
