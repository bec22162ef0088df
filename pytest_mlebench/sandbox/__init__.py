"""Where an agent runs: the contract, the sandboxes that keep it, and the submission checker."""

from pytest_mlebench.sandbox.base import Ending, Execution, Limits, Sandbox, Task

__all__ = ["Ending", "Execution", "Limits", "Sandbox", "Task"]
