"""``mlebench new-competition`` and ``new-agent``: create folders that pass their checks unchanged."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import tempfile
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_mlebench.agents.registry import CONFIG, default_agents, read_config
from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.cli.common import logger, user_path
from pytest_mlebench.errors import UsageError
from pytest_mlebench.gate.golden import make_golden, write_golden
from pytest_mlebench.io.files import bundled

TEMPLATES = Path(__file__).parent / "templates"


def add(commands: Any) -> None:
    for kind, metavar, command in (("competition", "ID", _new_competition), ("agent", "NAME", _new_agent)):
        parser = commands.add_parser(f"new-{kind}", help=f"create a folder for your own {kind}")
        parser.add_argument("id", metavar=metavar)
        parser.add_argument("--dir", type=user_path, default=Path(f"{kind}s"), metavar="DIR",
            help=f"the parent folder, created if needed (default: {kind}s)")  # fmt: skip
        parser.set_defaults(command=command)


def _new_competition(options: argparse.Namespace) -> int:
    _check_new("competition", options.id, default_catalogue())
    with _created("competition", options.id, options.dir) as folder, tempfile.TemporaryDirectory() as scratch:
        competition = Competition.load(folder)
        write_golden(competition, make_golden(competition, Path(scratch)))
    logger.info("Created %s. Edit its files, then run:", folder)
    path = shlex.quote(str(folder))
    logger.info("    mlebench golden %s    records the results", path)
    logger.info("    pytest %s             checks the competition", path)
    return 0


def _new_agent(options: argparse.Namespace) -> int:
    _check_new("agent", options.id, default_agents().load())
    with _created("agent", options.id, options.dir) as folder:
        read_config(folder / CONFIG)
    where = "" if options.dir.resolve() == bundled("agents") else f" --agents-dir={shlex.quote(str(options.dir))}"
    logger.info("Created %s. Run it with:", folder)
    logger.info("    pytest --agent=%s%s --split=smoke", options.id, where)
    return 0


def _check_new(kind: str, id: str, known: Container[str]) -> None:
    if id in known:
        raise UsageError(f"{id} is a bundled {kind}; choose another name")


@contextmanager
def _created(kind: str, id: str, parent: Path) -> Iterator[Path]:
    """Context manager: copy a template to a new folder, and delete it if that or the block fails.

    Raises UsageError if its name is invalid or it cannot be created.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", id):
        raise UsageError(f"{id!r} is not a valid name: use letters, digits, '-', '_' and '.'")
    folder = parent / id
    title = re.sub(r"[-_.]+", " ", id).title()
    try:
        if parent.exists() and not parent.is_dir():
            raise UsageError(f"{parent} is not a folder")
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        try:
            for template in sorted((TEMPLATES / kind).iterdir()):
                if template.is_file():
                    text = template.read_text(encoding="utf-8").replace("{{id}}", id).replace("{{title}}", title)
                    (folder / template.name).write_text(text, encoding="utf-8")
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    except FileExistsError as error:
        raise UsageError(f"{error.filename} already exists; nothing was overwritten") from error
    except OSError as error:
        raise UsageError(f"{folder} cannot be created: {error.strerror} ({error.filename})") from error
