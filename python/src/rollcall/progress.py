"""How far a program is, from the end of its log. The rules are those of `rollcall status`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

TAIL_LINES = 500
LIMIT_BYTES = 512 * 1024
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(?:Z|([+-]\d\d:\d\d))")


@dataclass(frozen=True)
class Progress:
    """What the matching lines of a log show. A number that is not known is None.

    `time` is when the last line was printed, `rate` the number of steps in a second, and
    `remaining_seconds` the time from the last line to the last step at this rate. Without the group
    step, `rate` is that of lines.
    """

    time: datetime
    step: float | None
    total: float | None
    rate: float | None
    remaining_seconds: float | None


def read_progress(pattern: str, log: str) -> Progress | None:
    """Return what a log with times shows, or None if no complete line matches."""
    expression = re.compile(re.sub(r"\(\?<(step|total|stop|fault)>", r"(?P<\1>", pattern))
    found: list[tuple[datetime, float | None, float | None]] = []
    for line in log.split("\n")[:-1]:
        stamp, _, text = line.partition(" ")
        time = _parse_time(stamp)
        parts = reversed(text.split("\r"))  # a progress bar overwrites its line
        match = next((m for m in map(expression.search, parts) if m), None)
        if time is None or match is None:
            continue
        groups = match.groupdict()
        if groups.get("stop") or groups.get("fault"):
            continue
        step, total = _parse_number(groups.get("step")), _parse_number(groups.get("total"))
        if found and _starts_again(found[-1][1], step):
            found.clear()
        found.append((time, step, total))
    if not found:
        return None
    (first_time, first_step, _), (time, step, total) = found[0], found[-1]
    seconds = (time - first_time).total_seconds()
    steps = len(found) - 1.0
    if step is not None and first_step is not None:
        steps = step - first_step
    rate = steps / seconds if seconds > 0 and steps > 0 else None
    remaining = None
    if rate and step is not None and total is not None and total >= step:
        remaining = (total - step) / rate
    return Progress(time, step, total, rate, remaining)


def _starts_again(last: float | None, step: float | None) -> bool:
    if last is None or step is None:
        return (last is None) != (step is None)
    return step < last


def _parse_time(text: str) -> datetime | None:
    if not (match := _TIME.fullmatch(text)):
        return None
    seconds, fraction, zone = match.groups()
    return datetime.fromisoformat(f"{seconds}.{(fraction or '')[:6]:0<6}{zone or '+00:00'}")


def _parse_number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if abs(number) <= 1e15 else None
