"""Each command in the documentation works: it runs in a project like a reader's, or is at least parsed.

``RULES`` lists the commands that are not run, with reasons: `pytest --full tests/docs -rs` shows them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from pytest_mlebench.cli import main
from tests.docs.pages import ROOT, Command, commands, pages

pytestmark = pytest.mark.full
RUN, COLLECT, PARSE, LEAVE = "run", "collect", "parse", "leave"
RULES = (
    (r"python3 -m venv|pip install", LEAVE, "it installs this project; CI does so from a bare machine"),
    (r"pytest -n 2$|pytest --full|^\.ci/|^pre-commit", LEAVE, "it runs these tests"),
    (r"^mkdocs (build|serve)", LEAVE, "test_site.py builds the site"),
    (r"competitions/leaves|-c leaves", LEAVE, "tests/examples/test_image_competition.py runs it"),
    (r"^export ", LEAVE, "it sets a variable of the reader's shell"),
    (
        r"(^| )pytest .*--cluster=(slurm|ray)",
        COLLECT,
        "it needs a cluster; tests/cluster has a real Slurm and Ray",
    ),
    (r"(^| )pytest .*--data-source=s3:", COLLECT, "it needs a bucket; tests/data has a real S3 server"),
    (r"(^| )pytest .*--real-data", COLLECT, "it needs data from Kaggle"),
    (r"--data=twin:7:micro|^mlebench prepare .*--data=twin:7", RUN, ""),
    (r"(^| )pytest .*--data=twin", COLLECT, "it generates twins; tests/plugin and tests/competitions test this"),
    (r"tools\.twins", LEAVE, "it measures for minutes"),
    (r"(^| )pytest .*--split=(lite|low|all|dev)|pytest .*-k spaceship", COLLECT, "it needs data from Kaggle"),
    (
        r"(^| )pytest .*--agent=(react|aide|codex|one-program|improver)|--llm-replay",
        COLLECT,
        "it needs a model; tests/llm has scripted ones",
    ),
    (r"(^| )pytest .*--sandbox=(docker|podman|apptainer)", COLLECT, "it needs containers; tests/sandbox runs some"),
    (r"(^| )pytest .*--min-medal", COLLECT, "the agent of these tests earns no medal; tests/plugin has one that does"),
    (r"--llm-providers=", LEAVE, "it needs model endpoints; tests/llm/test_endpoints_page.py has those of the page"),
    (r"^mlebench trajectory", PARSE, "it needs a model's recording; tests/reports and tests/cli have one"),
    (
        r"^mlebench ((prepare|leaderboard|kernels) --lite|prepare -c spaceship)",
        PARSE,
        "it calls Kaggle; tests/data has a fake Kaggle server",
    ),
    (r"^mlebench report .*--bench-version=2", PARSE, "there is no group of version 2 here"),
    (r"^mlebench (push|export .*--data-source=)", PARSE, "it needs a bucket; tests/data and tests/interop have one"),
    (r"^mlebench grade-sample .*spaceship", PARSE, "it needs data from Kaggle"),
    (r"^mlebench (build|clean)", PARSE, "it changes this machine's container runtime; tests/sandbox tests it"),
    (r"^mlebench export .*--to=(otlp|mlflow|wandb)", PARSE, "it needs a tracker; tests/interop has real ones"),
    (r"^mlebench export .*--to=harbor -o real", PARSE, "it needs data from Kaggle; tests/interop has a substitute"),
    (r"^mlebench import|reports/harbor", PARSE, "it needs a Harbor job; tests/interop has a real one"),
    (r"^mlebench serve-episodes", PARSE, "it serves until it is stopped; tests/training/test_server.py tests it"),
    (r"^mlebench familiarity", PARSE, "it needs a model; tests/audit has a scripted one"),
    (r"^mlebench audit .*--judge", PARSE, "it needs a model; tests/audit has a scripted one"),
    (r"^mlebench audit .*--plagiarism", PARSE, "it needs notebooks from Kaggle; tests/audit has substitutes"),
    (r"--digest=SHA256|^mlebench reproduce runs", PARSE, "its bundle is from someone else; tests/audit has some"),
    (r"^mlebench view .*--open", PARSE, "it opens a browser"),
    (r"^mlebench board bundles", PARSE, "there is no folder of bundles here; tests/audit has one"),
    (r"^mlebench reproduce", PARSE, "it needs the competition's data and takes minutes; tests/audit tests it"),
)
"""How commands that are not run are tested, and why. The first matching expression counts."""
EMPTY = ("docs/start.md",)
"""Pages whose readers do not have their own agents and competitions yet."""
WORDS = {
    "GROUP": "first",
    "OTHER": "second",
    "ID": "smoke-diabetes",
    "DIR": "plots",
    "TEXT": "Text",
    "FILE": "found.tar.zst",
}
"""Values that a reader would write instead of a word in capital letters."""
KEY = "sk-not-a-real-key"
_ASSIGNMENT = re.compile(r"(\w+)=(.*)")


def rule(text: str) -> tuple[str, str]:
    """How a command is tested, and why it is not tested further."""
    return next(((how, why) for pattern, how, why in RULES if re.search(pattern, text)), (RUN, ""))


def found(command: Command, text: str) -> tuple[str, str]:
    """The rule of a part of a line: that of the whole line if the line is not to be tested."""
    whole = rule(command.text)
    return whole if whole[0] == LEAVE else rule(text)


def parts(command: Command) -> list[str]:
    """The commands in a line, with words in capital letters replaced."""
    text = re.sub(r"(?<![\w$/.=-])[A-Z]{2,}(?![\w.=])|(?<==)[A-Z]{2,}(?![\w.])", _replaced, command.text)
    return [part.strip() for part in text.split(" && ")]


def _replaced(found: re.Match[str]) -> str:
    return WORDS.get(found[0], found[0])


ALL = commands()
SHOWN = [(command, part) for command in ALL for part in parts(command)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A user's home with a project that has custom agents and some run groups, and nothing from this machine's user."""
    home = tmp_path_factory.mktemp("docs")
    folder = home / "project"
    agents = home / "agents/mine"
    folder.mkdir()
    agents.mkdir(parents=True)
    (agents / "config.yaml").write_text(
        "mine: &mine\n  start: mine/start.sh\n  dockerfile: mine/Dockerfile\n  trusted: true\nmine/fast: *mine\n"
    )
    (agents / "Dockerfile").write_text("FROM mlebench-env\nCOPY . ${AGENT_DIR}\n")
    (agents / "start.sh").write_text('cp "$DATA_DIR/sample_submission.csv" "$SUBMISSION_DIR/submission.csv"\n')
    for name in ("agents", "competitions"):
        shutil.copytree(ROOT / "examples" / name, folder / name)
    shutil.copytree(agents, folder / "agents/mine")
    (folder / "pytest.ini").write_text(
        f"[pytest]\nmlebench_agents_dir = {home}/agents\nmlebench_sandbox = local\n"
        "mlebench_trust_agent = mine mine/fast three-lines one-program improver improver/dev\n"
        "addopts = -p no:cacheprovider\n"
    )
    disk = shutil.disk_usage(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLEBENCH_DATA_DIR", str(home / "data"))
        patch.setenv("HOME", str(home))
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1")  # no command that runs calls a model
        patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        for name in ("MLEBENCH_DATA_SOURCE", "PYTEST_XDIST_WORKER"):
            patch.delenv(name, raising=False)
        typed("pytest -q --agent=mine -k digits --run-group=first", folder)
        (run,) = (folder / "reports/first").glob("*/run.json")
        for name in ("second", "recorded"):
            shutil.copytree(run.parents[1], folder / "reports" / name)
        shutil.copy(run.parent / "submission/submission.csv", folder / "submission.csv")
        line = {"competition_id": "smoke-digits", "submission_path": "submission.csv"}
        (folder / "subs.jsonl").write_text(json.dumps(line) + "\n")
        # `mlebench doctor` fails on a nearly full disk, which is unrelated to the pages.
        patch.setattr(shutil, "disk_usage", lambda folder: disk._replace(free=1 << 40))
        patch.setitem(WORDS, "RUN", f"reports/first/{run.parent.name}")
        typed("mlebench bundle first -o ../result.tar.zst", folder)
        yield home


def typed(text: str, folder: Path, *more: str) -> str:
    """Run a command, which must succeed, and return its output."""
    words = [*shlex.split(text), *more]
    variables = dict(os.environ)
    while assigned := _ASSIGNMENT.fullmatch(words[0]):
        variables[assigned[1]] = KEY if assigned[2] == "…" else assigned[2]
        del words[0]
    done = subprocess.run(
        words, cwd=folder, env=variables, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def called(text: str, folder: Path) -> None:
    """Call ``mlebench`` in this process, because starting Python is slower than most commands. It must succeed."""
    printed = StringIO()
    with chdir(folder), redirect_stdout(printed), redirect_stderr(printed):
        status = main.main(shlex.split(text)[1:])
    assert status == 0, f"{text}\n{printed.getvalue()[-2000:]}"


def served(text: str, folder: Path) -> None:
    """Start a command that runs until it is interrupted, and wait for its first output."""
    pipe = subprocess.PIPE
    with subprocess.Popen(shlex.split(text), cwd=folder, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            process.send_signal(signal.SIGINT)
            process.wait(60)
        finally:
            process.kill()


def run(text: str, folder: Path) -> None:
    """Run a command until a reader would see that it works."""
    if text.startswith("mlebench view"):
        served(f"{text} --port=0", folder)
    elif text.startswith("mlebench"):
        called(text, folder)
    elif "--split=smoke" in text:
        typed(text, folder, "-k", "digits")
    else:
        typed(text, folder)


def read_alike() -> list[str]:
    """Pages with commands that are run, but only one of several pages with the same commands."""
    pages = dict.fromkeys(own.page for own, text in SHOWN if found(own, text)[0] == RUN)
    shown = {
        page: (page in EMPTY, *(text for own, text in SHOWN if own.page == page and found(own, text)[0] == RUN))
        for page in pages
    }
    return list({commands: page for page, commands in shown.items()}.values())


@pytest.mark.parametrize("page", read_alike())
def test_the_commands_of_a_page_work_in_order(page: str, home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    shutil.copytree(home / "project", folder)
    if page in EMPTY:
        shutil.rmtree(folder / "agents")
        shutil.rmtree(folder / "competitions")
    if page == "docs/review.md":  # the page starts with a bundle from someone else
        shutil.copy(home / "result.tar.zst", folder)
    failed = []
    for command, text in SHOWN:
        if command.page == page and found(command, text)[0] == RUN:
            try:
                run(re.sub(r"\bRUN\b", WORDS["RUN"], text), folder)
            except (AssertionError, SystemExit, subprocess.TimeoutExpired) as error:
                failed.append(f"{text}: {error}")
    assert not failed, "\n\n".join(failed)


@pytest.mark.parametrize(
    ("command", "text"),
    [own for own in SHOWN if found(*own)[0] != RUN],
    ids=[f"{own.page}: {text}" for own, text in SHOWN if found(own, text)[0] != RUN],
)
def test_a_command_that_is_not_run_can_be_parsed(command: Command, text: str, home: Path) -> None:
    how, why = found(command, text)
    if how == LEAVE:
        subprocess.run(["bash", "-nc", text], check=True)
        pytest.skip(f"only read: {why}")
    if how == PARSE:
        main.parser_and_commands()[0].parse_args(shlex.split(text)[1:])
        pytest.skip(f"only parsed: {why}")
    more = ["--collect-only", "-q"]
    needs_data = ("--agent" in text or "--real-data" in text) and "--data-source" not in text
    more += ["--prepare=never"] if needs_data else []
    more += ["--gpus=0"] if "--gpus" in text else []
    more += ["--sandbox=auto"] if "--heavy" in text else []
    assert "collected" in typed(text, home / "project", *more), text
    pytest.skip(f"only collected: {why}")


def test_at_least_half_of_the_commands_are_run() -> None:
    ours = [found(*own)[0] for own in SHOWN if found(*own)[0] != LEAVE]
    print(f"{ours.count(RUN)} commands are run, {ours.count(COLLECT)} collected, {ours.count(PARSE)} parsed")
    assert ours.count(RUN) >= len(ours) / 2


def test_shell_programs_in_pages_are_valid_bash() -> None:
    from tests.docs.pages import fences

    for fence in fences():
        if fence.kind in ("bash", "sh", "console"):
            subprocess.run(["bash", "-n"], input=fence.text, text=True, check=True)


def test_readme_is_a_front_page() -> None:
    readme = pages()["README.md"]
    assert len(readme.splitlines()) <= 120
    assert len(re.findall(r"(?m)^python3 -m venv", readme)) == 2
    assert (ROOT / "README.md").is_file()
