"""A leaderboard of honest and forged bundles: all rows and failures, in files and in Chromium."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench import Bench, UsageError
from pytest_mlebench.cli.main import main
from pytest_mlebench.extras.bundles.bundle import TABLES, write_bundle
from pytest_mlebench.results.overview import published_results
from tests.audit.test_deceiving_bundles import DECEIVING, every
from tests.audit.test_verify import World, in_manifest, made_world, members, pack, reindexed, rewritten, tables
from tests.plugin.conftest import TOYS
from tests.reports.browser import Open, Tab, violations_anywhere
from tests.reports.conftest import browser, open_tab

__all__ = ["browser", "open_tab"]
pytestmark = pytest.mark.full
Values = dict[str, Any]
EVIL = "<img src=x onerror=window.owned=1>"
HOSTILE_FILE = "a<script>window.owned=1<.tar.zst"
MACHINE = {"host": "h", "cpu": "Xeon", "cpus": 36, "memory": 440 << 30, "gpus": {"NVIDIA A10": 1}}
REJECTED = {
    "copied answers": "9 of 9 runs have violations",
    "copied answers and a clean audit": "9 of 9 runs have violations",
    "one run that copied": "1 of 9 runs has violations",
    "wrong seeds": "differs",
    "another version's scores": "differs",
    "a group renamed by hand": "it belongs to the run group 'toys', but this is 'better'",
    "a better score": "grades: ",
    "a better submission": "grades: ",
    "a longer time limit, and a note of it": "settings: ",
}
"""Forged bundles, and the page's text for each."""


def as_in_docker(group: Path) -> None:
    """Change the group as if its session had used MLE-bench's own setting, which tests cannot use."""

    def in_record(values: Values) -> None:
        values["limits"].update(gpus=1)
        values["sandbox"].update(name="docker", network="llm", notes=[])
        values["sandbox"]["limits"].update(gpus=1)
        values["permissions"]["used"].pop("no_isolation")

    def of_group(values: Values) -> None:
        values["settings"]["limits"].update(gpus=1)
        for agent in values["settings"]["agents"].values():
            agent["sandbox"] = "docker"
        values["permissions"] = {}
        values["sessions"][0]["hardware"] = MACHINE
        values["canonical"] = {"is_canonical": True, "differences": []}

    every(in_record)(group)
    in_manifest(of_group)(group)


def without_silver(group: Path) -> None:
    """Reduce the group to two agents and two seeds, and rename it."""

    def of_group(values: Values) -> None:
        values["runs"] = [run for run in values["runs"] if run["agent"] != "toy/silver" and run["seed"] < 2]
        values["settings"]["agents"].pop("toy/silver")

    for path in {*group.glob("*toy-silver-*"), *group.glob("*toy-*-2-*")}:
        shutil.rmtree(path)
    for path in group.glob("grading_report*"):
        path.unlink()
    in_manifest(of_group)(group)
    rewritten(group)
    assert main(["groups", f"--runs-dir={group.parent}", "--rename", group.name, "two-seeds"]) == 0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Three agents × three seeds on a split of one competition."""
    project = tmp_path_factory.mktemp("project")
    shutil.copytree(TOYS, project, dirs_exist_ok=True)
    competition = project / "competitions/toy-parity/competition.yaml"
    competition.write_text(competition.read_text().replace("split: smoke", "split: toys"))
    return made_world(project, ("toy/gold", "toy/silver", "toy/no-medal"), seeds=3)


def bundled(world: World, scratch: Path, target: Path, *changes: Callable[[Path], object]) -> Path:
    """Create a bundle of a changed copy of the group, with tables that match the changes."""
    shutil.copytree(world.group, scratch / "toys")
    for change in changes:
        change(scratch / "toys")
    (group,) = scratch.iterdir()
    write_bundle(group, target, extra={TABLES: tables(group)})
    return target


@pytest.fixture(scope="module")
def bundles(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three honest bundles, a duplicate, and many that are not shown."""
    folder = tmp_path_factory.mktemp("bundles")

    def add(name: str, *changes: Callable[[Path], object]) -> Path:
        return bundled(world, tmp_path_factory.mktemp("copy"), folder / f"{name}.tar.zst", *changes)

    docker = add("in-docker", as_in_docker)
    shutil.copyfile(docker, folder / "the same again.tar.zst")
    local = add("local")
    add("two-seeds", without_silver)
    for name in REJECTED:
        add(name, DECEIVING[name][0])
    (folder / "cut.tar.zst").write_bytes(local.read_bytes()[:-100])
    (folder / HOSTILE_FILE).write_text("nothing of the kind")
    pack(reindexed(members(local), lambda v: v.update(run_group=EVIL)), folder / "evil.tar.zst")
    (folder / "README.md").write_text("Send us your bundles.")
    (folder / ".hidden.tar.zst").write_text("x")
    return folder


def options(world: World) -> list[str]:
    return [f"--data-dir={world.data}", f"--competitions-dir={world.data.parent / 'competitions'}"]


@pytest.fixture(scope="module")
def site(world: World, bundles: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "site"
    assert main(["board", str(bundles), f"--out={out}", "--title=Toys", *options(world)]) == 0
    return out


@pytest.fixture(scope="module")
def data(site: Path) -> Values:
    found: Values = json.loads((site / "board.json").read_text())
    return found


def signing_key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


def own_rows(data: Values) -> list[Values]:
    return [row for row in data["rows"] if row["digest"]]


def test_each_agent_of_an_honest_bundle_has_a_row_and_comparable_rows_are_ranked(data: Values) -> None:
    ranks = [(row["agent"], row["rank"], row["rates"]["any_medal"]["mean"]) for row in own_rows(data)[:3]]
    assert ranks == [("toy/gold", 1, 100.0), ("toy/silver", 1, 100.0), ("toy/no-medal", 3, 0.0)]
    first, *others = own_rows(data)
    assert len(others) == 2 + 3 + 2
    assert (first["split"], first["seeds"], first["data"], first["time"]) == ("toys", 3, "real", "24 h")
    assert first["hardware"] == "36 × Xeon, 440 GiB, 1 × NVIDIA A10"
    assert (first["models"], first["cost_text"]) == ("small", "$0.30")
    assert first["rates"]["gold"]["mean"] == 100 and first["rates"]["silver"]["mean"] == 0
    assert "files are consistent and scores reproduce" in first["verification"]
    assert [row["audit"] for row in own_rows(data)[:2]] == ["3 of 3 runs need a look", "no violation found in 3 runs"]
    assert "who made the bundle: it is not signed" in first["not_checked"]
    assert {line["name"] for line in first["profile"]} >= {"time", "hardware", "external knowledge", "seeds"}
    for row in others[2:]:
        assert row["rank"] is None and "setting: no container: the local sandbox" in row["reasons"]
    two = [row for row in others if row["seeds"] == 2]
    assert {row["agent"] for row in two} == {"toy/gold", "toy/no-medal"}
    assert all("seeds: 2 complete, but at least 3 are needed" in row["reasons"] for row in two)
    assert len({row["digest"] for row in own_rows(data)}) == 3, "a duplicate bundle counts once"
    silver = next(row for row in others if row["agent"] == "toy/silver")
    assert any(text.startswith("some of its runs are in 1 other bundle: ") for text in silver["remarks"])
    assert any(text.startswith("some of its runs are in 2 other bundles: ") for text in first["remarks"])


def test_forged_bundles_are_listed_with_reasons_and_have_no_row(data: Values) -> None:
    rejected = {own["file"].removesuffix(".tar.zst"): own for own in data["rejected"]}
    assert rejected.keys() == {*REJECTED, "cut", "evil", HOSTILE_FILE.removesuffix(".tar.zst")}
    for name, expected in REJECTED.items():
        own = rejected[name]
        assert expected in " ".join([own["verdict"], *own["reasons"]]), own
        assert own["reasons"] and own["digest"] not in {row["digest"] for row in own_rows(data)}
    assert rejected["cut"]["verdict"] == "cannot be read"
    assert rejected["evil"]["run_group"] == EVIL and "differs" in rejected["evil"]["verdict"]


def test_published_results_are_included_as_unverified(data: Values) -> None:
    found = [row for row in data["rows"] if not row["digest"]]
    assert len(found) == sum(len(own.rates) for own in published_results())
    assert {row["verification"] for row in found} == {"reported, not verified"}
    assert all(row["rank"] is None for row in found)
    (peeked,) = (row for row in found if row["agent"] == "LoongFlow" and row["split"] == "low")
    assert peeked["reasons"] == ["test-set feedback"] and peeked["status"] == "apart"


def test_the_same_bundles_give_identical_files_without_local_paths(
    world: World, bundles: Path, site: Path, tmp_path: Path
) -> None:
    before = contents(site)
    files = sorted(map(str, bundles.glob("[!.]*.tar.zst")), reverse=True)
    out = tmp_path / "parent/site"
    assert main(["board", files[0], f"--out={out}", *options(world)]) == 0
    assert contents(out) != before
    assert main(["board", *files, f"--out={out}", "--title=Toys", *options(world)]) == 0
    assert contents(out) == before, "in any order, and when replacing another board"
    assert list(out.parent.iterdir()) == [out]
    for name, text in before.items():
        assert str(bundles).encode() not in text and b"mlebench-board-" not in text, name
        assert str(world.data).encode() not in text, name


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def test_each_bundle_has_a_page_of_its_verification_and_each_row_a_report(site: Path, data: Values) -> None:
    for own in [*own_rows(data), *data["rejected"]]:
        if own["digest"]:
            text = (site / f"bundles/{own['digest']}.html").read_text()
            assert own["digest"] in text and "Not checked" in text
    for row in own_rows(data):
        report = (site / f"reports/{row['digest']}.html").read_text()
        assert f"From the bundle {row['digest'][:12]}, verified" in report and "Audit: " in report
    assert {path.stem for path in (site / "reports").iterdir()} == {row["digest"] for row in own_rows(data)}
    assert set(data["files"]) == contents(site).keys()


def test_a_report_on_a_board_starts_without_text_by_the_submitter(world: World, tmp_path: Path) -> None:
    def claims(group: Path) -> None:
        in_manifest(lambda v: v["options"].update({"--title": "Verified by OpenAI", "--note": "The best agent"}))(group)

    made = bundled(world, tmp_path / "copy", tmp_path / "b.tar.zst", claims)
    assert main(["board", str(made), f"--out={tmp_path / 'site'}", *options(world)]) == 0
    (report,) = (tmp_path / "site/reports").iterdir()
    assert "Verified by OpenAI" not in report.read_text() and "The best agent" not in report.read_text()


# In a browser.


def shown(tab: Tab) -> list[str]:
    """Agents of the visible rows, from top to bottom."""
    found: list[str] = tab.see(
        "[...document.querySelectorAll('#board tbody tr')].filter(row => row.offsetHeight)"
        ".map(row => row.querySelector('th').firstChild.textContent.trim())"
    )
    return found


def click(tab: Tab, selector: str) -> None:
    tab.see(f"document.querySelector({selector!r}).click()")


def test_a_reader_sorts_searches_and_filters_without_a_server(site: Path, open_tab: Open) -> None:
    tab = open_tab((site / "index.html").as_uri())
    reported = sum(len(own.rates) for own in published_results() if own.comparable and own.hours == 24)
    assert len(shown(tab)) == 3 + reported, "rows that are not comparable are hidden"
    assert "not comparable and hidden" in tab.see("document.getElementById('count').textContent")
    tab.see("document.forms[0].elements.split.value = 'toys'; document.forms[0].dispatchEvent(new Event('input'))")
    assert shown(tab) == ["toy/gold", "toy/silver", "toy/no-medal"]
    click(tab, "[name=apart]")
    assert len(shown(tab)) == 8
    tab.see("document.querySelector('[name=text]').focus()")
    tab.type("no-medal docker")
    assert shown(tab) == []
    tab.see("document.querySelector('[name=text]').value = ''")
    tab.type("silver")
    assert set(shown(tab)) == {"toy/silver"} and len(shown(tab)) == 2
    click(tab, "[type=reset]")
    tab.wait("location.hash === '#results'")
    assert len(shown(tab)) == 3 + reported
    click(tab, "th.any_medal button")
    assert tab.see("document.querySelector('th.any_medal').ariaSort") == "descending"
    rates = tab.see("[...document.querySelectorAll('#board tbody tr:not([hidden]) .any_medal')].map(c => +c.dataset.v)")
    assert rates == sorted(rates, reverse=True)
    click(tab, "th.any_medal button")
    assert shown(tab)[0] in ("toy/no-medal", "MLAB") and "toy/gold" in shown(tab)[-2:]
    click(tab, "th.agent button")
    assert shown(tab) == sorted(shown(tab), key=str.casefold) and "sort=agent" in tab.see("location.hash")
    click(tab, "[name=unreported]")
    assert shown(tab) == ["toy/gold", "toy/no-medal", "toy/silver"]
    tab.go((site / "index.html").as_uri() + "#split=toys&apart=1&sort=-any_medal")
    tab.wait("document.querySelector('[name=apart]').checked")
    assert len(shown(tab)) == 8
    click(tab, "#board tbody tr:not([hidden]) summary")
    assert "external knowledge" in tab.see("document.querySelector('details[open]').innerText")
    assert tab.errors == [] and tab.see("window.owned") is None
    assert all(url.startswith("file:") for url in tab.requests)


def test_links_lead_to_the_report_of_an_agent_and_to_the_verification(site: Path, open_tab: Open) -> None:
    tab = open_tab((site / "index.html").as_uri() + "#split=toys")
    click(tab, "#board tbody tr:not([hidden]) .links a")
    tab.wait("location.pathname.includes('/reports/') && document.readyState === 'complete'")
    assert tab.see("document.querySelectorAll('#table tbody tr:not(.group):not([hidden])').length") == 3
    tab.go((site / "index.html").as_uri())
    click(tab, "#board tbody tr:not([hidden]) .links a:last-child")
    tab.wait("location.pathname.includes('/bundles/') && document.readyState === 'complete'")
    assert "What was checked" in tab.see("document.body.innerText")
    assert tab.errors == []


def test_without_scripts_it_is_a_plain_table_with_every_row(site: Path, data: Values, open_tab: Open) -> None:
    tab = open_tab((site / "index.html").as_uri(), scripts=False)
    assert len(shown(tab)) == len(data["rows"])
    assert tab.see("document.getElementById('filters').offsetHeight") == 0
    text = tab.see("document.body.innerText")
    assert "reported, not verified" in text and "not comparable" in text and EVIL in text and HOSTILE_FILE in text
    assert tab.see("document.images.length") == 0


def test_pages_are_accessible_and_fit_a_phone(site: Path, data: Values, open_tab: Open) -> None:
    digest = own_rows(data)[0]["digest"]
    for place in ("index.html#apart=1", f"bundles/{digest}.html"):
        tab = open_tab((site / place.partition("#")[0]).as_uri() + place[len(place.partition("#")[0]) :])
        assert violations_anywhere(tab) == [], place
        assert tab.see("document.documentElement.scrollWidth") <= 390, place
        assert tab.errors == [], place


# Mistakes on the command line.


def mistakes(world: World, bundles: Path, tmp_path: Path) -> Iterator[tuple[list[str], str]]:
    bundle = str(bundles / "local.tar.zst")
    out = f"--out={tmp_path / 'site'}"
    (tmp_path / "own").mkdir()
    (tmp_path / "own/thesis.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "own")
    (tmp_path / "empty").mkdir()
    forged = tmp_path / "forged"
    forged.mkdir()
    (forged / "board.json").write_text('{"format": "pytest-mlebench board", "files": ["board.json"]}')
    (forged / "thesis.txt").write_text("x")
    yield [bundle, f"--out={tmp_path / 'own'}"], "own is not a leaderboard of `mlebench board`"
    yield [bundle, f"--out={forged}"], "has a file that is not part of the leaderboard, thesis.txt"
    yield [bundle, f"--out={tmp_path / 'file'}"], "file is not a folder"
    yield [bundle, f"--out={tmp_path / 'link'}"], "link is a link"
    yield [bundle, f"--out={tmp_path / 'file/site'}"], "cannot be"
    yield [str(tmp_path / "nowhere"), out], "file or folder not found"
    yield [str(tmp_path / "empty"), out], "empty has no bundle"
    yield [str(world.group), out], "toys is a run group: pack it with `mlebench bundle`"
    yield [bundle, out, "--max-size=lots"], "--max-size: 'lots' is not a size"


def test_a_mistake_prints_one_line_and_changes_nothing(
    world: World, bundles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, expected in mistakes(world, bundles, tmp_path):
        capsys.readouterr()
        assert main(["board", *words, *options(world)]) == 2, words
        errors = capsys.readouterr().err.strip().splitlines()
        assert expected in errors[-1] and "Traceback" not in "".join(errors), errors
        assert not (tmp_path / "site").exists()
    assert (tmp_path / "own/thesis.txt").read_text() == "x" and (tmp_path / "forged/thesis.txt").is_file()


def test_a_bundle_that_is_too_large_is_listed(world: World, bundles: Path, tmp_path: Path) -> None:
    words = [str(bundles / "local.tar.zst"), f"--out={tmp_path / 'site'}", "--max-size=1k"]
    assert main(["board", *words, *options(world)]) == 0
    (own,) = json.loads((tmp_path / "site/board.json").read_text())["rejected"]
    assert own["verdict"] == "cannot be read" and "at most 1 KiB are allowed" in own["reasons"][0]


def test_a_bundle_whose_data_is_missing_has_a_reason_and_no_row(
    bundles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(bundles / "local.tar.zst"), f"--out={tmp_path / 'site'}", f"--data-dir={tmp_path / 'none'}"]
    assert main(["board", *words]) == 0
    assert "not shown: local.tar.zst" in capsys.readouterr().out
    found = json.loads((tmp_path / "site/board.json").read_text())
    assert own_rows(found) == [] and found["rejected"][0]["verdict"]


def test_bench_creates_a_board(world: World, bundles: Path, tmp_path: Path) -> None:
    bench = Bench(data_dir=world.data, competitions_dir=world.data.parent / "competitions")
    rows, rejected = bench.board([bundles / "in-docker.tar.zst"], tmp_path / "site")
    assert [row.rank for row in rows if row.digest] == [1, 1, 3] and rejected == []
    with pytest.raises(UsageError, match="no bundle"):
        bench.board([tmp_path / "site/reports"], tmp_path / "other")


def test_a_copy_with_a_wrong_signature_does_not_take_the_place_of_an_honest_bundle(
    world: World, bundles: Path, tmp_path: Path
) -> None:
    index, *others = members(bundles / "local.tar.zst")
    (tmp_path / "in").mkdir()
    pack([index, ("index.json.sig", b"nothing of the kind"), *others], tmp_path / "in/a.tar.zst")
    shutil.copyfile(bundles / "local.tar.zst", tmp_path / "in/b.tar.zst")
    assert main(["board", str(tmp_path / "in"), f"--out={tmp_path / 'site'}", *options(world)]) == 0
    found = json.loads((tmp_path / "site/board.json").read_text())
    assert len(own_rows(found)) == 3 and found["rejected"] == []
    assert main(["board", str(tmp_path / "in/a.tar.zst"), f"--out={tmp_path / 'site'}", *options(world)]) == 0
    (own,) = json.loads((tmp_path / "site/board.json").read_text())["rejected"]
    assert "signature: the signature does not match the index" in own["reasons"][0]
    assert tempfile.gettempdir() not in own["reasons"][0]


def test_only_bundles_of_allowed_signers_are_shown_if_they_are_named(
    world: World, bundles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    signer, stranger = (signing_key(tmp_path / name) for name in ("ours", "theirs"))
    (tmp_path / "signers").write_text(f"us@example.org {signer.with_suffix('.pub').read_text()}")
    (tmp_path / "in").mkdir()
    for key, name in ((signer, "signed"), (stranger, "strange")):
        out = tmp_path / f"in/{name}.tar.zst"
        assert main(["bundle", str(world.group), f"--sign={key}", "-o", str(out), *options(world)]) == 0
    shutil.copyfile(bundles / "local.tar.zst", tmp_path / "in/unsigned.tar.zst")
    words = [str(tmp_path / "in"), f"--out={tmp_path / 'site'}", f"--allowed-signers={tmp_path / 'signers'}"]
    assert main(["board", *words, *options(world)]) == 0
    found = json.loads((tmp_path / "site/board.json").read_text())
    assert len({row["digest"] for row in own_rows(found)}) == 1
    reasons = {own["file"]: own["reasons"][0] for own in found["rejected"]}
    assert "it is not signed" in reasons["unsigned.tar.zst"]
    (tmp_path / "in/signed.tar.zst").unlink()
    assert main(["board", *words, *options(world)]) == 0
    found = json.loads((tmp_path / "site/board.json").read_text())
    reasons = {own["file"]: own["reasons"][0] for own in found["rejected"]}
    assert not own_rows(found) and "not among the allowed signers" in reasons["strange.tar.zst"]
    assert main(["board", *words[:2], f"--allowed-signers={tmp_path / 'none'}", *options(world)]) == 2
    assert "--allowed-signers: file not found" in capsys.readouterr().err


def test_a_bundle_that_causes_an_exception_does_not_break_the_site(
    world: World, bundles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise KeyError("anything")

    monkeypatch.setattr("pytest_mlebench.extras.bundles.board.build.rows_of", breaks)
    assert main(["board", str(bundles / "local.tar.zst"), f"--out={tmp_path / 'site'}", *options(world)]) == 0
    (own,) = json.loads((tmp_path / "site/board.json").read_text())["rejected"]
    assert own["verdict"] == "its results cannot be shown" and own["reasons"] == ["KeyError: 'anything'"]
    text = (tmp_path / "site/index.html").read_text()
    links = re.findall(r'href="([^"#]+?)(?:#[^"]*)?"', text)
    assert links and all((tmp_path / "site" / link).is_file() for link in links)
