"""``mlebench trajectory``, and its display of untrusted content."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.cli.main import main
from pytest_mlebench.llm.trajectory import TRAJECTORY
from pytest_mlebench.reports.run_details import PAGE, blocks, markdown, page
from tests.llm.atif import problems
from tests.llm.test_trajectory import agent, recorded, user

HOSTILE = (
    "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[2J\x1b]0;title\x07\x9b31m\r"
    "```\n# heading\n\u202egnp.exe\x00 {{ x }} <!-- &lt; "
)


def test_each_result_of_a_step_is_shown_once_for_any_ids() -> None:
    calls = [{"tool_call_id": "1", "function_name": "bash", "arguments": {}}] * 300
    results = [{"source_call_id": "1", "content": "said"}] * 300
    others = [{"source_call_id": id, "content": "more"} for id in (None, 1, ["1"])]
    shown = list(blocks({"tool_calls": calls, "observation": {"results": [*results, *others]}}))
    assert [text for title, text in shown if title == "result"] == ["said"] * 300 + ["more"] * 3
    assert len(shown) == 603


def example(text: str = "Let us look.") -> dict[str, Any]:
    call = {"tool_call_id": "1", "function_name": text, "arguments": {"command": text}}
    metrics = {"prompt_tokens": 1200, "completion_tokens": 90, "cost_usd": 0.0021}
    answer = {"step_id": 2, "source": "agent", "message": text, "reasoning_content": text, "model_name": text}
    observation = {"results": [{"source_call_id": "1", "content": text}]}
    steps = [
        {"step_id": 1, "source": "user", "message": text, "timestamp": "2026-03-01T12:00:05+00:00"},
        {**answer, "tool_calls": [call], "observation": observation, "metrics": metrics},
    ]
    about = {"name": text, "version": text, "model_name": text}
    other = {"trajectory_id": text, "agent": about, "steps": steps[:1]}
    whole: dict[str, Any] = {"session_id": text, "agent": about, "steps": steps, "notes": text}
    found = {"schema_version": "ATIF-v1.8", **whole, "subagent_trajectories": [other]}
    assert problems(found) == []
    return found


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]


def test_the_text_has_steps_with_calls_and_results() -> None:
    lines = markdown(example()).splitlines()
    assert "### 1 user · 2026-03-01 12:00:05" in lines
    assert "### 2 agent · Let us look. · 1,200 tokens in, 90 out, $0.0021" in lines
    assert lines.count("    Let us look.") == 6
    assert "calls `Let us look.`:" in lines and "result:" in lines and "reasoning:" in lines


def test_the_headline_counts_all_conversations() -> None:
    found = example()
    (other,) = found["subagent_trajectories"]
    found["final_metrics"] = {"total_prompt_tokens": 1200, "total_completion_tokens": 90, "total_cost_usd": 0.5}
    other["final_metrics"] = {"total_prompt_tokens": 300, "total_cost_usd": 0.25}
    said = "2 conversations, 3 steps, 1,500 tokens in, 90 out, cost $0.75; first conversation:"
    assert said in markdown(found).splitlines() and f"<p>{said} 2 steps, " in page(found)
    del other["final_metrics"]
    assert "2 conversations, 3 steps, 1,200 tokens in, 90 out, cost unknown; first conversation:" in markdown(found)
    del found["subagent_trajectories"]
    assert "conversation" not in markdown(found) and "\n2 steps, 1,200 tokens in" in markdown(found)


def test_messages_do_not_control_the_terminal_and_are_not_markdown() -> None:
    text = markdown(example(HOSTILE))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert not re.search(r"^# heading", text, re.M) and not re.search("^```", text, re.M)


def test_messages_are_only_text_in_the_page() -> None:
    found, plain = _Tags(), _Tags()
    found.feed(page(example(HOSTILE)))
    plain.feed(page(example()))
    assert found.tags == plain.tags and found.attributes == plain.attributes
    assert "script" not in found.tags and not {"src", "href", "onerror", "onclick"} & {*found.attributes}
    assert "default-src 'none'" in page(example())


def test_a_page_is_bounded_and_reports_omissions() -> None:
    long = example()
    long["steps"] = [{"step_id": n, "source": "user", "message": "<" * 100_000} for n in range(1, 1000)]
    assert PAGE <= len(text := page(long)) < PAGE + 500_000
    assert re.search(r"\d+ more steps omitted: see trajectory.json", text)


@pytest.mark.parametrize(
    "odd",
    [{"steps": []}, {"steps": [1, None, {}], "agent": 3}, {"steps": [{"tool_calls": [{}], "observation": 4}]}],
)
def test_an_invalid_trajectory_is_shown_as_far_as_possible(odd: dict[str, Any]) -> None:
    assert markdown(odd) and page(odd)


def test_the_command_finds_a_run_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path / "group/run-1", ([user("What now?")], "A tree."))
    (tmp_path / "group/run-2").mkdir()
    (tmp_path / "group/run-2" / TRAJECTORY).write_text(json.dumps(example()))
    for name in ("run-1", "group/run-1", str(tmp_path / "group/run-1")):
        assert main(["trajectory", name, "--runs-dir", str(tmp_path)]) == 0
        assert "    A tree." in capsys.readouterr().out.splitlines()
    assert main(["trajectory", "run-2", "--runs-dir", str(tmp_path), "--format=atif"]) == 0
    assert json.loads(capsys.readouterr().out) == example()
    assert (
        main(["trajectory", "run-2", "--runs-dir", str(tmp_path), "--format=html", "-o", str(tmp_path / "p.html")]) == 0
    )
    assert (tmp_path / "p.html").read_text().startswith("<!doctype html>")


def test_the_command_accepts_a_group_with_one_run_and_lists_several(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path / "group/run-1", ([user("What now?")], "A tree."))
    for name in ("manifest.json", "run-1/run.json", "run-1/run.log"):
        (tmp_path / "group" / name).write_text("{}")
    for name in ("group", "last", str(tmp_path / "group"), str(tmp_path / "group/run-1")):
        assert main(["trajectory", name, "--runs-dir", str(tmp_path)]) == 0
        assert "    A tree." in capsys.readouterr().out.splitlines()
    (tmp_path / "group/run-2").mkdir()
    (tmp_path / "group/run-2/run.json").write_text("{}")
    assert main(["trajectory", "last", "--runs-dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err.rstrip().endswith("group/run-1 (run-1, run-2)")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "has no trajectory: its agent made no model calls through the gateway"),
        ("{", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        (
            f'{{"steps": [], "final_metrics": {{"total_cost_usd": {10**400}}}}}',
            "cannot be read: it has a number of 401",
        ),
        ('{"steps": 1}', "is not a trajectory: it has no steps"),
    ],
)
def test_missing_data_gives_a_one_line_error(
    content: str | None,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "group/run").mkdir(parents=True)
    if content is not None:
        (tmp_path / "group/run" / TRAJECTORY).write_text(content)
    assert main(["trajectory", "run", "--runs-dir", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert main(["trajectory", "nothing", "--runs-dir", str(tmp_path)]) == 2
    assert "run nothing does not exist" in capsys.readouterr().err


def test_a_trajectory_that_is_too_large_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "group/run").mkdir(parents=True)
    with (tmp_path / "group/run" / TRAJECTORY).open("wb") as file:
        file.truncate((256 << 20) + 1)
    assert main(["trajectory", "run", "--runs-dir", str(tmp_path)]) == 2
    assert "cannot be read: it has more than 268,435,456 bytes" in capsys.readouterr().err


def test_a_repeated_response_is_shown_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path / "g/r", ([user("a")], "b"), ([user("a"), agent("b"), user("c")], "d"))
    assert main(["trajectory", "r", "--runs-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines().count("    b") == 1
