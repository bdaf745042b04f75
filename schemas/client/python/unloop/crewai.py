"""CrewAI: guard(run), before the crew is kicked off."""

from __future__ import annotations

from crewai.hooks import ToolCallHookContext, register_after_tool_call_hook, register_before_tool_call_hook

from ._client import Run


def guard(run: Run) -> None:
    """Checks the tool calls of all crews of this process. CrewAI tells the agent of a stopped call in its own words."""

    def before(context: ToolCallHookContext) -> bool | None:
        decision = run.before(context.tool_name, dict(context.tool_input))
        return False if decision is not None and not decision.allowed else None

    def after(context: ToolCallHookContext) -> None:
        run.after(context.tool_name, dict(context.tool_input), context.tool_result)

    register_before_tool_call_hook(before)
    register_after_tool_call_hook(after)
