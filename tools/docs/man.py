"""``python -m tools.docs.man`` writes docs/mlebench.1, the man page that the wheel installs."""

from __future__ import annotations

from pathlib import Path

from pytest_mlebench.cli import main
from pytest_mlebench.options import TOPICS
from tools.docs.reference import help_of, sentence
from tools.docs.variables import VARIABLES

FILE = Path(__file__).parents[2] / "docs" / "mlebench.1"
_SHOWN = ("MLEBENCH_DATA_DIR", "OPENAI_BASE_URL", "KAGGLE_CONFIG_DIR", "MLEBENCH_SLURM_SECONDS")
_EXAMPLES = (
    ("pytest --agent=baseline --split=smoke -n 2", "Run the bundled baseline on three small competitions."),
    ("mlebench prepare --lite", "Download and prepare the 22 low-complexity competitions."),
    ("mlebench report last", "Print the medal table of the latest run group."),
)


def page() -> str:
    """The page in man(7) format: all commands by topic."""
    parser, _ = main.parser_and_commands()
    lines = [
        '.TH MLEBENCH 1 "" "pytest-mlebench" "User Commands"',
        ".SH NAME",
        r"mlebench \- run MLE-bench, a benchmark of machine-learning agents, as a pytest suite",
        ".SH SYNOPSIS",
        r".B mlebench",
        r"[\fB\-h\fR] [\fB\-\-version\fR] \fICOMMAND\fR ...",
        ".PP",
        r".B pytest",
        r"\fB\-\-agent\fR=\fIID\fR [\fB\-\-split\fR=\fINAME\fR] [\fIOPTION\fR ...]",
        ".SH DESCRIPTION",
        _text("pytest runs agents and checks competitions. mlebench prepares data, reads results and helps authors."),
        _text("`pytest --help` lists the options of runs, and `mlebench COMMAND --help` those of a command."),
        ".SH COMMANDS",
    ]
    for topic, (_, names) in TOPICS.items():
        lines += [f".SS {topic}"] if names else []
        for name in names.split():
            lines += [".TP", rf"\fBmlebench {_text(name)}\fR", _text(sentence(help_of(parser, name)))]
    lines.append(".SH ENVIRONMENT")
    for name in _SHOWN:
        if name in VARIABLES:
            lines += [".TP", f".B {name}", _text(VARIABLES[name].replace("`", ""))]
    lines += [".SH EXIT STATUS", "0 for success, 1 for a failure, 2 for invalid arguments.", ".SH EXAMPLES"]
    for command, meaning in _EXAMPLES:
        lines += [".TP", rf"\fB{_text(command)}\fR", _text(meaning)]
    return "\n".join([*lines, ".SH SEE ALSO", r".BR pytest (1)", ""])


def _text(text: str) -> str:
    """Escape a text so that no line is a request to the formatter."""
    return text.replace("\\", r"\e").replace("-", r"\-").replace("`", "")


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
