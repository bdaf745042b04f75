"""LangChain and LangGraph: create_agent(model, tools, middleware=[Unloop(run)])."""

from __future__ import annotations

from typing import Any

from langchain.agents.middleware import AgentMiddleware, hook_config
from langchain.messages import AIMessage, ToolMessage

from ._client import Run


class Unloop(AgentMiddleware):
    """Checks each tool call, and ends an agent whose run was broken off."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return self.run.call(*_call(request), lambda: handler(request), stopped=_refusal(request), read=_result)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await self.run.acall(*_call(request), lambda: handler(request), stopped=_refusal(request), read=_result)

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        if self.run.broken is None:
            return None
        return {"jump_to": "end", "messages": [AIMessage(self.run.broken.message)]}


def _call(request: Any) -> tuple[str, Any]:
    return request.tool_call["name"], request.tool_call["args"]


def _refusal(request: Any) -> Any:
    call = request.tool_call
    return lambda decision: ToolMessage(decision.message, tool_call_id=call["id"], name=call["name"], status="error")


def _result(made: Any) -> tuple[Any, bool | None]:
    return getattr(made, "content", None), True if getattr(made, "status", "") == "error" else None
