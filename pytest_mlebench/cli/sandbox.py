"""``mlebench build`` and ``clean``: images and containers."""

from __future__ import annotations

import argparse
from typing import Any

from pytest_mlebench.cli.common import add_options, read_settings


def add(commands: Any) -> None:
    build = commands.add_parser("build", help="build agents' images ahead of time")
    build.add_argument("agents", nargs="*", metavar="AGENT", help="agent ids (default: all bundled agents)")
    add_options(build, "--agents-dir", "--base-image", "--heavy", "--build-network")
    build.set_defaults(command=_build)

    clean = commands.add_parser("clean", help="remove containers that killed sessions left behind")
    clean.add_argument("--kept", action="store_true", help="also remove what --keep-sandbox kept")
    clean.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    clean.set_defaults(command=_clean)


def _build(options: argparse.Namespace) -> int:
    from pytest_mlebench import factories
    from pytest_mlebench.progress import Note
    from pytest_mlebench.reports.progress import Lines
    from pytest_mlebench.sandbox.docker.sandbox import DockerSandbox

    settings = read_settings(options)
    registry = factories.agent_registry(settings)
    agents = [registry[id] for id in options.agents] or list(registry.load().values())
    reporter = Lines()
    sandbox = DockerSandbox(**factories.container_options(settings), reporter=reporter)
    for agent in agents:
        reporter(Note(f"{agent.id}: {sandbox.images.agent(agent)}"))
    return 0


def _clean(options: argparse.Namespace) -> int:
    from pytest_mlebench.reports.progress import Lines
    from pytest_mlebench.sandbox.docker.cleanup import clean

    if not clean(kept=options.kept, dry_run=options.dry_run, reporter=Lines(print)):
        print("killed sessions have left nothing behind")
    return 0
