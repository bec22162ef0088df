"""The HTML reports of a session: its own, and pytest-html's if requested."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.reports.browser import Open, Tab

pytestmark = pytest.mark.full

TOYS = Path(__file__).parents[1] / "toys"
WORDS = ["gold", "silver", "no medal", "invalid submission", "crashed"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session's folder with several outcomes. Two scores would be in the wrong order if sorted as text."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(TOYS, folder, dirs_exist_ok=True)
    command = [sys.executable, "-m", "pytest", "competitions", "-p", "no:cacheprovider"]
    agents = [f"toy/{name}" for name in ("gold", "silver", "no-medal", "nonsense", "crashes")]
    command += [f"{option}={agent}" for agent in agents for option in ("--agent", "--trust-agent")]
    command += ["--agents-dir=agents", "--data-dir=data", "--sandbox=local", "--run-group=g"]
    command += ["--title=The five toys", "--note=For the five of us"]
    command += ["--html=other.html", "--self-contained-html"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    subprocess.run(command, cwd=folder, env=environment, check=False, timeout=300)
    return folder


def text_of(tab: Tab) -> str:
    text: str = tab.see("document.body.innerText")
    return text


def column(tab: Tab, name: str) -> list[str]:
    """The cells of a column in pytest-html's table, from top to bottom, without the hidden sort keys."""
    cells: list[str] = tab.see(f"[...document.querySelectorAll('td.col-{name}')].map(cell => cell.innerText.trim())")
    return cells


def test_a_session_leaves_a_page_with_every_run(project: Path, open_tab: Open) -> None:
    tab = open_tab((project / "reports/g/report.html").as_uri())
    rows = tab.see("[...document.querySelectorAll('#table tbody tr')].map(row => row.innerText.split('\\t'))")
    assert rows.pop(0)[0].startswith("toy-parity")
    assert sorted(row[0].strip() for row in rows) == sorted(WORDS)
    assert sorted(row[3].strip() for row in rows) == ["0.50000", "0.85000", "1.00000", "–", "–"]
    assert tab.see("document.title") == "The five toys · MLE-bench"
    assert "For the five of us" in text_of(tab) and "toy/gold earned a gold medal on toy-parity" in text_of(tab)
    links = tab.see("[...document.querySelectorAll('.files a')].map(link => link.href)")
    assert len(links) >= 10 and all(Path(unquote(urlsplit(link).path)).exists() for link in links)
    text = tab.see("document.body.textContent")
    assert "about to crash" in text and "exit code 3" in text and "column 'id' is missing" in text
    assert tab.errors == []


def test_pytest_html_shows_every_run_with_its_medal_score_and_log(project: Path, open_tab: Open) -> None:
    tab = open_tab((project / "other.html").as_uri())
    assert sorted(column(tab, "medal")) == sorted(WORDS)
    assert sorted(column(tab, "score")) == ["-", "-", "0.50000", "0.85000", "1.00000"]
    assert set(column(tab, "competition")) == {"toy-parity"}
    assert "crashed (exit code 3)" in column(tab, "ended")
    text = tab.see("document.body.textContent")
    assert "about to crash" in text and "column 'id' is missing" in text
    assert "any medal" in text and tab.see("document.querySelectorAll('.plot svg').length") >= 4
    assert tab.errors == []


def test_pytest_html_sorts_columns_by_value(project: Path, open_tab: Open) -> None:
    url = (project / "other.html").as_uri()
    scores = [float(score) for score in column(open_tab(f"{url}?sort=score"), "score") if score != "-"]
    assert len(scores) == 3 and scores in (sorted(scores), sorted(scores, reverse=True))
    assert column(open_tab(f"{url}?sort=medal"), "medal") in (WORDS, WORDS[::-1])


def test_the_reports_are_self_contained(project: Path) -> None:
    for report in ("reports/g/report.html", "other.html"):
        text = (project / report).read_text()
        assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(?!data:)[^"]+"', text)
