"""smolagents: CodeAgent(tools=guard_tools(run, tools), model=model)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._client import Run


def guard_tools(run: Run, tools: Iterable[Any]) -> list[Any]:
    """Guards tools in place, and returns them. A stopped call returns why."""
    guarded = list(tools)
    for tool in guarded:
        tool.forward = run.guard(tool.forward, name=tool.name, stopped=lambda decision: decision.message)
    return guarded
