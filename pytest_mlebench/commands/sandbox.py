"""``mlebench build`` and ``clean``: images and containers."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

from pytest_mlebench.catalog.catalogue import bundled

logger = logging.getLogger("pytest_mlebench")


def add(commands: Any) -> None:
    build = commands.add_parser("build", help="build the images of agents ahead of time")
    build.add_argument("agents", nargs="*", metavar="AGENT", help="agent ids (default: all bundled agents)")
    build.add_argument("--agents-dir", type=Path, action="append", default=[], metavar="DIR",
        help="a folder of agents beside the bundled ones; repeatable")  # fmt: skip
    build.add_argument("--base-image", metavar="IMAGE", help="what mlebench-env is built from")
    build.add_argument("--heavy", action="store_true", help="with the common machine-learning packages")
    build.set_defaults(command=_build)

    clean = commands.add_parser("clean", help="remove the containers that dead sessions left")
    clean.add_argument("--kept", action="store_true", help="also those that --keep-sandbox kept")
    clean.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    clean.set_defaults(command=_clean)


def _build(options: argparse.Namespace) -> int:
    from pytest_mlebench.agents import AgentRegistry
    from pytest_mlebench.sandbox.docker import DockerSandbox

    registry = AgentRegistry(bundled("agents"), *options.agents_dir)
    agents = [registry[id] for id in options.agents] or list(registry.load().values())
    sandbox = DockerSandbox(base_image=options.base_image, heavy=options.heavy, progress=logger.info)
    for agent in agents:
        logger.info("%s: %s", agent.id, sandbox.images.agent(agent))
    return 0


def _clean(options: argparse.Namespace) -> int:
    from pytest_mlebench.sandbox.cleanup import clean

    for leftover in clean(kept=options.kept, dry_run=options.dry_run):
        print(leftover)
    return 0
