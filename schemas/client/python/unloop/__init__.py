"""The SDK of Unloop for Python.

It has the typed error of a request that was stopped, checks of requests and tool calls, and
a guard around tools. It needs the standard library alone.

Fields have the names that they have on the wire.
"""

from ._client import Client, Decision, Lease, Run, ToolDecision
from ._errors import (
    CheckError,
    KilledError,
    LimitedError,
    LoopDetectedError,
    StoppedError,
    UncheckedError,
    loop_error,
)

__all__ = [
    "CheckError",
    "Client",
    "Decision",
    "KilledError",
    "Lease",
    "LimitedError",
    "LoopDetectedError",
    "Run",
    "StoppedError",
    "ToolDecision",
    "UncheckedError",
    "loop_error",
]
