"""How many modules of the gateway a reader has to know to follow a call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import pytest_mlebench.llm
from pytest_mlebench.llm.budget import BudgetLimits
from pytest_mlebench.llm.gateway import Gateway
from tests.llm.talking import QUESTION, ask

MOST = 8
"""One more with a budget."""
FOLDER = str(Path(pytest_mlebench.llm.__file__).parent)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "settings", [{}, {"limits": BudgetLimits(max_cost=Decimal(1))}], ids=["without a budget", "with a budget"]
)
def test_a_call_executes_few_modules(settings: dict[str, Any], stream: bool, start: Callable[..., Gateway]) -> None:
    executed: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(FOLDER) and frame.f_code.co_name != "<module>":
            executed.add(Path(frame.f_code.co_filename).name)

    threading.setprofile(note)  # for threads started later: the gateway's
    try:
        gateway = start(**settings)
    finally:
        threading.setprofile(None)
    assert ask(gateway).status == 200
    time.sleep(0.1)  # let the first call finish
    executed.clear()
    assert ask(gateway, {**QUESTION, "stream": stream}).status == 200
    gateway.close()
    executed.discard("gateway.py")  # only to close it
    assert {"server.py", "openai.py", "upstream.py"} <= executed
    assert len(executed) <= MOST + bool(settings), sorted(executed)
