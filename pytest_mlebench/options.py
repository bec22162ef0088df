"""The options of pytest-mlebench, and the ini keys beside them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pytest_mlebench.catalog.catalogue import SPLIT_NAMES
from pytest_mlebench.data.dataset import DESCRIPTIONS
from pytest_mlebench.outcomes import BY_NAME
from pytest_mlebench.quantities import parse_duration, parse_size
from pytest_mlebench.sandbox.network import NETWORKS

MIN_MEDALS = ("gold", "silver", "bronze", "median")
SANDBOXES = ("auto", "docker", "local")
PREPARE = ("auto", "never")

FAILURES = tuple(name for name, outcome in BY_NAME.items() if not outcome.passed)

Value = TypeVar("Value")


def _parsed(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    def convert(text: str) -> Value:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return convert


def parse_positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ValueError(f"{text!r} must be a whole number of at least 1")
    return int(text)


def _outcomes(text: str) -> frozenset[str]:
    words = [word.strip().replace(" ", "_").replace("-", "_") for word in text.split(",") if word.strip()]
    if wrong := [word for word in words if word not in (*FAILURES, "all")]:
        raise ValueError(f"{wrong[0]!r} is not one of {', '.join(FAILURES)}, all")
    return frozenset(FAILURES if "all" in words else words)


def add_options(parser: pytest.Parser) -> None:
    """Options in one group; those that a project would fix have an ini key of the same name."""
    group = parser.getgroup("mlebench", "MLE-bench")

    def add(option: str, help: str, *, ini: bool = False, **settings: Any) -> None:
        group.addoption(option, help=help, **settings)
        if ini:
            parser.addini(ini_key(option), f"Default of {option}: {help}", default=None)

    add("--agent", "run this agent; repeatable", metavar="ID[/VARIANT]", action="append", default=[])
    add("--split", f"only these competitions: {', '.join(SPLIT_NAMES)}, or a file with an id a line", ini=True)
    add("--seeds", "runs of each agent on each competition", ini=True, metavar="N", type=_parsed(parse_positive))
    add("--sandbox", "where agents run: auto, docker or local", ini=True, choices=SANDBOXES)
    add("--data-dir", "where the competitions' data lies", ini=True, metavar="DIR", type=Path)
    add("--prepare", "data that is not there: auto (download and prepare it) or never (skip the test; default: auto)",
        ini=True, choices=PREPARE)  # fmt: skip
    add("--description", "what agents read: bundled (our description) or kaggle (the competition's own pages)",
        ini=True, choices=DESCRIPTIONS)  # fmt: skip
    add("--runs-dir", "where run groups are written (default: reports)", ini=True, metavar="DIR", type=Path)
    add("--run-group", "name of this invocation's run group; what is finished in it is not run again", metavar="NAME")
    add("--resume", "go on with a run group: with its agents, competitions, seeds and limits", metavar="GROUP")
    add("--retry-failed", f"run again what came to one of these: {', '.join(FAILURES)}, or all", metavar="OUTCOME,…",
        type=_parsed(_outcomes), default=frozenset())  # fmt: skip
    add("--allow-changes", "go on with a run group though agents, competitions or settings have changed",
        action="store_true")  # fmt: skip
    add("--agents-dir", "a folder of agents beside the bundled ones; repeatable", ini=True, metavar="DIR", type=Path,
        action="append")  # fmt: skip
    add("--time-limit", "time of a run: 24h, 90m, 30s (default: 24h)", ini=True, metavar="TIME",
        type=_parsed(parse_duration))  # fmt: skip
    add("--cpus", "processors of a run", ini=True, metavar="N", type=float)
    add("--memory", "memory of a run: 64g, 512m", ini=True, metavar="SIZE", type=_parsed(parse_size))
    add("--disk", "what a run may write: 100g", ini=True, metavar="SIZE", type=_parsed(parse_size))
    add("--gpus", "whole GPUs of a run", ini=True, metavar="N", type=int)
    add("--gpu-ids", "only these GPUs, by index or UUID: 0,1", ini=True, metavar="ID,…")
    add("--network", "what a container reaches: none, llm (the agent's llm_hosts) or full (default: llm)", ini=True,
        choices=NETWORKS)  # fmt: skip
    add("--allow-host", "let containers reach this host too; repeatable", metavar="HOST", action="append", default=[])
    add("--runtime", "the containers' runtime: sysbox-runc, nvidia, runsc", ini=True, metavar="NAME")
    add("--allow-privileged", "run agents that ask for a privileged container", action="store_true")
    add("--base-image", "what mlebench-env is built from (default: debian:bookworm-slim)", ini=True, metavar="IMAGE")
    add("--heavy", "build mlebench-env with the common machine-learning packages", action="store_true")
    add("--max-submission-size", "largest submission that is read (default: 1g)", ini=True, metavar="SIZE",
        type=_parsed(parse_size))  # fmt: skip
    add("--min-medal", "a run with less fails: gold, silver, bronze, median", ini=True, choices=MIN_MEDALS)
    add("--keep-sandbox", "keep what agents ran in", action="store_true")
    add("--real-data", "check graders on the prepared real data instead of synthetic data", action="store_true")


def ini_key(option: str) -> str:
    return "mlebench_" + option.removeprefix("--").replace("-", "_")
