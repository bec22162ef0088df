"""Compiles the system call filter for the kernel.

Apptainer can read profiles, but returns one error for all calls that it denies. Programs need two: they fall back to
older calls only if the kernel seems not to have the new one. So libseccomp, which Apptainer needs as well, compiles the
profile here, and the container's first process applies it to the agent.
"""

from __future__ import annotations

import base64
import ctypes
import ctypes.util
import json
import tempfile
from functools import cache
from typing import Any

from pytest_mlebench.sandbox.seccomp import profile

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM = 1
_OPERATORS = {"SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}
_MAX_ARGUMENTS = 6


class _Comparison(ctypes.Structure):
    _fields_ = (("argument", ctypes.c_uint), ("operator", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


@cache
def compiled() -> str:
    """The filter in base64; empty if libseccomp is missing or fails.

    Only this filter keeps processes on the processors that they start on.
    """
    name = ctypes.util.find_library("seccomp") or "libseccomp.so.2"
    try:
        library = ctypes.CDLL(name)
    except OSError:
        return ""
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    context = ctypes.c_void_p(library.seccomp_init(_ERRNO | _EPERM))
    try:
        for rule in json.loads(profile(without=["sched_setaffinity"]))["syscalls"]:
            _add(library, context, rule)
        with tempfile.TemporaryFile() as file:
            if library.seccomp_export_bpf(context, file.fileno()):
                return ""
            file.seek(0)
            return base64.b64encode(file.read()).decode()
    finally:
        library.seccomp_release(context)


def _add(library: ctypes.CDLL, context: ctypes.c_void_p, rule: dict[str, Any]) -> None:
    action = _ALLOW if rule["action"] == "SCMP_ACT_ALLOW" else _ERRNO | rule["errnoRet"]
    conditions = [
        _Comparison(argument["index"], _OPERATORS[argument["op"]], argument["value"], argument.get("valueTwo", 0))
        for argument in rule.get("args", ())
    ]
    comparisons = (_Comparison * _MAX_ARGUMENTS)(*conditions)
    for name in rule["names"]:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # this architecture lacks the others
            library.seccomp_rule_add_array(context, ctypes.c_uint32(action), number, len(conditions), comparisons)
