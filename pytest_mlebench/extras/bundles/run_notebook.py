"""Runs the code cells of a Jupyter notebook, from the first to the last, as one program.

It is copied next to an agent's code and run by the Python of the sandbox, which may not have this package, so it only
uses the standard library. With IPython, the cells run as in Jupyter. Without it, shell commands and the most common
magics work, and magics that only display or configure something are ignored. Any other magic is an error.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
import traceback
import types
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

_R = "cells-of-the-notebook.R"
_SHELLS = ("bash", "sh", "script")
_TRANSPARENT = ("time", "timeit", "capture", "prun")
_DISPLAY_ONLY = ("html", "javascript", "js", "latex", "markdown", "svg")
_WITHOUT_EFFECT = (
    *("aimport", "autoreload", "autosave", "colors", "config", "env", "load_ext", "matplotlib", "pdb", "pprint"),
    *("precision", "pwd", "reload_ext", "unload_ext", "who", "who_ls", "whos", "xmode"),
)
_MAGIC = re.compile(r"(?P<indent>\s*)%(?P<name>\w+)[ \t]*(?P<rest>.*)")
_COMMAND = re.compile(r"(?P<indent>\s*)(?P<names>[\w., ]+=\s*)?!(?P<rest>.*)")
_HELP = re.compile(r"\s*(\?{1,2}[\w.]+|[\w.]+\?{1,2})\s*")


def run(path: str) -> None:
    """Run a notebook's cells. Raises SystemExit if one fails, or something is missing."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            notebook = json.load(file)
        cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell.get("cell_type") == "code"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise SystemExit(f"{path} is not a notebook: {error!r}") from error
    if _language(notebook) == "r":
        if shutil.which("Rscript") is None:
            raise SystemExit("Rscript is not installed here")
        Path(_R).write_text("\n".join(cells) + "\n", encoding="utf-8")
        raise SystemExit(subprocess.run(["Rscript", _R], check=False).returncode)
    sys.argv = [path]
    sys.path.insert(0, str(Path.cwd()))
    try:
        shell_class = importlib.import_module("IPython.core.interactiveshell").InteractiveShell
    except ImportError:
        _run_plain(cells)
        return
    shell_class.enable_gui = lambda self, gui=None: None  # for `%matplotlib`, whose default raises an error
    shell = shell_class.instance(colors="nocolor")
    for source in cells:
        if not shell.run_cell(source).success:
            raise SystemExit(1)


def _language(notebook: Any) -> str:
    """Return the language of a notebook's kernel in lower case; Python if the notebook does not state it."""
    metadata = notebook.get("metadata")
    for name, key in (("language_info", "name"), ("kernelspec", "language")):
        values = metadata.get(name) if isinstance(metadata, dict) else None
        if isinstance(values, dict) and isinstance(values.get(key), str):
            return str(values[key]).lower()
    return "python"


def _run_plain(cells: list[str]) -> None:
    """Run the cells without IPython, in the namespace of the main module, so that their classes can be pickled."""
    main = types.ModuleType("__main__")
    main.__dict__.update(display=print, _shell=partial(_shell, main), _shell_lines=partial(_shell_lines, main))
    sys.modules["__main__"] = main
    for number, cell in enumerate(cells, 1):
        source = _without_cell_magic(cell, number)
        try:
            code = compile(_plain(source, number), f"cell {number}", "exec")
            exec(code, main.__dict__)
        except Exception as error:
            traceback.print_exc()
            raise SystemExit(f"cell {number}: {type(error).__name__}: {error}") from error


def _without_cell_magic(cell: str, number: int) -> str:
    """Return the Python code of a cell. A magic for the whole cell is executed at once."""
    head, _, body = cell.lstrip().partition("\n")
    if not head.startswith("%%"):
        return cell
    name, _, rest = head[2:].partition(" ")
    if name in _TRANSPARENT:
        return body
    if name in _SHELLS and rest.split()[:1] in ([], ["bash"], ["sh"]):
        if subprocess.run(["bash", "-c", body], check=False).returncode:
            raise SystemExit(f"cell {number}: its shell commands failed")
    elif name == "writefile" and rest.split():
        *options, target = rest.split()
        with Path(target).open("a" if "-a" in options else "w", encoding="utf-8") as file:
            file.write(body)
    elif name not in _DISPLAY_ONLY:
        raise SystemExit(f"cell {number}: %%{name} needs IPython, which is not installed here")
    return ""


def _plain(source: str, number: int) -> str:
    """Return Python code for a cell with shell commands and magics. A cell that is already Python is unchanged."""
    try:
        compile(source, f"cell {number}", "exec")
    except (SyntaxError, ValueError):
        return "\n".join(_plain_lines(source, number))
    return source


def _plain_lines(source: str, number: int) -> Iterator[str]:
    for line in source.split("\n"):
        if _HELP.fullmatch(line):
            yield ""
        elif found := _COMMAND.fullmatch(line):
            how = f"{found['names']}_shell_lines" if found["names"] else "_shell"
            yield f"{found['indent']}{how}({found['rest']!r})"
        elif found := _MAGIC.fullmatch(line):
            yield found["indent"] + _line_magic(found["name"], found["rest"], number)
        else:
            yield line


def _line_magic(name: str, rest: str, number: int) -> str:
    if name in ("pip", "conda"):
        return f"_shell({name + ' ' + rest!r})"
    if name == "cd":
        return f"__import__('os').chdir({rest.strip()!r})"
    if name in ("env", "set_env") and (found := re.fullmatch(r"\s*(\w+)(?:\s*=|\s)(.*)", rest)):
        return f"__import__('os').environ[{found[1]!r}] = {found[2].strip()!r}"
    if name in ("time", "prun"):
        return rest
    if name not in _WITHOUT_EFFECT:
        raise SystemExit(f"cell {number}: %{name} needs IPython, which is not installed here")
    return "pass"


def _filled(main: types.ModuleType, command: str) -> str:
    """Return a command with names in braces replaced by their values, as in IPython."""
    values = main.__dict__
    return re.sub(r"\{(\w+)\}", lambda found: str(values.get(found[1], found[0])), command)


def _shell(main: types.ModuleType, command: str) -> None:
    subprocess.run(["bash", "-c", _filled(main, command)], check=False)


def _shell_lines(main: types.ModuleType, command: str) -> list[str]:
    done = subprocess.run(["bash", "-c", _filled(main, command)], stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.splitlines()


if __name__ == "__main__":
    run(sys.argv[1])
