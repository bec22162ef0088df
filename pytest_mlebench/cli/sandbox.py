"""``mlebench build`` and ``clean``: images and containers."""

from __future__ import annotations

import argparse
from typing import Any

from pytest_mlebench.cli.common import add_options, read_bench
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.progress import Note, WarningNote
from pytest_mlebench.reports.progress import Lines
from pytest_mlebench.sandbox.docker.cleanup import clean_all
from pytest_mlebench.sandbox.docker.images import ENVIRONMENT


def add(commands: Any) -> None:
    build = commands.add_parser("build", help="build agents' images ahead of time")
    build.add_argument("agents", nargs="*", metavar="AGENT",
        help="agent ids, or mlebench-env for what all are built from (default: all bundled agents)")  # fmt: skip
    build.add_argument("--check", action="store_true",
        help="then train each library in these images once, without a network; with --gpus on GPUs too")  # fmt: skip
    add_options(build, "--sandbox", "--agents-dir", "--base-image", "--heavy", "--gpus", "--gpu-ids", "--build-network")
    build.set_defaults(command=_build)

    clean = commands.add_parser("clean", help="remove containers that killed sessions left behind")
    clean.add_argument("--kept", action="store_true", help="also remove what --keep-sandbox kept")
    clean.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    clean.set_defaults(command=_clean)


def _build(options: argparse.Namespace) -> int:
    reporter = Lines()
    bench = read_bench(options, reporter)
    registry = bench.registry
    # Each by its name; an agent's variants are one image.
    wanted = {id: None if id == ENVIRONMENT else registry[id] for id in options.agents} or registry.load()
    sandbox = bench.container_sandbox()
    tags = []
    for id, agent in wanted.items():
        tags.append(sandbox.images.environment() if agent is None else sandbox.images.agent(agent))
        reporter(Note(f"{id}: {tags[-1]}"))
    failed = 0
    for tag in dict.fromkeys(tags) if options.check else ():
        reporter(Note(f"{tag}: checking"))
        try:
            sandbox.test_image(tag)
        except SandboxError as error:
            reporter(WarningNote(str(error)))
            failed += 1
    return 1 if failed else 0


def _clean(options: argparse.Namespace) -> int:
    if not clean_all(kept=options.kept, dry_run=options.dry_run, reporter=Lines(print)):
        print("killed sessions have left nothing behind")
    return 0
