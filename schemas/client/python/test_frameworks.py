"""Adapters of frameworks, against fakes of the interfaces that the frameworks document."""

import asyncio
import sys
import unittest
from types import ModuleType, SimpleNamespace

import unloop


def module(name, **members):
    sys.modules[name] = ModuleType(name)
    vars(sys.modules[name]).update(members)


class Message(SimpleNamespace):
    def __init__(self, content, **members):
        super().__init__(content=content, **members)


class ToolFailed(Exception):
    pass


class Base:
    def __init__(self, name=None):
        self.name = name


hooks = {}
for package in ("langchain", "langchain.agents", "pydantic_ai", "crewai", "google", "google.adk", "google.adk.plugins"):
    module(package)
module("langchain.agents.middleware", AgentMiddleware=Base, hook_config=lambda **_: lambda f: f)
module("langchain.messages", AIMessage=Message, ToolMessage=Message)
module("pydantic_ai.capabilities", AbstractCapability=Base)
module("pydantic_ai.exceptions", ToolFailed=ToolFailed)
module(
    "crewai.hooks",
    ToolCallHookContext=SimpleNamespace,
    register_before_tool_call_hook=lambda hook: hooks.update(before=hook),
    register_after_tool_call_hook=lambda hook: hooks.update(after=hook),
)
module("google.adk.plugins.base_plugin", BasePlugin=Base)

import unloop.adk  # noqa: E402
import unloop.crewai  # noqa: E402
import unloop.langchain  # noqa: E402
import unloop.pydantic_ai  # noqa: E402
import unloop.smolagents  # noqa: E402


class Client(unloop.Client):
    """Answers the action of each check of a call that is to be made, and keeps all of them."""

    def __init__(self, *actions):
        super().__init__("http://127.0.0.1")
        self.actions, self.checks = list(actions), []

    def check_tool(self, **check):
        self.checks.append({name: value for name, value in check.items() if name != "session"})
        action = "allow" if "result" in check else self.actions.pop(0)
        return unloop.ToolDecision({"action": action, "message": "again" if action != "allow" else ""})


ARGS = {"city": "Oslo"}
BEFORE = {"tool": "weather", "arguments": ARGS}


class Frameworks(unittest.TestCase):
    def setUp(self):
        self.client = Client("allow", "block")
        self.run_ = unloop.Run(self.client, "s", on_error=self.fail)

    def wants(self, **reported):
        """Two calls were checked, and the first one was made."""
        self.assertEqual(self.client.checks, [BEFORE, {**BEFORE, **reported}, BEFORE])

    def test_langchain(self):
        for kind in ("call", "coroutine"):
            with self.subTest(kind):
                self.setUp()
                middleware = unloop.langchain.Unloop(self.run_)
                request = SimpleNamespace(tool_call={"id": "1", "name": "weather", "args": ARGS})

                async def made(_):
                    return Message("sunny", status="success")

                def call():
                    if kind == "coroutine":
                        return asyncio.run(middleware.awrap_tool_call(request, made))
                    return middleware.wrap_tool_call(request, lambda _: Message("sunny", status="success"))

                self.assertEqual(call().content, "sunny")
                self.assertEqual(vars(call()), {"content": "again", "tool_call_id": "1", "name": "weather", "status": "error"})
                self.wants(result="sunny")
        self.assertIsNone(middleware.before_model({}, None))
        self.client.actions = ["break"]
        middleware.wrap_tool_call(request, self.fail)
        self.assertEqual(middleware.before_model({}, None), {"jump_to": "end", "messages": [Message("again")]})

    def test_pydantic_ai(self):
        capability = unloop.pydantic_ai.Unloop(self.run_)
        call = dict(call=SimpleNamespace(tool_name="weather"), tool_def=None, args=ARGS)
        self.assertEqual(asyncio.run(capability.before_tool_execute(None, **call)), ARGS)
        self.assertEqual(asyncio.run(capability.after_tool_execute(None, **call, result="sunny")), "sunny")
        with self.assertRaisesRegex(ToolFailed, "again"):
            asyncio.run(capability.before_tool_execute(None, **call))
        self.wants(result="sunny")

    def test_crewai(self):
        unloop.crewai.guard(self.run_)
        context = SimpleNamespace(tool_name="weather", tool_input=ARGS, tool_result="sunny")
        self.assertIsNone(hooks["before"](context))
        self.assertIsNone(hooks["after"](context))
        self.assertIs(hooks["before"](context), False)
        self.wants(result="sunny")

    def test_adk(self):
        plugin = unloop.adk.UnloopPlugin(self.run_)
        call = dict(tool=SimpleNamespace(name="weather"), tool_args=ARGS, tool_context=None)
        self.assertIsNone(asyncio.run(plugin.before_tool_callback(**call)))
        asyncio.run(plugin.on_tool_error_callback(**call, error=ValueError("no such city")))
        self.assertEqual(asyncio.run(plugin.before_tool_callback(**call)), {"error": "again"})
        self.wants(result="no such city", is_error=True)
        asyncio.run(plugin.after_tool_callback(**call, result={"sky": "blue"}))
        self.assertEqual(self.client.checks[-1], {**BEFORE, "result": {"sky": "blue"}})

    def test_smolagents(self):
        (tool,) = unloop.smolagents.guard_tools(self.run_, [SimpleNamespace(name="weather", forward=lambda city: "sunny")])
        self.assertEqual([tool.forward("Oslo"), tool.forward(city="Oslo")], ["sunny", "again"])
        self.wants(result="sunny")


if __name__ == "__main__":
    unittest.main()
