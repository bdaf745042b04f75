"""The client of a gateway's check API, and the guard of tools."""

from __future__ import annotations

import asyncio
import functools
import http.client
import inspect
import json
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Optional
from urllib.parse import urlsplit

from ._errors import (
    CheckError,
    KilledError,
    LimitedError,
    LoopDetectedError,
    StoppedError,
    UncheckedError,
    found_in,
    whole,
)

_log = logging.getLogger("unloop")

_CAUSES: dict[str, type[StoppedError]] = {
    "unchecked": UncheckedError,
    "kill_switch": KilledError,
    "rate_limit_exceeded": LimitedError,
}

# How long a run asks nothing after the gateway could not be asked, in seconds, so that
# tools stay fast while it is away.
_PAUSE = 5.0

# What returns the result of a stopped call, and what reads the result in what a framework's
# call returned.
Stopped = Optional[Callable[["ToolDecision"], Any]]
Read = Optional[Callable[[Any], "tuple[Any, bool | None]"]]


class Decision:
    """The answer to a check of a request.

    Attributes:
        action: "allow", "warn", "hint", "throttle", "reject" or "break".
        reason: why; empty without an action.
        message: the same in words; for a tool's call it is for the model to read.
        hit_count: the count of the finding that decided, else the highest count.
        delay_ms: how long to wait before sending, after "throttle".
        retry_after_seconds: when the request passes if nothing else is sent; 0 where
            waiting does not help.
        loop_id: names the incident, if there is one.
        degraded: why the request was not fully checked; empty if it was.
        request_id: the id to send the request itself under; see headers.
        findings: those of all detectors; the first one decided.
        answer: the whole answer.
    """

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.answer = dict(answer)
        self.action: str = answer["action"]
        self.reason: str = answer.get("reason") or ""
        self.message: str = answer.get("message") or ""
        self.hit_count = whole(answer.get("hit_count"))
        self.delay_ms = whole(answer.get("delay_ms"))
        self.retry_after_seconds = whole(answer.get("retry_after_seconds"))
        self.loop_id: str = answer.get("loop_id") or ""
        self.degraded: str = answer.get("degraded") or ""
        self.request_id: str = answer.get("request_id") or ""
        self.findings: list[dict[str, Any]] = list(answer.get("findings") or [])

    @property
    def allowed(self) -> bool:
        """Whether the request may be sent, after delay_ms, or the call be made."""
        return self.action not in ("reject", "block", "break")

    @property
    def headers(self) -> dict[str, str]:
        """The headers that mark the request that was checked, so that it counts once."""
        return {"X-Unloop-Check": self.request_id}

    @property
    def error(self) -> StoppedError | None:
        """Why the request or call must not be sent; None if it may."""
        if self.allowed:
            return None
        if self.reason in _CAUSES:
            return _CAUSES[self.reason](self.message)
        found = self.findings[0] if self.findings and not self.findings[0].get("shadow") else {}
        fields = found_in(found) | {"loop_id": self.loop_id}
        if "hit_count" in self.answer or not found:
            fields["hit_count"] = self.hit_count
        return LoopDetectedError(
            self.message, action=self.action, retry_after_seconds=self.retry_after_seconds, **fields
        )

    def raise_if_stopped(self) -> None:
        """Raises the error, if there is one."""
        if (error := self.error) is not None:
            raise error


class ToolDecision(Decision):
    """The answer to a check of a tool's call.

    Attributes:
        action: "allow", "warn", "block" or "break".
        counts: the counts of the call and of its session.
        backoff_seconds: how long to wait before the next call of a poll.
    """

    def __init__(self, answer: Mapping[str, Any]) -> None:
        super().__init__(answer)
        self.counts: dict[str, Any] = dict(answer.get("counts") or {})
        self.backoff_seconds = whole(answer.get("backoff_seconds"))
        if "hit_count" not in answer:
            self.hit_count = whole(self.counts.get("streak"))


class Client:
    """A client of a gateway's check API. It may be used by many threads at once."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 2.0,
    ) -> None:
        """Makes a client of the gateway at a URL such as http://127.0.0.1:8080.

        The URL may have the /v1 of OpenAI's clients. The timeout of a check is in seconds.
        """
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("the gateway's URL must look like http://host:port")
        self._url = base_url.rstrip("/").removesuffix("/v1") + "/unloop/v1/check"
        self._headers = dict(headers or {})
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._timeout = timeout
        local = parts.hostname in ("localhost", "::1") or parts.hostname.startswith("127.")
        proxies = [urllib.request.ProxyHandler({})] if local else []
        self._opener = urllib.request.build_opener(*proxies)
        # What its runs know of a gateway that is away.
        self._until = 0.0
        self._warned = False

    def check(self, *, headers: Mapping[str, str] | None = None, **request: Any) -> Decision:
        """Asks what to do with a request, and counts it.

        The request has the fields of the check API: body with path or format, prompt, or
        messages; model, user, session, tenant, project, request_id. Headers are sent with
        the check. Raises CheckError for a malformed check, and OSError if the gateway can't
        be reached in time.
        """
        return Decision(self._ask(request, headers))

    def peek(self, *, headers: Mapping[str, str] | None = None, **request: Any) -> Decision:
        """Asks what would happen to a request, and counts nothing."""
        return self.check(headers=headers, **request, peek=True)

    def check_tool(self, *, headers: Mapping[str, str] | None = None, **call: Any) -> ToolDecision:
        """Asks about a tool's call before it is made, or reports its result.

        The call has the fields session, tool, arguments, result, is_error, cancel, peek, explain.
        """
        return ToolDecision(self._ask(call, headers))

    def run(self, session: str, **options: Any) -> Run:
        """Returns the calls of one agent, which are counted together; see Run."""
        return Run(self, session, **options)

    def _ask(self, check: Mapping[str, Any], headers: Mapping[str, str] | None) -> dict[str, Any]:
        try:
            return self._answer(json.dumps(check, default=str).encode(), headers)
        except http.client.HTTPException as err:
            raise OSError(f"the answer is none of HTTP: {err!r}") from err

    def _answer(self, body: bytes, headers: Mapping[str, str] | None) -> dict[str, Any]:
        req = urllib.request.Request(self._url, body, {**self._headers, **(headers or {}), "Content-Type": "application/json"})
        try:
            with self._opener.open(req, timeout=self._timeout) as res:
                status, answer = res.status, _parsed(res.read())
        except urllib.error.HTTPError as err:
            with err:
                error = _parsed(err.read()).get("error")
            if not isinstance(error, dict):
                error = {}
            raise CheckError(err.code, *(str(error.get(name) or "") for name in ("code", "field", "message"))) from None
        if status != 200 or not answer.get("action"):
            raise CheckError(status, message="the answer has no action; is this an Unloop gateway?")
        return answer


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


class Run:
    """The calls of one agent.

    While the gateway is away, or refuses a check, calls pass, and on_error hears of it; by
    default the first such error of a client is logged as a warning.

    Attributes:
        broken: the decision after which no call may be made until an operator releases the
            loop; None before.
    """

    broken: ToolDecision | None = None

    def __init__(
        self,
        client: Client,
        session: str,
        *,
        tenant: str | None = None,
        project: str | None = None,
        model: str | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        self._client = client
        fields = {"session": session, "tenant": tenant, "project": project, "model": model}
        self._fields = {name: value for name, value in fields.items() if value is not None}
        self._on_error = on_error or self._warn

    @property
    def headers(self) -> dict[str, str]:
        """The headers for the run's requests to models, so that a gateway counts them with it."""
        return {f"X-{name.title()}-ID": value for name, value in self._fields.items() if name != "model"}

    def before(self, tool: str, arguments: Any) -> ToolDecision | None:
        """Asks whether a call may be made. None means that it was not checked."""
        return self._ask(tool=tool, arguments=arguments)

    def after(self, tool: str, arguments: Any, result: Any, is_error: bool | None = None) -> ToolDecision | None:
        """Reports a call's result, or its error. None means that nobody heard of it."""
        known = {} if is_error is None else {"is_error": is_error}
        return self._ask(tool=tool, arguments=arguments, result=result, **known)

    def _ask(self, **call: Any) -> ToolDecision | None:
        if time.monotonic() < self._client._until:
            return None
        try:
            decision = self._client.check_tool(**self._fields, **call)
        except (CheckError, OSError, TypeError, ValueError, RecursionError) as err:
            if isinstance(err, OSError) or isinstance(err, CheckError) and err.status >= 500:
                self._client._until = time.monotonic() + _PAUSE
            self._on_error(err)
            return None
        self.broken = decision if decision.action == "break" else None
        return decision

    def _warn(self, err: Exception) -> None:
        if not self._client._warned:
            _log.warning("tool calls are not checked: %s", err)
        self._client._warned = True

    def lease(self, tool: str, arguments: Any) -> Lease:
        """Asks whether a call may be made; raises the decision's error if it is stopped."""
        decision = self.before(tool, arguments)
        if decision is not None:
            decision.raise_if_stopped()
        return Lease(self, tool, arguments, decision)

    def call(self, tool: str, arguments: Any, make: Callable[[], Any], *, stopped: Stopped = None, read: Read = None) -> Any:
        """Makes a call unless it is stopped, and reports its result.

        A call that is stopped raises the decision's error, or returns what stopped(decision)
        does. read(made) returns the result in what make() returns, and whether it is an error.
        """
        decision = self.before(tool, arguments)
        if decision is not None and not decision.allowed:
            return _stop(decision, stopped)
        lease = Lease(self, tool, arguments, decision)
        try:
            made = make()
        except Exception as err:
            lease.fail(err)
            raise
        lease.done(*(read(made) if read else (made,)))
        return made

    async def acall(self, tool: str, arguments: Any, make: Callable[[], Any], *, stopped: Stopped = None, read: Read = None) -> Any:
        """Does what call does for a coroutine. Checks are made in a thread."""
        decision = await asyncio.to_thread(self.before, tool, arguments)
        if decision is not None and not decision.allowed:
            return _stop(decision, stopped)
        lease = Lease(self, tool, arguments, decision)
        try:
            made = await make()
        except Exception as err:
            await asyncio.to_thread(lease.fail, err)
            raise
        await asyncio.to_thread(lease.done, *(read(made) if read else (made,)))
        return made

    def guard(self, tool: Callable[..., Any] | None = None, *, name: str | None = None, stopped: Stopped = None) -> Any:
        """Returns the tool with a check before each call, and a report of its result after it.

        It is a decorator too, and takes functions and coroutine functions; see call for what
        happens to a call that is stopped. decision.message is written for a model to read.
        """
        if tool is None:
            return functools.partial(self.guard, name=name, stopped=stopped)
        name = name or tool.__name__
        signature = inspect.signature(tool)
        if inspect.iscoroutinefunction(tool):

            @functools.wraps(tool)
            async def guarded(*args: Any, **kwargs: Any) -> Any:
                return await self.acall(name, _named(signature, args, kwargs), lambda: tool(*args, **kwargs), stopped=stopped)

        else:

            @functools.wraps(tool)
            def guarded(*args: Any, **kwargs: Any) -> Any:
                return self.call(name, _named(signature, args, kwargs), lambda: tool(*args, **kwargs), stopped=stopped)

        return guarded


class Lease:
    """One call that may be made.

    It is settled with its result, its error, or with the word that it was not made; what settles
    it again does nothing. One that is never settled counts as a call whose result is not known,
    and is forgotten with its session.

    Attributes:
        decision: the answer to the check; None if the call was not checked.
    """

    def __init__(self, run: Run, tool: str, arguments: Any, decision: ToolDecision | None) -> None:
        self.decision = decision
        self._run = run
        self._call = (tool, arguments)
        self._open = threading.Lock()

    def _settles(self) -> bool:
        return self._open.acquire(blocking=False)

    def done(self, result: Any, is_error: bool | None = None) -> None:
        """Reports the call's result, which may be an error that the tool returned."""
        if self._settles():
            self._run.after(*self._call, result, is_error)

    def fail(self, err: BaseException) -> None:
        """Reports what the call raised."""
        if self._settles():
            self._run.after(*self._call, str(err), True)

    def cancel(self) -> None:
        """Says that the call was not made. It counts no longer."""
        if self._settles() and self.decision is not None:
            tool, arguments = self._call
            self._run._ask(tool=tool, arguments=arguments, cancel=True)


def _stop(decision: ToolDecision, stopped: Stopped) -> Any:
    if stopped is not None:
        return stopped(decision)
    decision.raise_if_stopped()


def _named(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments by name, however they were passed."""
    try:
        return dict(signature.bind(*args, **kwargs).arguments)
    except TypeError:  # the tool itself says what is wrong with them
        return {"args": args, "kwargs": kwargs}
