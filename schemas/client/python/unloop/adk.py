"""Google's ADK: Runner(..., plugins=[UnloopPlugin(run)])."""

from __future__ import annotations

import asyncio
from typing import Any

from google.adk.plugins.base_plugin import BasePlugin

from ._client import Run


class UnloopPlugin(BasePlugin):
    """Checks each tool call of a runner. A stopped call answers with why."""

    def __init__(self, run: Run) -> None:
        super().__init__(name="unloop")
        self.run = run

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> dict[str, Any] | None:
        decision = await asyncio.to_thread(self.run.before, tool.name, tool_args)
        return {"error": decision.message} if decision is not None and not decision.allowed else None

    async def after_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, result: Any) -> None:
        await asyncio.to_thread(self.run.after, tool.name, tool_args, result)

    async def on_tool_error_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, error: Exception) -> None:
        await asyncio.to_thread(self.run.after, tool.name, tool_args, str(error), True)
