"""Where an agent runs: the contract, the sandboxes that fulfil it, and the submission checker."""

from pytest_mlebench.sandbox.contract import (
    Connection,
    Ending,
    Execution,
    Limits,
    Sandbox,
    SandboxAccount,
    Task,
    Validation,
)

__all__ = ["Connection", "Ending", "Execution", "Limits", "Sandbox", "SandboxAccount", "Task", "Validation"]
