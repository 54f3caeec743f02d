"""The errors of this package. All other errors of the API server stay an ApiException."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rollcall.status import Status

_WEBHOOK = re.compile(r'^admission webhook "([^"]*)" denied the request')


class RollcallError(Exception):
    """The base of all errors of this package."""


class RollcallWarning(UserWarning):
    """A warning of the API server or of a webhook about an object that was admitted."""


class FunctionError(RollcallError):
    """A function cannot run in another process. The text contains the reason and the fix."""


class GangFailed(RollcallError):  # noqa: N818 (the name of the phase)
    """A gang failed. `status` names the rank that failed first."""

    def __init__(self, name: str, status: Status) -> None:
        """Describe the failure of the gang with the given status."""
        super().__init__(f"the gang {name} failed: {status.message}")
        self.status = status


@dataclass(frozen=True)
class Cause:
    """One mistake in an object."""

    field: str
    message: str

    @property
    def fix(self) -> str:
        """The part of the message that contains the fix, or an empty string."""
        rule, _, fix = self.message.rpartition("; ")
        return fix if rule else ""


class Denied(RollcallError):  # noqa: N818 (the word of the API server)
    """The API server or a webhook rejected an object.

    `causes` lists the mistakes, each with its field and a message with the fix. `webhook` is the
    name of the webhook that rejected the object, or an empty string. `message` is the whole answer.
    """

    def __init__(self, message: str, causes: tuple[Cause, ...] = (), code: int = 0) -> None:
        """Describe an answer of the API server."""
        match = _WEBHOOK.match(message)
        self.message = message
        self.causes = causes
        self.code = code
        self.webhook = match.group(1) if match else ""
        super().__init__(message)

    def __str__(self) -> str:
        """Return one line for each mistake, or the whole answer if it lists none."""
        if not self.causes:
            return self.message
        return "\n".join(["rejected:", *(f"  {c.field}: {c.message}" for c in self.causes)])


def parse_denial(body: str | bytes | None) -> Denied | None:
    """Return the denial that the body of an answer contains, or None for another error.

    A denial is an invalid object (HTTP code 422), or a refusal of a webhook or a policy.
    """
    try:
        answer: Any = json.loads(body or "null")
    except ValueError:
        return None
    if not isinstance(answer, dict):
        return None
    message = str(answer.get("message", ""))
    is_refusal = "denied the request" in message or "denied request" in message
    if answer.get("code") != 422 and not is_refusal:
        return None
    listed = (answer.get("details") or {}).get("causes") or []
    causes = tuple(Cause(c.get("field", ""), c.get("message", "")) for c in listed)
    return Denied(message, causes, int(answer.get("code", 0)))
