"""PydanticAI: Agent(model, capabilities=[Unloop(run)])."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ToolFailed

from ._client import Run


class Unloop(AbstractCapability):
    """Checks each tool call. A stopped one fails with the reason, which the model reads."""

    def __init__(self, run: Run) -> None:
        self.run = run

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        decision = await asyncio.to_thread(self.run.before, call.tool_name, args)
        if decision is not None and not decision.allowed:
            raise ToolFailed(decision.message)
        return args

    async def after_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, result: Any) -> Any:
        await asyncio.to_thread(self.run.after, call.tool_name, args, result)
        return result
