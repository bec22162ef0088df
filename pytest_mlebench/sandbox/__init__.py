"""Where an agent runs: the contract, the sandboxes that fulfil it, and the submission checker."""

from pytest_mlebench.records.account import Connection, Ending, Limits, SandboxAccount, Validation
from pytest_mlebench.sandbox.contract import ContainerSandbox, Execution, Sandbox, Task

__all__ = [
    "Connection",
    "ContainerSandbox",
    "Ending",
    "Execution",
    "Limits",
    "Sandbox",
    "SandboxAccount",
    "Task",
    "Validation",
]
