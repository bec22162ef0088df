"""TOML of what a task says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def to_toml(values: Mapping[str, Any], prefix: str = "") -> str:
    """TOML of strings, numbers, lists of strings, and tables of these; None is left out.

    >>> print(to_toml({"a": 1, "b": {"c": ["d"], "e": None}}), end="")
    a = 1
    <BLANKLINE>
    [b]
    c = ["d"]
    """
    plain = {name: value for name, value in values.items() if not isinstance(value, Mapping) and value is not None}
    lines = [f"{name} = {_toml_value(value)}\n" for name, value in plain.items()]
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines.append(f"\n[{prefix}{name}]\n{to_toml(value, f'{prefix}{name}.')}")
    return "".join(lines)


def _toml_value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
