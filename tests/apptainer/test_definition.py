"""Dockerfiles are converted to shell scripts, and unsupported instructions are errors with a line number."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_mlebench import Bench
from pytest_mlebench.agents.registry import default_agents
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.extras.apptainer import definition as definition_module
from pytest_mlebench.extras.apptainer import images
from pytest_mlebench.extras.apptainer.definition import Script, definition, shell_word, split
from pytest_mlebench.io.files import bundled
from pytest_mlebench.sandbox.wiring import CONTAINER_DIRS


def script(text: str, context: Path, **arguments: str) -> str:
    return Script(text, context, arguments).script()


def said(word: str, **variables: str) -> str:
    """Return the result of a word in a shell."""
    command = f"printf %s {shell_word(word)}"
    return subprocess.run(
        ["sh", "-c", command], env=variables, capture_output=True, text=True, check=True, errors="surrogateescape"
    ).stdout


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("plain", "plain"),
        ("$NAME/bin", "value/bin"),
        ("${NAME}s", "values"),
        ("${OTHER:-else}", "else"),
        ("${NAME:+set}", "set"),
        ('"two $NAME words"', "two value words"),
        ("'two $NAME words'", "two $NAME words"),
        (r"\$NAME", "$NAME"),
        (r"a\ b", "a b"),
        (r'"a \"quoted\" word"', 'a "quoted" word'),
        ("`id`$(id)", "`id`$(id)"),
        (r'"C:\dir"', r"C:\dir"),
    ],
)
def test_words_have_the_same_value_as_in_a_dockerfile(word: str, meaning: str) -> None:
    assert said(word, NAME="value") == meaning


@given(st.text(st.characters(codec="ascii", exclude_characters="$\\\0\r\n"), max_size=30))
def test_no_word_runs_a_command(text: str) -> None:
    quoted = "'" + text.replace("'", "") + "'"
    assert said(quoted) == text.replace("'", "")


def test_words_are_split_outside_quotes() -> None:
    assert split(r'A=1 B="two words" C=a\ b D=$X') == ["A=1", 'B="two words"', r"C=a\ b", "D=$X"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("FROM a\nFROM b\n", "line 2: several stages"),
        ("RUN true\n", "line 1: RUN before FROM"),
        ("# only a comment\n", "there is no FROM"),
        ("FROM a\nRUN --mount=type=bind,source=x,target=/x true\n", "line 2: RUN --mount"),
        ("FROM a\nCOPY --from=b x y\n", "line 2: COPY --from=b"),
        ("FROM a\n\n\nCOPY missing /x\n", "line 4: COPY of 'missing': the folder has no such file"),
        ("FROM a\nCOPY ../secret /x\n", "line 2: COPY of '../secret': this is outside"),
        (f"FROM a\nCOPY {'x/' * 1500} /x\n", "line 2: COPY of .*: it has more than 64 parts"),
        ("FROM a\nCOPY $FILE /x\n", r"line 2: COPY of '\$FILE' is not supported"),
        ("FROM a\nADD https://example.org/x /x\n", "line 2: ADD of 'https://example.org/x'"),
        ("FROM a\nADD x.tar.gz /x\n", "line 2: ADD of 'x.tar.gz'"),
        ("FROM a\nONBUILD RUN true\n", "line 2: ONBUILD"),
        ('FROM a\nENTRYPOINT ["x"]\n', "line 2: ENTRYPOINT would not run"),
        ("FROM a\nENV =x\n", "line 2: ENV"),
        ('FROM a\nARG x}";id;: "${y=1\n', "line 2: ARG .* is not NAME or NAME=VALUE"),
        ("FROM a\nSHELL bash\n", "line 2: SHELL"),
    ],
)
def test_errors_for_unsupported_instructions_have_a_line_number(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=problem):
        script(text, tmp_path)


def test_a_copied_name_with_spaces_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_text("x")
    made = script('FROM a\nCOPY ["a b.txt", "/x/"]\n', tmp_path)
    assert "'/mnt/context/a b.txt'" in made


def test_two_stars_match_one_level_as_in_docker(tmp_path: Path) -> None:
    for name in ("x", "one/x", "one/two/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert script("FROM a\nCOPY **/x /to\n", tmp_path).count("/mnt/context/") == 1


@pytest.mark.timeout(30)
def test_links_do_not_multiply_the_sources_of_a_copy(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/start.sh").touch()
    (tmp_path / "out").symlink_to("/")
    for number in range(8):
        (tmp_path / f"link{number}").symlink_to(".")
        (tmp_path / f"real/back{number}").symlink_to("..")
    for pattern, sources in (
        (f"{'*/' * 12}start.sh", ["start.sh"]),
        (f"{'*/back*/' * 12}*/*.sh", ["start.sh"]),
        ("link0/rea[l]/start.sh", ["start.sh"]),
        ("link*", [f"link{number}" for number in range(8)]),
    ):
        copied = re.findall(r"/mnt/context/(\S+)", script(f"FROM a\nCOPY {pattern} /x/\n", tmp_path))
        assert [Path(source).name for source in copied] == sources
    with pytest.raises(SandboxError, match="the folder has no such file"):
        script("FROM a\nCOPY out/etc/passwd /x\n", tmp_path)


@pytest.mark.parametrize(
    ("copied", "problem"),
    [
        ("[" * 50_000 + " x", r"line 2: COPY of '\[+: it has more than 64 parts or 1000 characters"),
        ("* " * 201 + "x", "line 2: COPY: more than 20,000 paths match: name folders instead"),
        ("* x\nCOPY " * 200 + "* x", "line 202: COPY: more than 20,000 paths match"),
    ],
    ids=["long", "words", "lines"],
)
def test_the_sources_of_copies_are_limited(copied: str, problem: str, tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / str(number)).touch()
    with pytest.raises(SandboxError, match=problem) as caught:
        script(f"FROM x\nCOPY {copied}\n", tmp_path)
    assert len(str(caught.value)) < 300


def test_arguments_before_from_name_the_base(tmp_path: Path) -> None:
    """An agent's build does not replace its defaults, which were checked, by arguments."""
    text = "ARG BASE=debian:x\nARG TAG=1\nFROM ${BASE}\nARG TAG\nRUN true\n"
    for trusted, base in ((True, "other"), (False, "debian:x")):
        own = Script(text, tmp_path, {"BASE": "other"}, trusted)
        own.script()
        assert own.base == base


@pytest.mark.parametrize(
    ("base", "kind"),
    [("debian:bookworm-slim", "docker"), ("/a/b.sif", "docker"), (Path("/a/b.sif"), "localimage")],
)
def test_a_base_image_comes_from_a_registry_or_a_file(base: str | Path, kind: str) -> None:
    assert definition(base).startswith(f"Bootstrap: {kind}\nFrom: {base}\n")


def test_changing_the_builder_changes_image_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = default_agents().load()["dummy"]
    file = tmp_path / "definition.py"
    file.write_bytes(Path(definition_module.__file__).read_bytes())
    names = []
    for addition in ("", "", "\n"):
        file.write_bytes(file.read_bytes() + addition.encode())
        monkeypatch.setattr(definition_module, "__file__", str(file))
        images._builder.cache_clear()
        sif = images.SifImages(Bench(sandbox="apptainer", sif=tmp_path))
        names.append((sif._environment(None).tag(), sif._agent(agent).tag()))
    images._builder.cache_clear()
    assert names[0] == names[1] and not set(names[1]) & set(names[2])


def test_every_bundled_dockerfile_is_supported() -> None:
    for agent in default_agents().load().values():
        assert script(agent.dockerfile.read_text(), agent.folder, **CONTAINER_DIRS)
    folder = bundled("environment")
    assert Script((folder / "Dockerfile").read_text(), folder, {"BASE_IMAGE": "x"}, trusted=True).script()


def test_scripts_are_valid_shell(tmp_path: Path) -> None:
    text = (
        'FROM a\nENV A="it\'s" B=2\nARG C=3\nUSER nobody\nWORKDIR /x\n'
        'RUN echo "a" \\\n  && echo \'b\'\nRUN ["x", "y z"]\n'
    )
    file = tmp_path / "build.sh"
    file.write_text(script(text, tmp_path))
    assert subprocess.run(["sh", "-n", file], env=dict(os.environ), check=False).returncode == 0
