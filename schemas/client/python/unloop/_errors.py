"""The errors of the SDK, and how they are found behind the errors of others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

_CODE = "recursive_loop_detected"


class StoppedError(Exception):
    """A request or a call must not be sent. The subclasses say why."""


class LoopDetectedError(StoppedError):
    """The request or call is part of a loop. The same one would be stopped again.

    Attributes:
        action: "reject", "break" or, for a tool's call, "block".
        detector, policy: those that found the loop.
        fingerprint: identifies the repeated content, in 64 hex digits.
        hit_count: how often it was seen within window_seconds, this time included.
        cooldown_seconds: how long such a block lasts; 0 if only the window matters.
        loop_id: names the incident in events and for ``unloop loops``.
        retry_after_seconds: how long to wait until the request passes again; 0 where
            waiting does not help.
    """

    def __init__(
        self,
        message: str = "",
        *,
        action: str = "reject",
        detector: str = "",
        policy: str = "",
        fingerprint: str = "",
        hit_count: int = 0,
        window_seconds: int = 0,
        cooldown_seconds: int = 0,
        loop_id: str = "",
        retry_after_seconds: int = 0,
    ) -> None:
        super().__init__(message or f"{_CODE}: seen {hit_count} times (detector {detector})")
        self.action = action
        self.detector = detector
        self.policy = policy
        self.fingerprint = fingerprint
        self.hit_count = hit_count
        self.window_seconds = window_seconds
        self.cooldown_seconds = cooldown_seconds
        self.loop_id = loop_id
        self.retry_after_seconds = retry_after_seconds


class UncheckedError(StoppedError):
    """The request could not be checked, and a policy forbids to send such requests."""


class KilledError(StoppedError):
    """An operator stops requests like this one."""


class LimitedError(StoppedError):
    """The limit of a rule is reached."""


class CheckError(Exception):
    """An answer of the check API that is no decision: the check is malformed, or refused."""

    def __init__(self, status: int, code: str = "", field: str = "", message: str = "") -> None:
        super().__init__(f"check API: HTTP status {status}" + (f": {message}" if message else ""))
        self.status = status
        self.code = code
        self.field = field


def loop_error(err: BaseException | None) -> LoopDetectedError | None:
    """Returns the LoopDetectedError behind the error of an SDK, a framework or an HTTP client.

    None means that the error has another reason. Errors of OpenAI, Anthropic, Google, AWS,
    LiteLLM, httpx, requests and urllib are known by their attributes.
    """
    seen: set[int] = set()
    while err is not None and id(err) not in seen:
        seen.add(id(err))
        if isinstance(err, LoopDetectedError):
            return err
        response = getattr(err, "response", None)
        found = from_answer(_headers(err, response), _bodies(err, response))
        if found is not None:
            found.__cause__ = err
            return found
        err = err.__cause__ or err.__context__
    return None


def from_answer(headers: Mapping[str, str], bodies: Iterable[Any]) -> LoopDetectedError | None:
    """Returns the error of an answer with an error's status.

    The headers, whose names are in lower case, are enough if a proxy or an SDK replaced the
    body.
    """
    detail = next((d for d in map(_detail, bodies) if d), None)
    if detail is None:
        # An upstream's own rate limit may have the headers of a warning.
        if headers.get("x-loop-action") not in ("reject", "break") or headers.get("x-loop-reason") != "loop_detected":
            return None
        detail = {"detector": headers.get("x-loop-detector"), "hit_count": headers.get("x-loop-count")}
    return LoopDetectedError(
        detail.get("message") or "",
        action=headers.get("x-loop-action") or "reject",
        retry_after_seconds=whole(headers.get("retry-after")),
        **found_in(detail),
    )


def found_in(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a finding, or the detail of an answer, says about its loop."""
    words = {name: str(fields.get(name) or "") for name in ("detector", "policy", "fingerprint", "loop_id")}
    return words | {name: whole(fields.get(name)) for name in ("hit_count", "window_seconds", "cooldown_seconds")}


def whole(value: Any) -> int:
    """Returns a whole number that is not negative, 0 for anything else."""
    try:
        return max(int(value), 0)
    except (TypeError, ValueError, OverflowError):
        return 0


def _detail(body: Any) -> Mapping[str, Any] | None:
    """Returns the part that all formats' answers to a loop have in common.

    SDKs keep the answer's JSON, or a member of it.
    """
    if isinstance(body, (str, bytes)):
        try:
            body = json.loads(body)
        except ValueError:
            return None
    if not isinstance(body, Mapping):
        return None
    for shape in (body, body.get("error")):
        detail = shape.get("detail") if isinstance(shape, Mapping) else None
        if isinstance(detail, Mapping) and detail.get("error") == _CODE:
            return detail
    return None


def _headers(err: BaseException, response: Any) -> dict[str, str]:
    """Returns the headers of the answer that an error has."""
    if isinstance(response, Mapping):  # botocore
        headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    else:
        headers = getattr(response, "headers", None) or getattr(err, "headers", None) or {}
    return {str(name).lower(): str(value) for name, value in headers.items()} if hasattr(headers, "items") else {}


def _bodies(err: BaseException, response: Any) -> list[Any]:
    """Returns what of an error may be the body of an answer."""
    bodies = [getattr(err, name, None) for name in ("body", "details", "message")]
    bodies.append(response if isinstance(response, Mapping) else _text(response))
    read = getattr(err, "read", None)  # urllib: the body is read here, once
    if callable(read) and getattr(err, "code", None) is not None:
        try:
            bodies.append(read())
        except OSError:
            pass
    return bodies


def _text(response: Any) -> Any:
    try:
        return getattr(response, "text", None)
    except Exception:  # the text of an httpx stream that was not read
        return None
