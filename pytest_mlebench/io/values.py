"""Parses untrusted JSON and YAML into values of declared types, and writes JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from itertools import chain
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from pytest_mlebench.io.files import read_regular, write_text

Value = TypeVar("Value")
MAX_DEPTH = 100
_PARSED_DEPTH = 50
_MAX_DIGITS = 300
"""Limit on an integer's digits, so that it can be converted to a float."""


def loads(content: str | bytes, *, depth: int = MAX_DEPTH, decoder: json.JSONDecoder | None = None) -> Any:
    """Parse JSON. Raises ValueError if it is invalid, nested deeper than ``depth``, or has too long an integer.

    Python's own depth limit depends on its version and its stack, and later steps may support less.
    ``decoder`` is a result of ``json_decoder``.
    """
    if not isinstance(content, str):
        content = content.decode(json.detect_encoding(content), "surrogatepass")
    try:
        value = (decoder or _DECODER).decode(content)
    except RecursionError:
        is_deeper = True
    else:
        # Counting brackets is fast, and most texts have fewer of them than the limit.
        is_deeper = content.count("{") + content.count("[") > depth and _is_deeper(value, depth)
    if is_deeper:
        raise ValueError(f"it is nested deeper than {depth} levels")
    return value


def json_decoder(**options: Any) -> json.JSONDecoder:
    """A decoder for ``loads`` with options of ``json.JSONDecoder``. Reuse it: creating one is slower than parsing."""
    return json.JSONDecoder(parse_int=_integer, **options)


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"it has a number of {len(digits)} digits")
    return int(digits)


_DECODER = json_decoder()


def as_object(value: Any) -> dict[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; an empty list if the value is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_count(value: Any) -> int | None:
    """The value if it is a whole number that a database can store, and not negative; else None.

    >>> as_count(3), as_count(True), as_count(-1), as_count(1 << 64)
    (3, None, None, None)
    """
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else None


def as_number(value: Any) -> float | None:
    """The value as a float if it is a finite number; else None.

    >>> as_number(3), as_number(True), as_number("3"), as_number(math.nan), as_number(10**400)
    (3.0, None, None, None, None)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):
            return float(value) if math.isfinite(value) else None
    return None


def valid_text(text: str) -> str:
    """The text with ``?`` in place of each lone surrogate, which JSON may contain, but no file or terminal.

    >>> valid_text("a\\ud800")
    'a?'
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def json_text(values: Any) -> str:
    """Indented JSON. NaN becomes null. An infinite score, for example of perfect answers with a logarithmic metric,
    becomes ``Infinity``, a common extension of JSON that MLE-bench's reports use too."""
    return json.dumps(_without_nan(values), indent=2)


def _without_nan(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {key: _without_nan(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [_without_nan(value) for value in values]
    return None if isinstance(values, float) and math.isnan(values) else values


def parse(kind: type[Value], value: Any) -> Value:
    """Convert JSON values to a dataclass and check its fields' types; raises ValueError that names the key.

    Texts are made valid (see ``valid_text``). Keys without a field are ignored: a later version may have added them.
    """
    if _is_deeper(value, _PARSED_DEPTH):
        raise ValueError(f"it is nested deeper than {_PARSED_DEPTH} levels")
    parsed: Value = _parse(kind, value, "")
    return parsed


_CONTAINERS = (dict, list, tuple, Mapping)


def _is_deeper(value: Any, levels: int) -> bool:
    level = [value] if isinstance(value, _CONTAINERS) else []
    for _ in range(levels):
        children = chain.from_iterable(item.values() if isinstance(item, Mapping) else item for item in level)
        level = [child for child in children if isinstance(child, _CONTAINERS)]
        if not level:
            return False
    return True


def _parse(kind: Any, value: Any, name: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if is_dataclass(kind):
        # A nested class with its own JSON format parses itself.
        return kind.from_json(value) if name and hasattr(kind, "from_json") else _parse_fields(kind, value, name)
    if origin in (Union, UnionType):
        if value is None and type(None) in arguments:
            return None
        return _parse(next(argument for argument in arguments if argument is not type(None)), value, name)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_parse(arguments[0], item, f"{name}[{k}]") for k, item in enumerate(value))
    if origin is not None and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return {valid_text(str(key)): _parse(arguments[1], item, f"{name}.{key}") for key, item in value.items()}
    if kind is str and type(value) is str:
        return valid_text(value)
    if kind is float and type(value) is int and abs(value) < 1 << 1000:
        return float(value)
    if isinstance(kind, type) and issubclass(kind, Enum) and value in list(kind):
        return kind(value)
    if type(value) is kind:
        return value
    raise ValueError(f"{name or 'it'} must be {_expected(kind)}, not {_shortened(value)}")


def _parse_fields(kind: Any, value: Any, name: str) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name or 'it'} must be an object, not {_shortened(value)}")
    prefix = f"{name}." if name else ""
    found = {}
    for field, type_ in _fields(kind):
        if field.name in value:
            found[field.name] = _parse(type_, value[field.name], prefix + field.name)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"it lacks {prefix + field.name}")
    return kind(**found)


@cache
def _fields(kind: Any) -> tuple[tuple[Field[Any], Any], ...]:
    types = get_type_hints(kind)
    return tuple((field, types[field.name]) for field in fields(kind))


def _expected(kind: Any) -> str:
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    if kind in names:
        return names[kind]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"one of {', '.join(str(member.value) for member in kind)}"
    return "a list" if get_origin(kind) is tuple else "an object"


def _shortened(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else f"{text[:40]}…"


def write_json(path: Path, values: Any) -> None:
    """Write JSON atomically and durably (see ``write_text``)."""
    write_text(path, json_text(values) + "\n")


def read_json(path: Path, kind: type[Value], max_bytes: int = 64 << 20) -> Value:
    """A file's JSON as a dataclass; raises OSError, or ValueError that names the key and the expected type.

    A link is not followed: the file may come from someone else.
    """
    return parse(kind, loads(read_regular(path, max_bytes, follow_links=False)))


LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The fast C loader if PyYAML has it."""


def load_yaml(text: str) -> Any:
    """Parse YAML; raises yaml.YAMLError, also for a value that does not fit its tag, as in ``!!int x``."""
    try:
        return yaml.load(text, Loader=LOADER)
    except RecursionError as error:
        raise yaml.YAMLError("it is nested too deeply") from error
    except (ValueError, ArithmeticError) as error:
        raise yaml.YAMLError(f"a value does not fit its type: {error}") from error
    except (AttributeError, LookupError, TypeError) as error:
        raise yaml.YAMLError("a value does not fit its tag, such as !!bool or !!timestamp") from error
