"""The colours of the plots and the page, in a light and a dark scheme.

No colour is the only sign of a meaning: there is always a letter, shape, position or word as well.
"""

from __future__ import annotations

COLOURS = {
    "paper": ("#ffffff", "#12161b"),
    "card": ("#f5f7f9", "#1b2128"),
    "line": ("#d3dae1", "#3a444f"),
    "ink": ("#1c2630", "#e6ebf1"),
    "muted": ("#52606d", "#a9b5c1"),
    "link": ("#0b57a4", "#82c3ff"),
    "failure": ("#a3123f", "#ff9fb6"),
    "gold": ("#f2b705", "#f2b705"),
    "on-gold": ("#1c2630", "#12161b"),
    "silver": ("#bcc4ce", "#bcc4ce"),
    "on-silver": ("#1c2630", "#12161b"),
    "bronze": ("#a5561f", "#b8672e"),
    "on-bronze": ("#ffffff", "#0a0d10"),
    "above": ("#67b1e8", "#4d9bd6"),
    "on-above": ("#0f2333", "#0a0d10"),
    "none": ("#e3e8ed", "#333d48"),
    "on-none": ("#3d4a57", "#d3dae1"),
    "agent0": ("#0067a8", "#63b5f5"),
    "agent1": ("#b04000", "#ff9c5b"),
    "agent2": ("#00735a", "#41d1a2"),
    "agent3": ("#8e3b82", "#eba2db"),
    "agent4": ("#6b5900", "#d9c34a"),
    "agent5": ("#4a4f57", "#c3c9d1"),
}
"""Hexadecimal sRGB colours by purpose: (light, dark). ``on-NAME`` is the colour of text on ``NAME``."""

_TERMINAL = {
    "gold": "yellow bold",
    "silver": "white bold",
    "bronze": "yellow",
    "above": "green",
    "none": "cyan",
    "failure": "red",
}
"""Terminal styles of the outcomes' colours."""

AGENTS = 6
"""Number of agent colours, and of agent shapes. Each repeats after this many agents."""


def terminal_markup(colour: str) -> dict[str, bool]:
    """Return an outcome's colour as keyword arguments for pytest's terminal writer."""
    return dict.fromkeys(_TERMINAL[colour].split(), True)


def ansi_code(colour: str) -> str:
    """Return an outcome's colour as the parameters of an ANSI escape sequence, for example ``33;1``."""
    codes = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36", "white": "37"}
    return ";".join(codes[word] for word in _TERMINAL[colour].split())


def stylesheet() -> str:
    """Return CSS classes ``f-NAME`` (fill) and ``s-NAME`` (stroke), light if ``light-dark()`` is not supported."""
    return "".join(
        f".{letter}-{name}{{{attribute}:{light};{attribute}:light-dark({light},{dark})}}"
        for name, (light, dark) in COLOURS.items()
        for letter, attribute in (("f", "fill"), ("s", "stroke"))
    )


def variables() -> str:
    """Return the CSS variables ``--NAME`` for the page."""
    return "".join(f"--{name}:light-dark({light},{dark});" for name, (light, dark) in COLOURS.items())
