"""Plagiarism: copies of a program are found however they were changed, honest programs are not, and no program can harm
the audit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.extras.audit.fingerprints import Fingerprinter, default_parameters
from pytest_mlebench.extras.audit.kernels import Kernels
from pytest_mlebench.extras.audit.plagiarism import Comparison, Pair, Pairs
from pytest_mlebench.extras.audit.run import AuditedRun
from pytest_mlebench.extras.bundles.bundle import write_bundle
from pytest_mlebench.io.values import read_json
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.results.findings import PAIRS, Finding, Verdict, read_findings
from tests.audit.copies import FORESTS, HONEST, NETWORK, ORIGINAL, copies, halves, imports, notebook, renamed
from tests.cli.test_cli import mlebench
from tests.groups import random_record, save_group
from tests.kaggle_server import Cut, KaggleServer, ServedNotebook, Status

ID = "mlsp-2013-birds"
NOTEBOOK = "somebody/harbour-arrivals"
Programs = Mapping[str, str]


def record_of(agent: str, seed: int = 0) -> RunRecord:
    return random_record(default_catalogue()[ID], agent, seed)


def left(folder: Path, record: RunRecord, programs: Programs) -> AuditedRun:
    """A run that left these programs."""
    run_dir = folder / record.run_id
    (run_dir / "code").mkdir(parents=True)
    for name, text in programs.items():
        (run_dir / "code" / name).write_text(text, errors="surrogatepass")
    return AuditedRun(record=record, run_dir=run_dir, competition=None, dataset=None)


def compare(
    folder: Path,
    runs: Mapping[tuple[str, int], Programs],
    notebooks: Programs | None = None,
    *,
    scaffold: Sequence[Path] = (),
    others: Mapping[tuple[str, int], Programs] | None = None,
) -> tuple[tuple[Finding, ...], tuple[Pair, ...]]:
    """Findings and similar pairs in runs, by agent and seed."""
    files = {}
    for name, text in (notebooks or {}).items():
        path = folder / "notebooks" / name.replace("/", "-")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        files[Path(name).stem] = path
    here = Kernels(listed=tuple(files), files=files, gone={}, failed={})
    with Fingerprinter(default_parameters()) as take:
        compared = Comparison(take, lambda id: here, lambda name: scaffold)
        for (agent, seed), programs in runs.items():
            compared.add(left(folder, record_of(agent, seed), programs))
        for (agent, seed), programs in (others or {}).items():
            compared.add(left(folder / "other", record_of(agent, seed), programs), group="other")
        found, pairs, _ = compared()
    return found, pairs.pairs


@pytest.mark.parametrize("cells", [1, 7, 30])
def test_only_copies_of_a_notebook_are_found(cells: int, tmp_path: Path) -> None:
    programs = copies() | dict(HONEST) | {"imports": imports(ORIGINAL)}
    runs = {(name, 0): {"solution.py": text} for name, text in programs.items()}
    found, pairs = compare(tmp_path, runs, {"harbour.ipynb": notebook(ORIGINAL, cells)})
    resembling = {pair.agent: pair for pair in pairs if pair.kind == "notebook"}
    assert resembling.keys() == copies().keys()
    for name in ("exact", "renamed", "reordered", "reformatted", "all of these"):
        assert min(resembling[name].share, resembling[name].other_share) > 0.9, name
        assert resembling[name].verdict is Verdict.violation
    for name in ("the greater part", "padded"):
        assert resembling[name].other_share > 0.95 > resembling[name].share
    for name in ("half of it, alone", "first half"):
        assert resembling[name].share > 0.9 and resembling[name].verdict is Verdict.look, "short"
    assert {own.scanner for own in found} == {"plagiarism"}
    violations = {own.run_id for own in found if own.verdict is Verdict.violation}
    assert violations == {pair.run_id for pair in pairs if pair.verdict is Verdict.violation}
    honest = [pair for pair in pairs if pair.agent in HONEST]
    assert all(pair.kind == "run" and pair.share > 0.95 for pair in honest), "other programs were padded with it"
    assert {pair.agent for pair in honest} == {"forests", "network"}


def test_honest_programs_for_the_same_task_have_little_in_common(tmp_path: Path) -> None:
    runs = {(name, 0): {"solution.py": text} for name, text in HONEST.items()}
    assert compare(tmp_path, runs, {f"{name}.py": ORIGINAL for name in ("first", "second")}) == ((), ())
    parameters = default_parameters()
    with Fingerprinter(parameters) as take:
        taken = {name: take(text, ".py") for name, text in {**HONEST, "original": ORIGINAL}.items()}
    for one, other in permutations(taken.values(), 2):
        assert one is not None and other is not None
        assert len(one.places.keys() & other.places.keys()) < 0.15 * len(one.places)


def test_a_copy_that_is_split_into_files_is_found_in_each(tmp_path: Path) -> None:
    first, second = halves(ORIGINAL)
    runs = {("a", 0): {"one.py": first, "two.ipynb": notebook(second, 5), "own.py": FORESTS}}
    _, pairs = compare(tmp_path, runs, {"harbour.py": ORIGINAL})
    # A run's best pair with a notebook is reported once.
    assert {(pair.file, pair.other) for pair in pairs} == {("code/one.py", "harbour"), ("code/two.ipynb", "harbour")}


def test_agents_are_compared_but_not_seeds_of_one_agent(tmp_path: Path) -> None:
    runs = {("a", 0): {"x.py": ORIGINAL}, ("a", 1): {"x.py": ORIGINAL}, ("b", 0): {"y.py": renamed(ORIGINAL)}}
    found, pairs = compare(tmp_path, runs)
    by_agent = {(pair.agent, pair.other.partition("_")[0]) for pair in pairs}
    assert len(pairs) == 4 and {agent for agent, _ in by_agent} == {"a", "b"}
    ids = {agent: record_of(agent).run_id for agent in ("a", "b")}
    assert {pair.other for pair in pairs if pair.agent == "a"} == {ids["b"]}
    assert all(own.verdict is Verdict.look for own in found), "it is unknown who copied"


def test_runs_are_compared_with_other_groups(tmp_path: Path) -> None:
    others = {("a", 0): {"x.py": ORIGINAL}, ("b", 0): {"x.py": ORIGINAL}}
    _, pairs = compare(tmp_path, {("a", 0): {"x.py": ORIGINAL}}, others=others)
    assert [pair.other for pair in pairs] == [f"other/{record_of('b').run_id}"]


def test_code_from_the_agents_folder_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "scaffold.py").write_text(NETWORK)
    runs = {("a", 0): {"x.py": renamed(NETWORK)}, ("b", 0): {"x.py": NETWORK + FORESTS}}
    _, pairs = compare(tmp_path, runs, {"net.py": NETWORK}, scaffold=[tmp_path / "scaffold.py"])
    assert pairs == ()


def test_long_lists_and_short_programs_are_not_copies(tmp_path: Path) -> None:
    columns = "columns = [" + ", ".join(f'"name {k}"' for k in range(400)) + "]\n"
    numbers = "weights = [" + ", ".join("1" for _ in range(400)) + "]\n"
    runs = {("a", 0): {"x.py": FORESTS + columns + numbers}, ("b", 0): {"x.py": imports(NETWORK) + "print(1)\n"}}
    _, pairs = compare(tmp_path, runs, {"n.py": columns + numbers + imports(ORIGINAL) * 20, "tiny.py": "x = 1\n"})
    assert pairs == ()


def test_similar_passages_are_shown_side_by_side(tmp_path: Path) -> None:
    _, second = halves(ORIGINAL)
    mine = FORESTS + renamed(second)
    _, pairs = compare(tmp_path, {("a", 0): {"x.py": mine}}, {"harbour.py": ORIGINAL})
    (pair,) = pairs
    longest = max(pair.passages, key=lambda passage: len(passage.text))
    assert longest.text.splitlines() == mine.splitlines()[longest.lines[0] - 1 : longest.lines[1]]
    start, end = longest.other_lines
    assert longest.other_text.splitlines() == ORIGINAL.splitlines()[start - 1 : end]
    # The lines match, although the variables have other names.
    for own, other in zip(longest.text.splitlines(), longest.other_text.splitlines(), strict=True):
        assert re.sub("my_", "", own) == other


HOSTILE = {
    "one-line.py": "x=1;" * 2_500_000,
    "deep.py": "(" * 100_000 + ")" * 100_000,
    "not-text.py": "\udc80\udcff def f(:\n" * 5000,
    "quotes.py": "'" * 100_001,
    "strings.py": 'f"{' * 50_000,
    "imports.py": "from a import (\n" * 20_000,
    "spaces.py": " " * 300_000,
    "empty.py": "\n\n\n",
    "notebook.ipynb": '{"cells":' * 100_000,
    "cells.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": {"a": [1]}}, 3, None]}),
}


@pytest.mark.full
def test_malicious_programs_do_not_stop_the_comparison(tmp_path: Path) -> None:
    runs = {(name, 0): {name: text} for name, text in HOSTILE.items()} | {("thief", 0): {"x.py": ORIGINAL}}
    notebooks = {"harbour.py": ORIGINAL, **HOSTILE}
    notebooks["not-text.py"] = "def f(:\n" * 5000
    _, pairs = compare(tmp_path, runs, notebooks)
    assert [(pair.agent, pair.other) for pair in pairs if pair.agent == "thief"] == [("thief", "harbour")]


def test_programs_that_are_too_large_are_named(tmp_path: Path) -> None:
    with Fingerprinter(default_parameters()) as take:
        compared = Comparison(take, lambda id: None, lambda name: ())
        record = record_of("a")
        compared.add(left(tmp_path, record, {"x.py": "x = 1\n" * 100_000}))
        _, _, account = compared()
    assert account.not_compared == (f"{record.run_id}/code/x.py",) and account.without_code == (record.run_id,)


def test_a_process_that_ends_is_replaced() -> None:
    with Fingerprinter(default_parameters()) as take:
        before = take(ORIGINAL, ".py")
        assert take._process is not None
        take._process.kill()
        take(ORIGINAL, ".py")
        after = take(ORIGINAL, ".py")
    assert before is not None and after is not None and before.places == after.places


def test_only_code_cells_of_notebooks_without_magics_are_compared() -> None:
    with Fingerprinter(default_parameters()) as take:
        found = take(notebook(ORIGINAL, 10), ".ipynb", raw=True)
        markdown = take("# T\n```{r setup}\nx <- 1\n```\ntext\n```{r}\ny <- 2\n```\n", ".rmd", raw=True)
    assert found is not None and markdown is not None
    lines = [line for line in found.text.split("\n") if line.strip()]
    assert lines == [line for line in ORIGINAL.split("\n") if line.strip()]
    assert markdown.text.split() == ["x", "<-", "1", "y", "<-", "2"]


@pytest.fixture
def world(kaggle_server: KaggleServer, tmp_path: Path) -> Iterator[Path]:
    """A group with a copy of a public Kaggle notebook."""
    competition = default_catalogue()[ID]
    first, private, gone, *rest = competition.kernels
    kaggle_server.notebooks = {name: ServedNotebook(source=notebook(NETWORK, 9)) for name in (first, *rest)}
    kaggle_server.notebooks[first] = ServedNotebook(source=notebook(ORIGINAL, 6))
    kaggle_server.notebooks[private] = ServedNotebook(source="x", is_private=True)
    assert gone not in kaggle_server.notebooks
    marked = ORIGINAL.replace('print("threshold"', 'print("<script>alert(1)</script>\\x1b[2J"')
    programs = {"thief": renamed(marked), "honest": FORESTS, "other": HONEST["search"]}
    save_group(tmp_path / "runs/group", [record_of(agent) for agent in programs])
    for agent, text in programs.items():
        folder = tmp_path / "runs/group" / record_of(agent).run_id / "code"
        folder.mkdir()
        (folder / "solution.py").write_text(text)
    yield tmp_path


def audit(world: Path, *options: str) -> tuple[int, str, str]:
    done = mlebench("audit", world / "runs/group", "--data-dir", world / "data", "--runs-dir", world / "runs", *options)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.full
def test_from_download_to_report_through_the_command_line(world: Path, kaggle_server: KaggleServer) -> None:
    status, out, err = audit(world, "--plagiarism")
    assert status == 0, err
    command = f"mlebench kernels -c {ID} --data-dir {world}/data"
    assert f"notebooks are missing: {ID} (5 of 5); download them with `{command}`" in err
    kaggle_server.script("GetKernel", Cut(), Status(503), Cut(0.9))
    done = mlebench("kernels", "-c", ID, "--data-dir", world / "data")
    assert done.returncode == 0 and "3 of 5 notebooks" in done.stderr and "2 gone or private" in done.stderr

    status, out, err = audit(world, "--plagiarism", "--pairs")
    thief, first = record_of("thief"), default_catalogue()[ID].kernels[0]
    assert status == 1, "nearly all of the code is in one notebook"
    assert re.search(rf"violation \(plagiarism\): \d+ % of it is in the public notebook {first}", " ".join(out.split()))
    assert not re.search("not downloaded|notebooks are missing", err + out) and "3 notebooks, 2 gone" in out
    assert any(re.match(r"\s+my_frame.* \| .*frame", line) for line in out.splitlines()), "side by side"
    assert "\x1b" not in out

    group = world / "runs/group"
    found, pairs = read_findings(group), read_json(group / PAIRS, Pairs)
    assert found is not None and pairs.pairs and found.plagiarism is not None
    assert {own.run_id for own in found.findings if own.scanner == "plagiarism"} == {thief.run_id}
    account = found.plagiarism
    assert (account.library, account.kgram, account.window, account.threshold) == ("copydetect", 30, 15, 0.6)
    assert account.version and account.notebooks[ID].compared == 3 and account.notebooks[ID].gone == 2
    page = (group / "plagiarism.html").read_text()
    assert "<script" not in page and "&lt;script&gt;alert(1)" in page and "default-src 'none'" in page
    assert first in page and thief.run_id in page

    bundle = world / "group.tar.zst"
    write_bundle(group, bundle)
    unpacking = ["tar", "--zstd", "-xOf", str(bundle), "index.json"]
    listed = subprocess.run(unpacking, capture_output=True, text=True, check=True).stdout
    assert "audit.json" in listed and "plagiarism" not in listed, "other people's code is not passed on"

    status, out, _ = audit(world)
    kept = read_findings(group)
    assert status == 1 and kept is not None and kept.plagiarism == account, "earlier findings are kept"


def test_mistakes_are_one_line(
    world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pytest_mlebench.cli.main import main

    group = str(world / "runs/group")
    for options, said in (
        (["--pairs"], "--pairs needs --plagiarism"),
        (["--plagiarism", "--with-group", "nowhere"], "nowhere"),
        (["--plagiarism", "--boilerplate", "nowhere"], "--boilerplate: nowhere cannot be read: No such file"),
    ):
        assert main(["audit", group, *options, "--runs-dir", str(world / "runs")]) == 2
        assert said in capsys.readouterr().err
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "site-packages" not in entry])
    assert main(["audit", group, "--plagiarism"]) == 2
    assert "pip install 'pytest-mlebench[plagiarism]'" in capsys.readouterr().err
