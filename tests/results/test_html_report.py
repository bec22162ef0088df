"""The HTML report in a real browser."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOYS = Path(__file__).parents[1] / "toys"


@pytest.fixture(scope="module")
def browser() -> str:
    found = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("this test needs chromium")
        pytest.skip("no chromium here")
    return found


@pytest.fixture
def report(pytester: pytest.Pytester) -> Path:
    """The report of runs that end in several ways, two of them with scores that text would sort wrongly."""
    shutil.copytree(TOYS, pytester.path, dirs_exist_ok=True)
    agents = [f"--agent=toy/{name}" for name in ("gold", "silver", "no-medal", "nonsense", "crashes")]
    pytester.runpytest_subprocess(
        "competitions", "--agents-dir=agents", "--data-dir=data", "--sandbox=local", "--run-group=g", *agents
    )
    return pytester.path / "reports/g/report.html"


def rendered(browser: str, url: str, tmp_path: Path) -> str:
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
    ]
    command += ["--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path}/profile"]
    done = subprocess.run(
        [*command, "--virtual-time-budget=3000", "--dump-dom", url],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout


def column(dom: str, name: str) -> list[str]:
    """What a column shows, from top to bottom, without the hidden keys that it sorts by."""
    cells = re.findall(rf'<td class="col-{name}[^"]*">(.*?)</td>', dom)
    return [re.sub("<[^>]+>", "", re.sub("<span hidden[^>]*>.*?</span>", "", cell)) for cell in cells]


def test_every_run_has_a_row_with_its_medal_score_and_log(browser: str, report: Path, tmp_path: Path) -> None:
    dom = rendered(browser, report.as_uri(), tmp_path)
    assert sorted(column(dom, "medal")) == ["crashed", "gold", "invalid submission", "no medal", "silver"]
    assert sorted(column(dom, "score")) == ["-", "-", "0.50000", "0.85000", "1.00000"]
    assert set(column(dom, "competition")) == {"toy-parity"}
    assert "crashed (exit code 3)" in column(dom, "ended")
    assert "about to crash" in dom and "column 'id' is missing" in dom.replace("&#x27;", "'")
    assert "Any medal" in dom


def test_columns_sort_by_value(browser: str, report: Path, tmp_path: Path) -> None:
    dom = rendered(browser, f"{report.as_uri()}?sort=score", tmp_path)
    scores = [float(score) for score in column(dom, "score") if score != "-"]
    assert len(scores) == 3 and scores in (sorted(scores), sorted(scores, reverse=True))
    medals = column(rendered(browser, f"{report.as_uri()}?sort=medal", tmp_path), "medal")
    assert medals in (order := ["gold", "silver", "no medal", "invalid submission", "crashed"], order[::-1])


def test_the_page_needs_nothing_but_itself(report: Path) -> None:
    text = report.read_text()
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(?!data:)[^"]+"', text)
