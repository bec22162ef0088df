"""Where an agent runs: the contract, the sandboxes that fulfil it, and the submission checker."""

from pytest_mlebench.records.account import Connection, Ending, Limits, SandboxAccount, Validation
from pytest_mlebench.sandbox.contract import Execution, Sandbox, Task

__all__ = ["Connection", "Ending", "Execution", "Limits", "Sandbox", "SandboxAccount", "Task", "Validation"]
