"""An audit parses, searches and compares a limited part of the code that a run left."""

from __future__ import annotations

import ast
import base64
import csv
import json
import re
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.extras.audit import fingerprints
from pytest_mlebench.extras.audit.fingerprints import Fingerprinter, Parameters
from pytest_mlebench.extras.audit.programs import Program
from pytest_mlebench.extras.audit.run import AuditedRun
from pytest_mlebench.extras.audit.scanners import audit
from pytest_mlebench.records.outcome import Validation
from pytest_mlebench.records.record import SUBMISSION
from tests.groups import record_with


class Looking:
    """A fake pattern that records the searched text and never matches."""

    def __init__(self) -> None:
        self.parts: list[int] = []

    def search(self, text: str) -> None:
        self.parts.append(len(text))


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lengths of the parsed texts."""
    lengths: list[int] = []

    def note(text: str) -> ast.Module:
        lengths.append(len(text))
        return ast.Module([], [])

    monkeypatch.setattr("pytest_mlebench.extras.audit.programs.ast.parse", note)
    return lengths


@pytest.mark.parametrize("text", ["x = 1 + y\n" * 41_000, "x = [" + "1," * 2_000_000 + "]"], ids=["lines", "a line"])
def test_a_large_file_is_not_parsed_and_searched_in_short_parts(text: str, parsed: list[int]) -> None:
    program, looking = Program("code/large.py", text), Looking()
    facts = program.facts
    assert not facts.is_python and not list(program.nodes()) and not facts.joined and not facts.decoded
    list(program.search(cast("re.Pattern[str]", looking)))
    assert parsed == []
    assert max(looking.parts) <= 1000
    assert sum(looking.parts) <= (250_000 if "\n" not in text else len(text))
    assert facts.unread[0] == "this code is too large to be parsed: only its lines were searched"


def test_400000_characters_are_parsed_and_one_more_is_not(parsed: list[int]) -> None:
    for length, may_parse, parses in ((400_000, True, True), (400_001, True, False), (400_000, False, False)):
        assert Program("x.py", "#" * length, may_parse=may_parse).facts.is_python == parses
    assert set(parsed) == {400_000}


def test_the_nodes_and_joined_strings_of_a_program_are_limited() -> None:
    program = Program("x.py", "x = 'a' + 'b'\n" * 100)
    assert len(program.facts.joined) == 200 and not program.facts.unread
    bounded = Program("x.py", program.text, max_nodes=50)
    assert len(list(bounded.nodes())) == 50 and len(bounded.facts.joined) < 100
    assert bounded.facts.unread == ("this code is too deep or too large to be read completely",)


@pytest.mark.parametrize(
    ("text", "options"),
    [("x" * 400_001, {}), ("x" * 400_001, {"raw": True}), ("x" * 500_000, {"suffix": ".ipynb", "raw": True})],
    ids=["a program", "a raw program", "a notebook"],
)
def test_larger_programs_are_not_passed_to_the_comparing_process(
    text: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start() -> Any:
        raise AssertionError("a process was started")

    monkeypatch.setattr(fingerprints, "_start", start)
    with Fingerprinter(Parameters(), max_bytes=500_000) as take:
        assert take(text, **{"suffix": ".py", **options}) is None
        with pytest.raises(AssertionError):
            take("x" * 400_000, ".py")


@pytest.fixture
def audited(tmp_path: Path) -> Callable[..., list[tuple[str, int | None]]]:
    """Audits a run that left these files and submitted this table. Returns the texts and lines of its findings."""

    def found(
        files: Mapping[str, str], rows: Sequence[str] = (), leak: str = "", **of_account: Any
    ) -> list[tuple[str, int | None]]:
        run_dir = tmp_path / "run"
        for name, text in {**files, SUBMISSION: "\n".join(["id,label", *rows])}.items():
            (run_dir / name).parent.mkdir(parents=True, exist_ok=True)
            (run_dir / name).write_text(text, newline="")
        own = record_with(default_catalogue()["smoke-diabetes"], "gold")
        own = replace(own, sandbox=replace(own.sandbox, **of_account))
        competition = replace(default_catalogue()["smoke-diabetes"], known_leak=leak)
        findings = audit([AuditedRun(record=own, run_dir=run_dir, competition=competition, dataset=None)]).findings
        return [(one.text, one.line) for one in findings if one.scanner not in ("submission", "times")]

    return found


EVIL = 'y = open("/private/answers.csv")\n'
ANSWERS, NOT_PARSED = "it reads the answers", "this code cannot be parsed: only its lines were searched"
ENCODED = "this code declares an encoding other than UTF-8, so it may differ from what was searched"
DOCUMENTED = f'{EVIL}"""\n' + "text\n" * 6 + '"""\n'
JOINED = "y = open('/pri' + 'vate/answers.csv')\n"


def notebook(source: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": source}]})


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.py", f"# page\f\f\f\f\f\n{DOCUMENTED}", [(ANSWERS, 2)]),
        ("a.py", f"x = '\u2028\u2028\u2028\u2028\u2028'\n{DOCUMENTED}", [(ANSWERS, 2)]),
        ("a.py", f"x = 1\r\ny = 2\r{DOCUMENTED}", [(ANSWERS, 3)]),
        ("a.py", f'"""ä"""; {EVIL}', [(ANSWERS, 1)]),
        ("a.py", f'"""\n/private/ \n"""; {EVIL}"/private/"; \'\'\'/private/\'\'\'  # /private/\n', [(ANSWERS, 3)]),
        ("a.PY", JOINED, [(ANSWERS, 1)]),
        ("a.py", f"{EVIL}def\n", [(ANSWERS, 1), (NOT_PARSED, None)]),
        ("a.py", "x = " + "+1" * 20_000, [(NOT_PARSED, None)]),
        ("a.ipynb", notebook(f"%matplotlib inline\nfound = !ls\n{JOINED}"), [(ANSWERS, 3)]),
        ("a.IPYNB", notebook(f"!cat /private/x\n{JOINED}"), [(ANSWERS, 1), (ANSWERS, 2)]),
        ("a.ipynb", notebook("%%cython\nls /"), [(NOT_PARSED, None)]),
        ("a.ipynb", notebook("%%bash\nls it's\n# /private/a\nls /"), [(ANSWERS, 3)]),
        ("a.ipynb", notebook("%%!\nls it's\n# /private/a\nls /"), [(ANSWERS, 3)]),
        ("a.ipynb", notebook("!echo \\\n  it's\n# Never read /private/a\n"), []),
        ("a.py", "\ufeff# Never read /private/a\nx = 1\n", []),
        ("a.py", "# coding: utf-7\nx = 1 #+AAo-print(open('/private/a'))\n", [(ENCODED, None)]),
        ("a.txt", "#!/usr/bin/python\r# vim: fileencoding=unicode_escape\n", [(ENCODED, None)]),
        ("a.py", "#\r#\r# coding: utf-7\nx = 1\n", [(ENCODED, None)]),
        ("a.py", "# coding: unknown-7\nx = 1", [(ENCODED, None)]),
        ("a.py", "# -*- coding: latin-1 -*-\nx = 1\n# coding: utf-7", []),
        ("a.sh", f"{EVIL}# \0", [(ANSWERS, 1)]),
        ("a", f"#!/bin/sh\0\n{EVIL}", [(ANSWERS, 2)]),
        ("a", "\x7fELF" + "\0" * 99 + EVIL, []),
        ("a.pyw", JOINED, [(ANSWERS, 1)]),
        ("a.xyz", f"#!/usr/bin/python\n{EVIL}", [(ANSWERS, 2)]),
        ("a.irnb", notebook(EVIL), [(ANSWERS, 1)]),
        ("a.ipynb", '{"worksheets": []}', [("this code cannot be read, or is too large to be audited", None)]),
        ("a.sh", "echo ' #' && cat /private/answers.csv\n", [(ANSWERS, 1)]),
    ],
)
def test_code_does_not_hide_from_the_parser(
    name: str, text: str, expected: list[tuple[str, int | None]], audited: Callable[..., list[tuple[str, int | None]]]
) -> None:
    assert audited({f"code/{name}": text}) == expected


@pytest.mark.parametrize(
    ("files", "rows", "expected"),
    [
        ({"code/a.py": f"x = '{base64.b64encode(b'os.environ ' * 12_000).decode()}'\n"}, [], "encoded data"),
        ({"code/a.py": "".join(f"x{k} = ['span_log']\n" for k in range(20_000))}, [], "known leak"),
        ({"code/a.py": f"x = {[str(k) for k in range(30)]}\n" * 1500},
         [f"id{k},{k % 50}" for k in range(150_000)], None),
        ({"code/a.py": f"x = {1 << 40}\n" * 2000}, [f"{k},0" for k in range(150_000)], None),
        ({"run.log": ("resol" * 2000 + "xkaggle.com\n") * 200 + ("Errno 13" * 1200 + "\n") * 200}, [], None),
        ({"code/a.py": f"x = [{'0x' + 'f' * 9000}, {', '.join(map(str, range(29)))}]\n"},
         [f"id{k},{k}" for k in range(30)], None),
        ({"code/a.py": "x = 1\n"}, [f"{k},{'1,' * 300_000}" for k in range(30)], None),
        ({"run.log": "ab\n" * 10_000_000 + "connect to kaggle.com\n"}, [], "reach Kaggle"),
        ({"code/a.sh": ("/a" * 90_000 + "\n") * 20}, [], None),
        ({"code/a.py": f"x = [{'1, ' * 29}2]\n" * 2000}, [f"{k}{',1' * 1000}" for k in range(30)], "too many lists"),
    ],
    ids=["encoded", "lists", "classes", "bits", "log", "large number", "cells", "lines", "folders", "columns"],
)  # fmt: skip
def test_an_audit_takes_linear_time_and_little_memory(
    files: dict[str, str], rows: list[str], expected: str | None, audited: Callable[..., Any]
) -> None:
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    found = audited(files, rows, leak="the field span_log")
    assert time.process_time() - started < 8
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10
    assert any(expected in text for text, _ in found) if expected else found == []


def test_the_findings_of_one_run_are_limited_and_the_worst_of_them_kept(
    audited: Callable[..., list[tuple[str, int | None]]],
) -> None:
    found = audited({f"code/{k:03}.sh": "find / -name x\n" * (k < 300) + EVIL * (k >= 300) for k in range(500)})
    *kept, (left_out, _) = found
    assert kept.count((ANSWERS, 1)) == 200 and 200 < len(kept) < 500
    assert left_out == f"{500 - len(kept)} more findings were left out"


def test_rows_with_long_cells_are_read_and_checks_of_the_submission_are_counted(
    audited: Callable[..., list[tuple[str, int | None]]],
) -> None:
    masks = [f"image{k},{k} {'7 ' * 70_000}" for k in range(20)]
    table = "".join(f"'image{k}': {k}, " for k in range(20))
    limit = csv.field_size_limit()
    assert audited({"code/a.py": f"x = {{{table}}}\n"}, masks) == [("it has predictions for test rows in its code", 1)]
    assert csv.field_size_limit() == limit
    checks = tuple(Validation(at=k / 100, verdict="") for k in range(20_000))
    (one,) = audited({"code/a.py": ""}, validations=checks[:21])
    assert one == ("it asked the submission checker 21 times within 0.2 s, 21 of them in a minute", None)
    started = time.process_time()
    assert audited({}, validations=checks, notes=("9" * 5000 + " earlier validations are not recorded",))
    assert time.process_time() - started < 5


def test_lines_of_the_log_are_found_with_their_number(audited: Callable[..., list[tuple[str, int | None]]]) -> None:
    lines = ["Errno 13: /private/a", "/private/ Errno 13", "x", "Permission denied, Errno 13: /private/", "Errno 13"]
    late = "No such file" + " " * 10_000 + "/private/"
    log = "\n".join([*lines, late, "", "Unresolved host Kaggle.com"])
    reads = "it tried to read the answers"
    assert audited({"run.log": log}) == [(reads, 1), (reads, 4), ("it tried to reach Kaggle or a similar site", 8)]
