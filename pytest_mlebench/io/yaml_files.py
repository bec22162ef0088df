"""Values from YAML of any origin."""

from __future__ import annotations

from typing import Any

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The fast one where PyYAML has it."""


def load_yaml(text: str) -> Any:
    """What a YAML text holds; raises yaml.YAMLError. A value that does not fit its tag is one, as in ``!!int x``."""
    try:
        return yaml.load(text, Loader=LOADER)
    except RecursionError as error:
        raise yaml.YAMLError("it is nested too deeply") from error
    except (ValueError, ArithmeticError) as error:
        raise yaml.YAMLError(f"a value does not fit its type: {error}") from error
    except (AttributeError, LookupError, TypeError) as error:
        raise yaml.YAMLError("a value does not fit its tag, such as !!bool or !!timestamp") from error
