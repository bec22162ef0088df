"""What a Dockerfile and a .dockerignore may contain. No engine is needed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_mlebench.agents.registry import default_agents
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox.dockerfile import Recipe, Rules, agent_recipe, environment_recipe


class Engine:
    """A fake of an engine that built the image ``victim``, and pulled all others."""

    def triggers(self, image: str) -> list[str]:
        return {"two": ["COPY x /x\nCOPY --from=victim /x /x"], "itself": ["FROM itself"]}.get(image, [])

    def registries(self, image: str) -> list[str]:
        return [] if image == "victim" else [image.partition(":")[0]]


COPY = "COPY --from=victim /x /x"
BUILT_HERE = "'victim' was built on this machine"
STAGE = "FROM debian AS base\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    {
        f"{STAGE}{COPY}": f"line 2: COPY: the image {BUILT_HERE}",
        # Lines that only some builders join.
        f"{STAGE}RUN true \\\\\n{COPY}": r"line 2: it ends with \\\\, which",
        f"{STAGE}RUN true \\\x0b\n{COPY}": r"line 2: builders read the character '\\x0b' differently",
        f"{STAGE}RUN true \\\xa0\n{COPY}": r"line 2: .* '\\xa0'",
        f"{STAGE}RUN true \\\n\x1f# x\n{COPY}": r"line 3: .* '\\x1f'",
        f"{STAGE}RUN true \\\n\x1f# x=y\n{COPY}": r"line 3: .* '\\x1f'",
        f"{STAGE}RUN true\r{COPY}": r"line 2: .* '\\r'",
        f"# foo=bar\n# escape=`\n{STAGE}RUN true `\n{COPY}": "line 2: builders read this escape directive differently",
        f"# syntax=docker/dockerfile:1\n# escape=`\n{STAGE}": "line 2: .* escape directive",
        f"# escape=` x\n{STAGE}RUN true \\\n{COPY}": "line 1: .* escape directive",
        f" # escape=`\n{STAGE}": "line 1: .* escape directive",
        f"{STAGE}RUN << #x\nRUN true \\\n#x\n{COPY}": "line 2: RUN has a here-document",
        f"{STAGE}RUN 3<<-1\\\\x\n": "line 2: RUN has a here-document",
        f'{STAGE}RUN <<" RUN \\\\"\n RUN \\\n{COPY}': "line 2: RUN has a here-document",
        # Build arguments.
        "ARG Y=X\nARG X=debian\nARG $Y=victim\nFROM $X": r"line 3: ARG '\$Y=victim' before FROM must be a new NAME",
        "ARG \\X=victim\nFROM debian": r"line 1: ARG '\\\\X=victim'",
        "ARG X=debian X=victim\nFROM $X": "line 1: ARG 'X=victim'",
        'ARG X=victim\nARG ["X=debian"]\nFROM $X': r"line 2: ARG '\[\"X=debian\"\]'",
        'ARG X=victim\nARG A="x X=debian B="\nFROM $X': "line 2: ARG 'A=\"x'",
        # Names of stages: of the stage itself, in other case, with a variable, in what is not a list.
        f"FROM debian AS victim\n{COPY}": f"line 2: COPY: the image {BUILT_HERE}",
        "FROM debian AS victim\nRUN --mount=from=victim,target=/m true": f"line 2: RUN --mount: .* {BUILT_HERE}",
        "FROM debian AS victim\nCOPY --from=0 /x /x": "line 2: COPY: 0 is not the number of a stage",
        f"FROM debian AS Victim\n{STAGE}{COPY}": f"line 3: COPY: .* {BUILT_HERE}",
        "FROM debian AS Victim\nFROM victim": f"line 2: FROM: .* {BUILT_HERE}",
        f"FROM debian AS $X\n{STAGE}ARG X=victim\nCOPY --from=$X /x /x": r"line 1: FROM … AS '\$X': the name",
        f'FROM ["debian", "AS", "victim"]\n{STAGE}{COPY}': "line 1: FROM takes an image",
        f"ONBUILD RUN true\n{STAGE}": "line 1: there must be a FROM before ONBUILD",
        f"{STAGE}COPY --from={'9' * 5000} /x /x": "line 2: COPY: 9{20} is not the number",
        # Flags behind a space in a flag.
        f'{STAGE}COPY --chown="a b:0" --from=victim /x /x': "line 2: COPY '--chown=\"a': write it without quotes",
        rf"{STAGE}COPY --chown=a\ b:0 --from=victim /x /x": r"line 2: COPY '--chown=a\\\\': write it without quotes",
        rf"{STAGE}ONBUILD COPY --chown='a b' --from=victim /x /x": "line 2: COPY .*: write it without quotes",
        # Triggers.
        f"{STAGE}ONBUILD FROM debian AS victim\n{COPY}": "line 2: ONBUILD FROM is not supported",
        STAGE + "ONBUILD " * 3000 + "RUN true": "line 2: ONBUILD ONBUILD is not supported",
        "FROM two": r"line 1: .* '\\n' .*\(an ONBUILD of 'two'\)",
        "FROM itself": r"line 1: ONBUILD FROM is not supported .*\(an ONBUILD of 'itself'\)",
    }.items(),
)
def test_what_builders_read_differently_is_rejected(text: str, problem: str) -> None:
    with pytest.raises(SandboxError, match=problem):
        Rules(Engine()).check(text)


def test_variables_do_not_multiply_the_length_of_an_image_name() -> None:
    text = f"ARG A={'a' * 1000}\nFROM {'$A' * 1000}\n"
    with pytest.raises(SandboxError, match=r"line 2: FROM '[$A]+: an image's name has at most 500 characters"):
        Rules(Engine()).check(text)


def test_lists_of_add_are_read_in_both_ways() -> None:
    with pytest.raises(SandboxError, match=r"line 2: ADD ' https://example\.com/x /y'"):
        Rules(Engine(), fetching=False).check(f'{STAGE}ADD ["x", "\thttps:\\/\\/example.com/x\t/y"]')


@pytest.mark.parametrize(
    "text",
    [
        "# escape=`\nARG A=debian B='x' C=\"y\" D\nFROM --platform=linux/amd64 $A AS Base\nRUN true `\n  # x\n && x\n"
        "FROM debian:${A}\nCOPY --from=Base /x /x\nCOPY --from=0 /x /x\nRUN --mount=from=Base,target=/m true\n",
        "\ufeff# Übersicht\u3000\nFROM debian\r\nRUN echo '# escape=x' \\\r\n $((1<<3)) <<<x $(( 1 << 3 ))é \\\n\n",
        *(agent.dockerfile.read_text() for agent in default_agents().load().values()),
    ],
)
def test_honest_dockerfiles_pass(text: str) -> None:
    Rules(Engine(), ("mlebench-env",)).check(text)


def test_many_wildcards_do_not_take_exponential_time(tmp_path: Path) -> None:
    for name in ("a" * 60, "a.pyc", "b", "d/e/f/x1y2z", "d/e/x1y2"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".dockerignore").write_text(
        f"{'a*' * 40}b\n{'*a/**/' * 9}b\n{'**/' * 40}c\n**/*.x/**/*\na*a\n**/d/**/*x*y*z\n"
    )
    assert recipe(tmp_path).files() == ["b", "d", "d/e", "d/e/f", "d/e/x1y2"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x\n" * 201, " has 201 patterns; the limit is 200"),
        ("#" * (1 << 16) + "\n", ": it has more than 65,536 bytes"),
        ("x**/y", ": 'x**/y': write a / before **"),
    ],
)
def test_what_takes_long_to_match_is_rejected(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / ".dockerignore").write_text(text)
    with pytest.raises(SandboxError, match=rf"cannot be packed for the builder: \.dockerignore{re.escape(problem)}"):
        recipe(tmp_path).tag()


def test_a_dockerignore_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x**/secret")
    (tmp_path / ".dockerignore").symlink_to("secret")
    with pytest.raises(SandboxError, match=r"\.dockerignore: it is a link") as caught:
        recipe(tmp_path).tag()
    assert "x**" not in str(caught.value)


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    agent = replace(default_agents()["dummy"], folder=tmp_path, dockerfile=tmp_path / "Dockerfile")
    agent.dockerfile.write_text("\ufeffFROM mlebench-env\n")
    assert agent_recipe(agent, "mlebench-env:1", "full").dockerfile.startswith("FROM mlebench-env:1\n")


def test_a_huge_dockerfile_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "Dockerfile").open("w") as file:
        file.truncate(1 << 40)
    with pytest.raises(SandboxError, match="Dockerfile cannot be read: it has more than 65,536 bytes"):
        environment_recipe(tmp_path, {})


def recipe(folder: Path) -> Recipe:
    return Recipe(name="x", folder=folder, dockerfile="", arguments={})
