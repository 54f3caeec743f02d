from datetime import datetime, timedelta, timezone

import pytest
from kubernetes import client
from test_gang import FakeCore, FakeLog, index, new_gang, new_job, new_pod

from rollcall import Progress, RollcallError
from rollcall.progress import read_progress

PATTERN = r"step (?P<step>[\d.]+)(?:/(?P<total>\d+))?"
START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def new_log(*lines: str) -> str:
    """Return a log whose lines were printed 10 seconds apart."""
    times = (START + timedelta(seconds=10 * i) for i in range(len(lines)))
    return "".join(
        f"{t:%Y-%m-%dT%H:%M:%S}.000000001Z {x}\n" for t, x in zip(times, lines, strict=True)
    )


def at(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("log", "want"),
    [
        pytest.param("", None, id="an empty log"),
        pytest.param(new_log("loading"), None, id="no line matches"),
        pytest.param(
            new_log("step 3/10"), Progress(at(0), 3, 10, None, None), id="one line has no rate"
        ),
        pytest.param(
            new_log("step 3/10", "checkpoint", "step 5/10"),
            Progress(at(20), 5, 10, 0.1, 50),
            id="several lines",
        ),
        pytest.param(
            new_log("step 3", "step 4.5"), Progress(at(10), 4.5, None, 0.15, None), id="no total"
        ),
        pytest.param(
            new_log("step 99/100", "step 1/100", "step 3/100"),
            Progress(at(20), 3, 100, 0.2, 485),
            id="the steps started again",
        ),
        pytest.param(
            new_log("step 9/10", "step 11/10"),
            Progress(at(10), 11, 10, 0.2, None),
            id="a step beyond the total",
        ),
        pytest.param(
            new_log("step 1/10\rstep 2/10\r"),
            Progress(at(0), 2, 10, None, None),
            id="the last state of a progress bar",
        ),
        pytest.param(
            new_log("step 1") + "2026-03-01T12:00:10Z step 2",
            Progress(at(0), 1, None, None, None),
            id="a last line that is cut",
        ),
        pytest.param(
            "of a longer line step 7\n2026-03-01T13:00:00.5+01:00 step 1\n",
            Progress(at(0) + timedelta(seconds=0.5), 1, None, None, None),
            id="a time of another zone",
        ),
    ],
)
def test_logs(log: str, want: Progress | None) -> None:
    assert read_progress(PATTERN, log) == want
    assert read_progress(PATTERN.replace("?P<", "?<"), log) == want  # RE2 has both forms


def test_a_pattern_without_groups() -> None:
    assert read_progress("epoch", new_log("epoch", "", "epoch")) == Progress(
        at(20), None, None, 0.05, None
    )


def test_lines_that_are_no_progress() -> None:
    log = new_log("step 3", "Evaluating", "step 4, loss nan")
    pattern = r"(?<stop>Evaluating)|step (?<step>\d+)(?<fault>, loss nan)?"
    assert read_progress(pattern, log) == Progress(at(0), 3, None, None, None)


def annotate(
    core: FakeCore, pattern: str | None, monkeypatch: pytest.MonkeyPatch
) -> Progress | None:
    """Return the progress of a gang with a pattern."""
    job = new_job("Running")
    if pattern is not None:
        job.metadata.annotations["rollcall.training/progress-pattern"] = pattern
    gang = new_gang(core)
    monkeypatch.setattr(gang._jobs, "read_namespaced_job", lambda *_: job)
    return gang.progress()


def test_the_progress_of_a_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    log = FakeLog(new_log("step 1").encode())
    core = FakeCore([new_pod("train-0", 1, **index(0))], log)
    assert annotate(core, PATTERN, monkeypatch) == Progress(at(0), 1, None, None, None)
    assert log.closed


def test_a_gang_without_a_pattern_reads_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    core = FakeCore([new_pod("train-0", 1, **index(0))])
    assert annotate(core, None, monkeypatch) is None
    assert core.requests == []


def test_rank_0_without_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    core = FakeCore([new_pod("train-0", 1, **index(0))], client.ApiException(status=400))
    assert annotate(core, PATTERN, monkeypatch) is None


def test_a_pattern_of_re2_only(monkeypatch: pytest.MonkeyPatch) -> None:
    core = FakeCore([new_pod("train-0", 1, **index(0))], FakeLog(b""))
    with pytest.raises(RollcallError, match="progress of train is not known"):
        annotate(core, r"\pL+", monkeypatch)
