"""Translates Dockerfiles for Apptainer into a shell script that executes their instructions in order.

Apptainer's definition files copy all files before they run commands, and have no working directory. So a definition has
one command, this script, and the build context is mounted for it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from pytest_mlebench import SandboxError
from pytest_mlebench.sandbox.dockerfile import Instruction, instructions, json_strings
from pytest_mlebench.sandbox.wiring import CONTAINER_DIRS

BUILD = "/mnt"
"""Folder in which the script finds ``context`` and writes ``workdir``. In most images it exists and is empty."""
_IGNORED = frozenset("CMD EXPOSE HEALTHCHECK LABEL MAINTAINER STOPSIGNAL VOLUME ENTRYPOINT".split())
_ARCHIVE = re.compile(r"\.(tar|tgz|tbz2?|txz|tar\.\w+)$")
_WILDCARD = re.compile(r"[*?[]")
_MAX_PARTS, _MAX_CHARACTERS = 64, 1000
"""In the path of one source."""
_MAX_COPIED = 20_000
"""Paths that match the sources of a Dockerfile."""
_NOT_LOCAL = re.compile(r"\$|://|^git@")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_WORD = re.compile(r"""(?:\\.|\\\Z|"(?:\\.|[^"\\])*(?:"|\\?\Z)|'[^']*(?:'|\Z)|[^\s\\"'])+""", re.DOTALL)
"""A word with its quotes and backslashes. An unclosed quote extends to the end of the text."""
_PRELUDE = r"""set -e
unset TMPDIR
for file in /.singularity.d/env/10-docker*.sh /.singularity.d/env/50-mlebench.sh /.singularity.d/env/9?-env*.sh; do
    [ ! -f "$file" ] || . "$file"
done
user=root workdir=/ group=
[ ! -f /.singularity.d/mlebench-workdir ] || workdir=$(cat /.singularity.d/mlebench-workdir)
step() { printf 'line %s: %s\n' "$1" "$2"; }
absolute() { case $1 in /*) printf %s "$1" ;; *) printf %s "${workdir%/}/$1" ;; esac; }
run() (
    cd "$workdir"
    [ "$user" != root ] && [ "$user" != 0 ] || exec "$@"
    exec setpriv --reuid "${user%%:*}" --regid "$(id -g "${user%%:*}")" --init-groups -- "$@"
)
remember() {  # in double quotes: Apptainer's shell would keep the backslash of an escaped single quote
    printf 'export %s="%s"\n' "$1" "$(eval "printf %s \"\$$1\"" | sed 's/[\\"$`]/\\&/g')" \
        >>/.singularity.d/env/50-mlebench.sh
}
copy() {
    mode=$1 owner=$2 to=$(absolute "$3")
    case $3 in */ | . | */.) mkdir -p "$to" ;; esac
    shift 3
    stage=$(mktemp -d)
    for source in "$@"; do
        if [ -d "$source" ]; then
            mkdir -p "$to"
            cp -R -P --preserve=mode,timestamps "$source/." "$stage/"
        else
            cp -P --preserve=mode,timestamps "$source" "$stage/"
        fi
    done
    chown -R -h "${owner:-0:0}" "$stage"
    [ -z "$mode" ] || chmod -R "$mode" "$stage"
    [ $# -eq 1 ] || mkdir -p "$to"
    if [ -d "$to" ]; then
        find "$stage" -mindepth 1 -maxdepth 1 -exec cp -a {} "$to/" \;
    else
        mkdir -p "$(dirname "$to")"
        cp -a "$stage/$(basename "$1")" "$to"
    fi
    rm -rf "$stage"
}
"""
# SquashFS keeps owners. If the kernel mounts the image, the agent's user is not the owner of its files.
_END = f"""
printf %s "$workdir" >/.singularity.d/mlebench-workdir
printf %s "$workdir" >{BUILD}/workdir
mkdir -p {" ".join(CONTAINER_DIRS.values())}
for folder in /home /opt/agent; do
    [ ! -d "$folder" ] || chmod -R a+rwX "$folder"
done
"""


@dataclass
class Script:
    """Translates one Dockerfile. ``context`` is the build context on this machine.

    ``base`` is the image of ``FROM``. ``trusted`` permits an ``ENTRYPOINT``, and build arguments in ``FROM``: an agent
    may have only its own defaults there, which were checked.
    """

    text: str
    context: Path
    arguments: Mapping[str, str]
    trusted: bool = False
    base: str = ""
    _lines: list[str] = field(default_factory=list)
    _shell: Sequence[str] = ("/bin/sh", "-c")
    _base_arguments: dict[str, str] = field(default_factory=dict)
    """Defaults of the arguments that precede ``FROM``."""
    _copied: int = 0

    def script(self) -> str:
        """Return the script. Raises SandboxError with the line of an unsupported instruction."""
        for instruction in instructions(self.text):
            try:
                self._translate(instruction)
            except ValueError as error:
                raise SandboxError(f"line {instruction.line}: {error}") from None
        if not self.base:
            raise SandboxError("there is no FROM")
        return _PRELUDE + "\n".join(self._lines) + _END

    def _translate(self, instruction: Instruction) -> None:
        name, rest = instruction.name, instruction.rest
        if not self.base and name not in ("FROM", "ARG"):
            raise ValueError(f"{name} before FROM")
        if name == "ENTRYPOINT" and not self.trusted:
            raise ValueError("ENTRYPOINT would not run, since the container starts the agent's start script: call "
                             "it there, and remove the ENTRYPOINT")  # fmt: skip
        if name in _IGNORED:
            return
        if name not in ("FROM", "ARG"):
            self._lines.append(f"step {instruction.line} {shlex.quote(f'{name} {rest}'[:200])}")
        match name:
            case "FROM":
                self._from(rest)
            case "ARG":
                self._arguments(rest)
            case "RUN":
                if rest.startswith("--"):
                    raise ValueError(f"RUN {rest.split()[0]:.100} is not supported by builds without Docker")
                self._lines.append(f"run {shlex.join(json_strings(rest) or [*self._shell, rest])}")
            case "COPY" | "ADD":
                self._lines.append(self._copy(name, rest))
            case "ENV":
                self._environment(rest)
            case "WORKDIR":
                self._lines += [f"workdir=$(absolute {shell_word(rest)})", 'mkdir -p "$workdir"']
            case "USER":
                self._lines.append(f"user={shell_word(rest)}")
            case "SHELL":
                if not (words := json_strings(rest)):
                    raise ValueError("SHELL takes a list of strings")
                self._shell = words
            case _:
                raise ValueError(f"{name} is not supported by builds without Docker")

    def _from(self, rest: str) -> None:
        words = [word for word in rest.split() if not word.startswith("--")]
        if self.base:
            raise ValueError("several stages are not supported by builds without Docker")
        given = self.arguments if self.trusted else {}
        known = {name: given.get(name, default) for name, default in self._base_arguments.items()}
        self.base = re.sub(r"\$\{(\w+)\}|\$(\w+)", lambda match: known.get(match[1] or match[2], ""), words[0])

    def _arguments(self, rest: str) -> None:
        for word in split(rest):
            name, given, default = word.partition("=")
            if not name.isidentifier():
                raise ValueError(f"ARG {word!r:.100} is not NAME or NAME=VALUE")
            if not self.base:
                self._base_arguments[name] = default.strip("\"'")
                continue
            known = {**({} if given else self._base_arguments), **self.arguments}
            if given or name in known:
                value = shlex.quote(known[name]) if name in known else shell_word(default)
                self._lines.append(f'[ -n "${{{name}+x}}" ] || export {name}={value}')

    def _environment(self, rest: str) -> None:
        words = split(rest)
        if words and not _ASSIGNMENT.match(words[0]):  # ENV NAME VALUE
            name, _, value = rest.partition(" ")
            words = [f"{name}={json.dumps(value.strip())}" if '"' not in value else f"{name}={value.strip()}"]
        for word in words:
            name, equals, value = word.partition("=")
            if not equals or not name.isidentifier():
                raise ValueError(f"ENV {word!r:.100} is not NAME=VALUE")
            self._lines += [f"export {name}={shell_word(value)}", f"remember {name}"]

    def _copy(self, kind: str, rest: str) -> str:
        flags = {"--chown": "", "--chmod": "", "--link": ""}
        while rest.startswith("--"):
            flag, _, rest = rest.partition(" ")
            name, _, value = flag.partition("=")
            if name not in flags:
                raise ValueError(f"{kind} {flag:.100} is not supported by builds without Docker")
            flags[name], rest = value, rest.strip()
        *sources, target = json_strings(rest) or split(rest)
        if not sources:
            raise ValueError(f"{kind} needs a source and a destination")
        paths = [path for source in sources for path in self._sources(kind, source)]
        mode, owner = shlex.quote(flags["--chmod"]), shell_word(flags["--chown"])
        return " ".join(["copy", mode, owner, shell_word(target), *map(shlex.quote, paths)])

    def _sources(self, kind: str, pattern: str) -> list[str]:
        if _NOT_LOCAL.search(pattern) or (kind == "ADD" and _ARCHIVE.search(pattern)):
            raise ValueError(
                f"{kind} of {pattern!r:.100} is not supported by builds without Docker: name files in the folder, and "
                "download or unpack others with RUN"
            )
        parts = Path(pattern.strip("\"'").lstrip("/")).parts
        if ".." in parts:
            raise ValueError(f"{kind} of {pattern!r:.100}: this is outside the folder")
        if len(parts) > _MAX_PARTS or len(pattern) > _MAX_CHARACTERS:
            raise ValueError(
                f"{kind} of {pattern!r:.100}: it has more than {_MAX_PARTS} parts or {_MAX_CHARACTERS} characters"
            )
        found = _matches(self.context, parts)
        if not found:
            raise ValueError(f"{kind} of {pattern!r:.100}: the folder has no such file")
        self._copied += len(found)
        if self._copied > _MAX_COPIED:
            raise ValueError(f"{kind}: more than {_MAX_COPIED:,} paths match: name folders instead")
        return [f"{BUILD}/context/{path.relative_to(self.context)}" for path in found]


def _matches(folder: Path, parts: Sequence[str]) -> list[Path]:
    """The paths in a folder that match a pattern, which has a part for each level.

    Each folder is entered once for each part, though several paths may lead to it: with links to folders, the number of
    paths grows exponentially.
    """
    found, root = [folder], folder.resolve()
    for part in parts:
        entered = {path.resolve(): path for path in reversed(found) if path.is_dir()}
        inside = [path for real, path in entered.items() if real.is_relative_to(root)]
        if _WILDCARD.search(part):
            found = [path for inner in inside for path in inner.iterdir() if fnmatchcase(path.name, part)]
        else:
            found = [inner / part for inner in inside if (inner / part).exists()]
        found.sort()
    return found


def definition(base: str | Path) -> str:
    """The definition file that runs the script. ``base`` is an image in a registry, or the path of a SIF file."""
    kind = "localimage" if isinstance(base, Path) else "docker"
    return f"Bootstrap: {kind}\nFrom: {base}\n\n%post\n    /bin/sh {BUILD}/build.sh\n"


def split(text: str) -> list[str]:
    """Split text into words as a Dockerfile does. Quotes and backslashes are kept.

    >>> split('A=1 B="two words" C=a\\\\ b')
    ['A=1', 'B="two words"', 'C=a\\\\ b']
    """
    return _WORD.findall(text)


def shell_word(word: str) -> str:
    """Quote a word of a Dockerfile for the shell, so that only variables are expanded.

    >>> print(shell_word('a"b c"$HOME`ls`'), shell_word("'$x'"))
    "ab c$HOME\\`ls\\`" "\\$x"
    """
    quoted, quote, position = "", "", 0
    while position < len(word):
        character = word[position]
        position += 1
        following = word[position : position + 1]
        if character == "\\" and quote != "'" and following and (not quote or following in '"\\$'):
            quoted += "\\" + following if following in '"\\$`' else following
            position += 1
        elif character == quote:
            quote = ""
        elif not quote and character in "\"'":
            quote = character
        elif character in '"\\`' or (character == "$" and (quote == "'" or following in "(")):
            quoted += "\\" + character
        else:
            quoted += character
    return f'"{quoted}"'
