"""What a Dockerfile has the engine itself fetch, which no network of the builder's containers keeps it from.

The engine downloads what ``ADD`` names by URL, and pulls the images of ``FROM`` and ``COPY --from``. Where a build's
network is limited, these are refused, but for images that the engine has already.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence

_ESCAPE = re.compile(r"#\s*escape\s*=\s*([`\\])\s*", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#\s*\w+\s*=.*")


def fetched(text: str, triggers: Callable[[str], Sequence[str] | None]) -> str:
    """The first thing in a Dockerfile that the engine would have to fetch, in words; empty where there is none.

    ``triggers`` gives the ``ONBUILD`` instructions of an image, and None where the engine does not have it.
    """
    stages = {"scratch"}
    for name, rest in instructions(text):
        flags, words = _words(rest)
        if name == "ADD" and (problem := _added(words)):
            return problem
        images = [flag.partition("=")[2] for flag in flags if flag.startswith("--from=")] if name == "COPY" else []
        images += words[:1] if name == "FROM" else []
        for image in images:
            if image.lower() in stages or (name == "COPY" and image.isdecimal()):
                continue
            if (on_build := triggers(image)) is None:
                return f"{name} of the image {image!r:.200}, which this engine does not have: docker pull it before"
            # A trigger cannot hold FROM or ONBUILD, so this ends.
            if problem := fetched("\n".join(on_build), triggers):
                return f"{problem} (an ONBUILD of {image!r:.200})"
        if name == "FROM":
            stages |= {word.lower() for word in words[2:3] if words[1].upper() == "AS"}
    return ""


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """The instructions of a Dockerfile, in capitals, and what follows each on its line or its continuations."""
    escape, directives, whole = "\\", True, ""
    for line in text.removeprefix("\ufeff").splitlines():
        stripped = line.strip()
        if directives and (match := _ESCAPE.fullmatch(stripped)):
            escape = match[1]
        directives = directives and _DIRECTIVE.fullmatch(stripped) is not None
        if not stripped or stripped.startswith("#"):
            continue
        ended = line.rstrip()
        if ended.endswith(escape):
            whole += ended.removesuffix(escape)
            continue
        name, _, rest = (whole + line).strip().replace("\t", " ").partition(" ")
        whole = ""
        yield name.upper(), rest.strip()
    if whole.strip():
        name, _, rest = whole.strip().replace("\t", " ").partition(" ")
        yield name.upper(), rest.strip()


def _words(rest: str) -> tuple[list[str], list[str]]:
    words = rest.split()
    flags = []
    while words and words[0].startswith("--"):
        flags.append(words.pop(0))
    left = rest[rest.find(words[0]) :] if words else ""
    if left.startswith("["):
        try:
            listed = json.loads(left)
        except (ValueError, RecursionError):
            listed = None
        if isinstance(listed, list) and all(isinstance(word, str) for word in listed):
            return flags, listed
    return flags, words


def _added(words: Sequence[str]) -> str:
    for source in words[:-1]:
        if re.search(r"""["'\\$`]|^\[""", source):
            return f"ADD of {source!r:.200}: write the name of the file out, without variables and quotes"
        if ":/" in source or source.startswith("git@"):
            return f"ADD of {source!r:.200}: download it in a RUN, or put it into the agent's folder"
    return ""
