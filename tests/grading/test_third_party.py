"""Code of third-party competitions gets no secrets and cannot open other files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import indent

import psutil
import pytest

from pytest_mlebench.catalog import Competition
from pytest_mlebench.cli.new import TEMPLATES
from pytest_mlebench.data.preparing import Twins, make_synthetic, resolve_choice
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import CompetitionError, DataError
from pytest_mlebench.gate.golden import grade_all, make_golden, synthetic_submissions
from pytest_mlebench.gate.groups import grader_problems
from pytest_mlebench.grading.grader import FormChecker, Grader, GradingLimits
from pytest_mlebench.grading.twins import TwinStore
from pytest_mlebench.io.processes import read_only

TOY = Path(__file__).parents[1] / "toys/competitions/toy-parity"
SECRET = "sk-hunter2-hunter2"
pytestmark = pytest.mark.full  # each in separate processes

Make = Callable[..., Competition]
SPY = """
import json, os, pathlib
def spied():
    places = ["/proc/self/environ", f"/proc/{os.getppid()}/environ", %(file)r]
    found = [json.dumps(dict(os.environ))]
    for place in places:
        try:
            found.append(pathlib.Path(place).read_text(errors="replace"))
        except OSError:
            pass
    try:
        pathlib.Path(%(file)r).with_name("written").write_text("x")
        found.append(%(secret)r)
    except OSError:
        pass
    if any(%(secret)r in text for text in found):
        raise RuntimeError("spied: has the secret")
spied()
"""


WRITE_REPLY = """
import contextlib, os, stat
for number in range(3, 64):
    with contextlib.suppress(OSError):
        if stat.S_IFMT(os.fstat(number).st_mode) in (stat.S_IFIFO, stat.S_IFSOCK):
            os.write(number, %s)
os._exit(0)
"""


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A copy of the toy competition with a module that searches the environment and a user's file for a secret."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    home = tmp_path / "home"
    home.mkdir()
    (home / "kaggle.json").write_text(SECRET)

    def make(module: str, code: str = "") -> Competition:
        folder = tmp_path / "competitions/toy-parity"
        shutil.copytree(TOY, folder)
        text = (folder / f"{module}.py").read_text()
        spy = SPY % {"file": str(home / "kaggle.json"), "secret": SECRET}
        (folder / f"{module}.py").write_text(f"{text}\n{code or spy}\n")
        return Competition.load(folder)

    return make


def test_preparing_has_no_secrets(make: Make, tmp_path: Path) -> None:
    DataStore(tmp_path / "data").prepare(make("prepare"))


@pytest.mark.parametrize("module", ["synthetic", "grade"])
def test_checks_on_synthetic_data_have_no_secrets(make: Make, module: str, tmp_path: Path) -> None:
    competition = make(module)
    assert make_golden(competition, tmp_path / "scratch")["scores"] == competition.golden["scores"]


def test_checks_of_rows_and_guesses_have_no_secrets(make: Make, tmp_path: Path) -> None:
    competition = make("grade")
    dataset = DataStore(tmp_path / "data").prepare(competition, synthetic=1)
    (scratch := tmp_path / "scratch").mkdir()
    assert grader_problems(competition, dataset, scratch) == ([], [])


def test_no_gate_check_runs_third_party_code_with_access_to_secrets(make: Make, tmp_path: Path) -> None:
    folder = make("grade").folder
    spy = SPY % {"file": str(tmp_path / "home/kaggle.json"), "secret": SECRET}
    for module in ("prepare", "synthetic"):
        path = folder / f"{module}.py"
        path.write_text(f"{path.read_text()}\n{spy}\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "competitions"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0 and "4 passed" in ran.stdout, ran.stdout + ran.stderr


def test_grading_has_no_secrets(make: Make, tmp_path: Path) -> None:
    competition = make("grade")
    dataset = DataStore(tmp_path / "data").prepare(competition)
    (tmp_path / "runs").mkdir()
    shutil.copy(dataset.answers, submission := tmp_path / "runs/submission.csv")
    grader = Grader(competition, dataset)
    report = grader.report(submission)
    assert (report.score, report.error) == (1.0, None)
    assert grader.confinement["landlock"] > 0 or not version_of_landlock()


@pytest.mark.parametrize("module", ["grade", "check"])
def test_graders_and_checks_of_a_format_read_the_submission_but_no_file_next_to_it(
    make: Make, module: str, tmp_path: Path
) -> None:
    secret = tmp_path / "runs/secret"
    secret.parent.mkdir()
    code = f"""
import pathlib
from pytest_mlebench.grading import InvalidSubmission
def {module}(submission, answers):
    try:
        text = pathlib.Path({str(secret)!r}).read_text()
    except OSError as error:
        text = error.strerror
    raise InvalidSubmission(f"{{len(submission)}} {{text}}")
"""
    competition = make("grade", code)
    dataset = DataStore(tmp_path / "data").prepare(competition)
    grade: Callable[[Path], str]
    if module == "grade":
        grader = Grader(competition, dataset)
        grade = lambda path: str(grader.report(path).error)  # noqa: E731
    else:
        grade = FormChecker(competition, dataset.public)
    secret.write_text(SECRET)
    for rows in (1, 2):  # by the same process
        (submission := secret.with_name(f"{rows}.csv")).write_text("id,odd\n" + "1,0\n" * rows)
        assert grade(submission).endswith(f"{rows} Permission denied")
    (link := secret.with_name("link.csv")).symlink_to(submission)
    assert grade(link).endswith("link.csv is a symbolic link; a regular file was expected")
    link.with_name("zip.csv").write_bytes(b"PK\3\4\xff")
    assert grade(link.with_name("zip.csv")).endswith("not a readable CSV file: it is a zip archive")


def version_of_landlock() -> int:
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os._exit(read_only([]))


@pytest.mark.parametrize(
    ("module", "code", "message"),
    [
        ("prepare", "import os\nos._exit(3)", "ended with exit status 3 and no result"),
        ("prepare", "import ctypes\nctypes.string_at(0)", "ended with signal 11 and no result"),
        ("prepare", "raise ValueError('wrong')", "wrong"),
        ("synthetic", WRITE_REPLY % "b'{}'", "no result"),
        ("synthetic", WRITE_REPLY % "b'[' * 100_000", "no result"),
        ("synthetic", "def make(raw, seed): raw.with_name('x').write_text('x')", "synthetic.py raised PermissionError"),
        (
            "prepare",
            "def prepare(raw, public, private): public.joinpath('a').symlink_to('/etc/passwd')",
            "did not write",
        ),
    ],
)
def test_failures_of_the_code_are_errors_of_the_competition(
    make: Make, module: str, code: str, message: str, tmp_path: Path
) -> None:
    competition = make(module, code)
    with pytest.raises((CompetitionError, DataError), match=message):
        DataStore(tmp_path / "data").prepare(competition, synthetic=1)


@pytest.mark.parametrize(
    ("imports", "value"),
    [
        ("", "next(iter({str(n) for n in range(9999)}))"),
        ("import numpy", "numpy.random.rand()"),
        ("import random", "random.random()"),
    ],
    ids=["order of a set", "NumPy's generator", "Python's generator"],
)
def test_processes_of_the_code_share_no_randomness(make: Make, imports: str, value: str, tmp_path: Path) -> None:
    code = f"{imports}\ndef make(raw, seed): raw.joinpath('x').write_text(str({value}))"
    with pytest.raises(CompetitionError, match=r"the second time: .*synthetic.py must always give the same"):
        make_golden(make("synthetic", code), tmp_path / "scratch")


def test_processes_of_the_same_server_draw_different_numbers(make: Make, tmp_path: Path) -> None:
    code = "import numpy\ndef make(raw, seed): raw.joinpath('x').write_text(str(numpy.random.rand()))"
    competition = make("synthetic", code)
    for name in "ab":
        (tmp_path / name).mkdir()
        make_synthetic(competition, tmp_path / name, 1)
    assert (tmp_path / "a/x").read_text() != (tmp_path / "b/x").read_text()


def wait_until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.01)


def latest_server() -> psutil.Process:
    """The newest child process that forks processes for competitions' code."""
    servers = [child for child in psutil.Process().children() if "import serve;" in " ".join(child.cmdline())]
    return max(servers, key=psutil.Process.create_time)


def test_code_runs_concurrently_shows_its_output_and_survives_a_lost_server(
    make: Make, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = """
import os, time
def make(raw, seed):
    if not os.fork():
        time.sleep(99)
    raw.joinpath('pid').write_text(str(os.getpid()))
    while seed and not raw.joinpath('go').exists():
        time.sleep(0.01)
    print('made', seed)
"""
    competition = make("synthetic", code)
    folders = [tmp_path / "data" / str(n) for n in range(4)]
    for folder in folders:
        folder.mkdir(parents=True)
    with ThreadPoolExecutor(4) as pool:
        made = [pool.submit(make_synthetic, competition, folder, 1) for folder in folders]
        wait_until(lambda: all((folder / "pid").exists() for folder in folders) or any(job.done() for job in made))
        for folder in folders:
            (folder / "go").touch()
    assert [job.result() for job in made] == [None] * 4
    assert capfd.readouterr().out == "made 1\n" * 4
    assert not any(psutil.pid_exists(int((folder / "pid").read_text())) for folder in folders)
    server = latest_server()
    assert not server.children(), "left by the code"
    server.kill()
    server.wait()
    make_synthetic(competition, folders[0], 0)
    assert capfd.readouterr().out == "made 0\n"


def test_the_code_ends_with_its_server(make: Make, tmp_path: Path) -> None:
    competition = make("synthetic", "import time\ndef make(raw, seed): raw.joinpath('x').touch(); time.sleep(99)")
    (tmp_path / "raw").mkdir()
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(make_synthetic, competition, tmp_path / "raw", 1)
        wait_until(lambda: (tmp_path / "raw/x").exists() or made.done())
        server = latest_server()
        server.kill()
        with pytest.raises(CompetitionError, match="ended with signal 9 and no result"):
            made.result(20)


def test_no_process_of_the_code_survives_a_killed_harness(make: Make, tmp_path: Path) -> None:
    code = """
import os, time
def make(raw, seed):
    raw.joinpath('child' if os.fork() else 'grandchild').write_text(str(os.getpid()))
    time.sleep(99)
"""
    competition = make("synthetic", code)
    (tmp_path / "raw").mkdir()
    program = (
        "import pathlib, sys; from pytest_mlebench.catalog import Competition\n"
        "from pytest_mlebench.data.preparing import make_synthetic\n"
        "make_synthetic(Competition.load(pathlib.Path(sys.argv[1])), pathlib.Path(sys.argv[2]), 1)"
    )
    files = [tmp_path / "raw" / name for name in ("child", "grandchild")]
    with subprocess.Popen([sys.executable, "-c", program, competition.folder, tmp_path / "raw"]) as harness:
        wait_until(lambda: all(file.exists() and file.read_text() for file in files) or harness.poll() is not None)
        harness.kill()
    wait_until(lambda: not any(psutil.pid_exists(int(file.read_text())) for file in files))


DETACH = """
import os, time
def detach():
    reader, writer = os.pipe()
    if child := os.fork():
        os.close(writer)
        os.waitpid(child, 0)
        return os.read(reader, 9).decode()
    os.setsid()
    if os.fork():
        os._exit(0)
    os.setsid()
    os.write(writer, str(os.getpid()).encode())
    os.closerange(0, 64)
    time.sleep(60)
    os._exit(0)
"""


@pytest.mark.parametrize("adopts", [True, False], ids=["default", "its process refuses orphans"])
def test_no_detached_process_can_change_prepared_files(make: Make, adopts: bool, tmp_path: Path) -> None:
    refuse = "" if adopts else "import ctypes; ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)"
    prepare = f"""
first = prepare
def prepare(raw, public, private):
    first(raw, public, private)
    {refuse}
    public.joinpath("pid").write_text(detach())
"""
    competition = make("prepare", DETACH + prepare)
    dataset = DataStore(tmp_path / "data").prepare(competition, synthetic=1)
    assert not psutil.pid_exists(int((dataset.public / "pid").read_text()))


def test_code_cannot_kill_the_process_that_ends_it(make: Make, tmp_path: Path) -> None:
    code = "import os, signal\ndef make(raw, seed): os.kill(os.getppid(), signal.SIGKILL)"
    (tmp_path / "raw").mkdir()
    # Before Linux 6.12, it can, but its results do not count.
    with pytest.raises(CompetitionError, match=r"raised PermissionError|ended with signal 9 and no result"):
        make_synthetic(make("synthetic", code), tmp_path / "raw", 1)
    assert version_of_landlock() < 6 or latest_server().is_running()


@pytest.mark.parametrize("ends", ["raise MemoryError(detach())", "return detach() and 1.0"], ids=["error", "score"])
def test_no_detached_process_survives_its_grader(make: Make, ends: str, tmp_path: Path) -> None:
    name = f"left-{os.getpid()}"
    grade = f"""
import ctypes
def grade(submission, answers):
    ctypes.CDLL(None).prctl(15, b{name!r})
    {ends}
"""
    competition = make("grade", DETACH + grade)
    dataset = DataStore(tmp_path / "data").prepare(competition, synthetic=1)
    shutil.copy(dataset.answers, submission := tmp_path / "submission.csv")
    grader = Grader(competition, dataset)
    report = grader.report(submission)
    assert report.score == 1 or "of memory" in str(report.error)
    assert not [process for process in psutil.process_iter() if process.name() == name]


LINKS = """
import os, pathlib, shutil
def reply():
%(reply)s
first = prepare
def prepare(raw, public, private):
    first(raw, public, private)
    folder, own = public.parents[1], pathlib.Path(%(own)r)
    %(code)s
"""


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("(public / 'a').symlink_to('/etc/passwd')", "symbolic link prepared/public/a"),
        ("os.mkfifo(public / 'a')", "special file prepared/public/a"),
        ("(folder / 'files.jsonl.gz').symlink_to(own / 'notes')", "symbolic link files.jsonl.gz"),
        ("shutil.rmtree(public.parent); public.parent.symlink_to(own); reply()", "symbolic link prepared"),
    ],
)
def test_the_harness_follows_no_links_of_the_code(make: Make, code: str, what: str, tmp_path: Path) -> None:
    own = DataStore(tmp_path / "other").prepare(Competition.load(TOY)).prepared
    (own / "notes").write_text("mine")

    def own_files() -> list[tuple[Path, int, int, int]]:
        found = {path: path.stat() for path in (own, *sorted(own.rglob("*")))}
        return [(path, about.st_ino, about.st_mtime_ns, about.st_size) for path, about in found.items()]

    before = own_files()
    reply = indent(WRITE_REPLY % r"""b'{"result": 1}\n'""", "    ")
    competition = make("prepare", LINKS % {"reply": reply, "own": str(own), "code": code})
    with pytest.raises(DataError, match=f"prepare.py created the {what}; it may create only files and folders"):
        DataStore(tmp_path / "data").prepare(competition)
    assert own_files() == before


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("a", r"nested folders deeper than 100 levels in (prepared/public|a)/a"),
        ("a" * 250, "created files that cannot be read: File name too long"),
    ],
    ids=["levels", "names"],
)
@pytest.mark.parametrize("module", ["prepare", "synthetic"])
def test_folders_nested_too_deeply_are_an_error(
    make: Make, module: str, name: str, problem: str, tmp_path: Path
) -> None:
    folder = "raw, public, private" if module == "prepare" else "raw, seed"
    code = f"""
import os
first = {"prepare" if module == "prepare" else "make"}
def {"prepare" if module == "prepare" else "make"}({folder}):
    first({folder})
    os.chdir({"public" if module == "prepare" else "raw"})
    for _ in range(1200):
        os.mkdir({name!r})
        os.chdir({name!r})
"""
    text = (TOY / f"{module}.py").read_text()
    with pytest.raises(DataError, match=rf"{module}.py {problem}"):
        DataStore(tmp_path / "data").prepare(make(module, text + code), synthetic=1)


def test_graders_cannot_read_what_synthetic_submissions_link_to(make: Make, tmp_path: Path) -> None:
    competition = make("grade")  # with the search for the secret
    (competition.folder / "synthetic.py").write_text(
        "def make(raw, seed): pass\n"
        "def submissions(public, private, rng):\n"
        f"    (public.parents[3] / 'submissions/a.csv').symlink_to({str(tmp_path / 'home/kaggle.json')!r})\n"
        + indent(WRITE_REPLY % r"""b'{"result": ["a.csv"]}\n'""", "    ")
    )
    assert make_golden(competition, tmp_path / "scratch")["invalid"] == ["a.csv"]


@pytest.mark.parametrize("names", ['[""]', '["../a.csv"]', '["a/b.csv"]', "[5]"])
def test_names_of_submissions_cannot_leave_their_folder(make: Make, names: str, tmp_path: Path) -> None:
    body = indent(WRITE_REPLY % f"""b'{{"result": {names}}}\\n'""", "    ")
    competition = make("synthetic", f"def submissions(public, private, rng):\n{body}")
    dataset = DataStore(tmp_path / "data").prepare(competition, synthetic=1)
    with pytest.raises(CompetitionError, match=r"are not names of submissions|must be text, not 5"):
        synthetic_submissions(competition, dataset, tmp_path / "submissions")


@pytest.mark.parametrize(
    "result",
    ["5", "[5]", "[[1]]", """[{"name": "x", "score": [1]}]""", """[{"name": "x", "score": 1%s}]""" % ("0" * 400)],
    ids=["number", "numbers", "lists", "list as a score", "huge score"],
)
def test_invalid_results_are_errors_of_the_competition(make: Make, result: str, tmp_path: Path) -> None:
    body = indent(WRITE_REPLY % f"""b'{{"result": {result}}}\\n'""", "    ")
    competition = make("grade", f"def grade(submission, answers):\n{body}")
    dataset = DataStore(tmp_path / "data").prepare(competition, synthetic=1)
    (tmp_path / "scratch").mkdir()
    with pytest.raises(CompetitionError, match=r"the process for its code (gave an invalid|ended with .* no) result"):
        list(grade_all(competition, dataset, {"answers": dataset.answers}))
    with pytest.raises(CompetitionError, match=r"the process for its code (gave an invalid|ended with .* no) result"):
        grader_problems(competition, dataset, tmp_path / "scratch")


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ('{"score": 1, "rounded": [1]}', "gave an invalid reply: rounded must be a number, not [1]"),
        ('{"score": 1, "rounded": "1"}', 'gave an invalid reply: rounded must be a number, not "1"'),
        ('{"invalid": {}}', "gave an invalid reply: invalid must be text, not {}"),
        ("[1]", "gave an invalid reply: it must be an object, not [1]"),
        ('{"rounded": 1%s}' % ("0" * 400), "gave an invalid reply: it has a number of 401 digits"),
        ('{"score": 1}', "the grading process gave no score"),
        ('{"beyond": "nothing"}', "grading takes more than 32 GiB of memory (--grading-memory)"),
    ],
)
def test_invalid_replies_of_a_grader_are_its_defects(make: Make, reply: str, error: str, tmp_path: Path) -> None:
    body = indent(WRITE_REPLY % f"""b'{reply}\\n'""", "    ")
    competition = make("grade", f"def grade(submission, answers):\n{body}")
    dataset = DataStore(tmp_path / "data").prepare(competition, synthetic=1)
    report = Grader(competition, dataset, limits=GradingLimits(memory=32 << 30)).report(dataset.answers)
    assert (report.score, report.valid_submission) == (None, False) and error in str(report.error)


def test_grades_of_another_process_are_returned_to_this_one(make: Make, tmp_path: Path) -> None:
    competition = make("grade", "pass")
    dataset = DataStore(tmp_path / "data").prepare(competition, synthetic=1)
    paths = synthetic_submissions(competition, dataset, tmp_path / "submissions")
    grades = {grade.name: grade for grade in grade_all(competition, dataset, paths)}
    assert grades["<answers>"].score == 1 and "id" in str(grades["missing_row.csv"].reason)
    assert json.dumps(sorted(grades)) == json.dumps(sorted(paths))


def test_twins_are_generated_without_secrets_and_errors_name_the_line(make: Make, tmp_path: Path) -> None:
    folder = make("grade").folder
    template = TEMPLATES / "competition"
    for name in ("competition.yaml", "prepare.py", "grade.py", "twin.py", "description.md"):
        shutil.copy(template / name, folder)
    about = (folder / "competition.yaml").read_text()
    (folder / "competition.yaml").write_text(about.replace("{{id}}", "toy-parity").replace("{{title}}", "Houses"))
    spy = SPY % {"file": str(tmp_path / "home/kaggle.json"), "secret": SECRET}
    (folder / "twin.py").write_text(f"{(text := (folder / 'twin.py').read_text())}\n{spy}\n")
    twin = TwinStore(tmp_path / "data", Twins(Twins.key_of(1), "micro"))
    resolve_choice("twin:1:micro", tmp_path / "data")
    made = twin.prepare(Competition.load(folder))
    assert made.competition.is_twin and made.competition.leaderboard.source == "twin"
    header, first = (made.public / "train.csv").read_text().splitlines()[:2]
    assert header == "id,rooms,garden,area,price" and len(first.split(",")[0]) == 6, "twin.py differs"
    (folder / "twin.py").write_text(text.replace("    n = by_size", "    n = 1 / 0\n    n = by_size"))
    where = r"twin.py raised ZeroDivisionError: division by zero \(twin.py, line 11: n = 1 / 0\)"
    with pytest.raises(CompetitionError, match=where):
        twin.prepare(Competition.load(folder), force=True)
