"""The status of a gang: the documented fields of the annotation of Rollcall, and the pods."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

PREFIX = "rollcall.training/"
FINISHED = ("Succeeded", "Failed")

_COLORS = {
    "Running": "#1565c0",
    "Succeeded": "#2e7d32",
    "Failed": "#c62828",
    "Restarting": "#ad1457",
    "Suspended": "#6a1b9a",
}
_OTHER_COLOR = "#616161"


@dataclass(frozen=True)
class Rank:
    """The newest pod of a rank. `phase` is the phase of the pod in Kubernetes."""

    rank: int
    pod: str
    node: str
    phase: str


@dataclass(frozen=True)
class Status:
    """The status of a gang. `phase` is an empty string if Rollcall did not inject the Job.

    The page "Status of a gang" of Rollcall describes the fields, and those of `first_failure`, such
    as rank, pod, node, exitCode and message. `raw` contains the whole annotation.
    """

    name: str
    phase: str
    reason: str
    message: str
    restarts: int
    disruptions: int
    first_failure: Mapping[str, Any] | None
    seconds: Mapping[str, float]
    ranks: tuple[Rank, ...]
    raw: Mapping[str, Any]

    @property
    def finished(self) -> bool:
        """Whether the gang has succeeded or failed."""
        return self.phase in FINISHED

    def _repr_html_(self) -> str:
        """Return the status for a notebook."""
        rows = {"restarts": str(self.restarts), "disruptions": str(self.disruptions or "")}
        if failure := self.first_failure:
            rows["first failure"] = self._describe_failure(failure)
            rows["last words"] = failure.get("message", "")
        table = "".join(
            f'<tr><th style="text-align:left">{key}</th>'
            f'<td style="text-align:left;white-space:pre-wrap">{escape(value)}</td></tr>'
            for key, value in rows.items()
            if value
        )
        grid = "".join(
            f'<span title="{escape(f"rank {r.rank}: {r.phase}, pod {r.pod}, node {r.node}")}" '
            'style="display:inline-block;min-width:2em;margin:1px;text-align:center;color:#fff;'
            f'background:{_COLORS.get(r.phase, _OTHER_COLOR)}">{r.rank}</span>'
            for r in self.ranks
        )
        color = _COLORS.get(self.phase, _OTHER_COLOR)
        return (
            f'<div><b>{escape(self.name)}</b> <b style="color:{color}">{escape(self.phase)}</b> '
            f"{escape(self.message)}</div><div>{grid}</div><table>{table}</table>"
        )

    def _describe_failure(self, failure: Mapping[str, Any]) -> str:
        rank = failure.get("rank", -1)
        parts = [f"rank {rank}" if rank >= 0 else "no rank"]
        parts += [f"{key} {failure[key]}" for key in ("pod", "node", "reason") if key in failure]
        if "exitCode" in failure:
            parts.append(f"exit code {failure['exitCode']}")
        return ", ".join(parts)


def parse_status(name: str, annotations: Mapping[str, str], ranks: tuple[Rank, ...]) -> Status:
    """Return the status in the annotations of a Job, with the given ranks."""
    raw = json.loads(annotations.get(PREFIX + "status", "{}"))
    return Status(
        name=name,
        phase=raw.get("phase", ""),
        reason=raw.get("reason", ""),
        message=raw.get("message", ""),
        restarts=raw.get("restarts", 0),
        disruptions=raw.get("disruptions", 0),
        first_failure=raw.get("firstFailure"),
        seconds=raw.get("seconds", {}),
        ranks=ranks,
        raw=raw,
    )
