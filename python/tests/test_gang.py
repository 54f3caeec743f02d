from collections.abc import Iterator
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes import client
from urllib3.exceptions import ProtocolError

from rollcall import Gang, RollcallError


class FakeLog:
    """The answer of the API server to a request for a log."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = parts
        self.closed = False

    def stream(self) -> Iterator[bytes]:
        yield from self.parts

    def close(self) -> None:
        self.closed = True


class FakeCore:
    """The part of the API that reads pods. The answers are given in order."""

    def __init__(self, pods: list[Any], *answers: FakeLog | client.ApiException) -> None:
        self.pods = pods
        self.answers = list(answers)
        self.requests: list[tuple[str, str]] = []

    def list_namespaced_pod(self, namespace: str, label_selector: str) -> Any:
        assert (namespace, label_selector) == ("team-a", "rollcall.training/gang=train")
        return SimpleNamespace(items=self.pods)

    def read_namespaced_pod_log(self, name: str, _: str, container: str, **__: Any) -> Any:
        self.requests.append((name, container))
        answer = self.answers.pop(0)
        if isinstance(answer, client.ApiException):
            raise answer
        return answer


def new_pod(name: str, age: int, **labels: str) -> Any:
    return client.V1Pod(
        metadata=client.V1ObjectMeta(
            name=name,
            labels={key.replace("__", "/").replace("_", "-"): v for key, v in labels.items()},
            creation_timestamp=datetime(2026, 1, 1) - timedelta(seconds=age),
        ),
        spec=client.V1PodSpec(containers=[client.V1Container(name="trainer")]),
        status=client.V1PodStatus(phase="Running"),
    )


def index(rank: int) -> dict[str, str]:
    return {"batch.kubernetes.io__job_completion_index": str(rank)}


def new_gang(core: FakeCore) -> Gang:
    gang = Gang("train", "team-a", client.ApiClient(client.Configuration()))
    gang._core = core
    return gang


def test_a_log_is_read_from_the_newest_pod_of_the_rank() -> None:
    log = FakeLog(b"fir", b"st\nsec\xc3", b"\xa4ond\n", b"last")
    pods = [
        new_pod("new", 1, **index(1)),
        new_pod("old", 9, **index(1)),
        new_pod("x", 0, **index(0)),
    ]
    core = FakeCore(pods, log)
    assert list(new_gang(core).logs(rank=1)) == ["first", "secäond", "last"]
    assert core.requests == [("new", "trainer")]
    assert log.closed


def test_the_label_with_the_rank_wins() -> None:
    pods = [new_pod("worker", 1, rollcall_training__rank="3", **index(0))]
    pods[0].metadata.labels["rollcall.training/rank"] = "3"
    core = FakeCore(pods, FakeLog(b"three\n"))
    assert list(new_gang(core).logs(rank=3)) == ["three"]


def test_a_container_that_has_not_started_has_no_lines() -> None:
    core = FakeCore([new_pod("train-0", 1, **index(0))], client.ApiException(status=400))
    assert list(new_gang(core).logs()) == []
    assert list(new_gang(core).logs(rank=5)) == []


def test_following_waits_for_the_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollcall.gang._RETRY_SECONDS", 0)
    answers = (client.ApiException(status=400), FakeLog(b"started\n"))
    gang = new_gang(FakeCore([new_pod("train-0", 1, **index(0))], *answers))
    gang._jobs = SimpleNamespace(read_namespaced_job=lambda *_: new_job("Running"))
    assert list(gang.logs(follow=True)) == ["started"]


def test_following_reads_a_log_that_appears_with_the_end() -> None:
    answers = (client.ApiException(status=400), FakeLog(b"ended\n"))
    gang = new_gang(FakeCore([new_pod("train-0", 1, **index(0))], *answers))
    gang._jobs = SimpleNamespace(read_namespaced_job=lambda *_: new_job("Failed"))
    assert list(gang.logs(follow=True)) == ["ended"]


@pytest.mark.parametrize("rank", [2, -1])
def test_following_a_rank_that_never_exists_fails(rank: int) -> None:
    gang = new_gang(FakeCore([]))
    gang._jobs = SimpleNamespace(read_namespaced_job=lambda *_: new_job("Pending"))
    with pytest.raises(LookupError, match=f"no rank {rank}; its ranks are 0 to 1"):
        list(gang.logs(rank=rank, follow=True))


def test_following_ends_with_a_gang_that_has_no_log() -> None:
    gang = new_gang(FakeCore([]))
    gang._jobs = SimpleNamespace(read_namespaced_job=lambda *_: new_job("Succeeded"))
    assert list(gang.logs(rank=1, follow=True)) == []


def test_following_the_log_of_a_deleted_job_fails() -> None:
    def read(*_: Any) -> Any:
        raise client.ApiException(status=404)

    gang = new_gang(FakeCore([]))
    gang._jobs = SimpleNamespace(read_namespaced_job=read)
    with pytest.raises(LookupError, match="was deleted"):
        list(gang.logs(follow=True))


def test_a_lost_connection_to_a_log_is_an_error_of_the_package() -> None:
    class LostLog(FakeLog):
        def stream(self) -> Iterator[bytes]:
            yield b"first\n"
            raise ProtocolError("reset")

    log = LostLog()
    lines = new_gang(FakeCore([new_pod("train-0", 1, **index(0))], log)).logs()
    assert next(lines) == "first"
    with pytest.raises(RollcallError, match="rank 0 is incomplete"):
        next(lines)
    assert log.closed


@pytest.mark.parametrize(("status", "container"), [(403, None), (400, "unknown")])
def test_other_errors_of_a_log_are_raised(status: int, container: str | None) -> None:
    core = FakeCore([new_pod("train-0", 1, **index(0))], client.ApiException(status=status))
    with pytest.raises(client.ApiException):
        list(new_gang(core).logs(container=container))


def new_job(phase: str) -> Any:
    text = f'{{"phase": "{phase}"}}'
    metadata = client.V1ObjectMeta(annotations={"rollcall.training/status": text})
    spec = client.V1JobSpec(completions=2, template=client.V1PodTemplateSpec())
    return client.V1Job(metadata=metadata, spec=spec)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ProtocolError("reset"), id="a closed connection"),
        pytest.param(client.ApiException(status=410), id="an old version"),
        pytest.param(client.ApiException(status=503), id="a restart of the API server"),
    ],
)
def test_following_survives(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [error, [{"type": "MODIFIED", "object": new_job("Succeeded")}]]

    def stream(*_: Any, **__: Any) -> Iterator[Any]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        yield from answer

    monkeypatch.setattr("rollcall.gang._RETRY_SECONDS", 0)
    monkeypatch.setattr("rollcall.gang.watch.Watch", lambda: SimpleNamespace(stream=stream))
    gang = new_gang(FakeCore([]))
    gang._jobs = SimpleNamespace(
        read_namespaced_job=lambda *_: new_job("Running"), list_namespaced_job=None
    )
    assert [status.phase for status in gang.follow()] == ["Running", "Succeeded"]


def test_following_without_permission_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def stream(*_: Any, **__: Any) -> Iterator[Any]:
        raise client.ApiException(status=403)
        yield

    monkeypatch.setattr("rollcall.gang.watch.Watch", lambda: SimpleNamespace(stream=stream))
    gang = new_gang(FakeCore([]))
    gang._jobs = SimpleNamespace(
        read_namespaced_job=lambda *_: new_job("Running"), list_namespaced_job=None
    )
    with pytest.raises(client.ApiException, match="403"):
        list(gang.follow())


def test_following_ends_when_the_job_was_deleted_before_the_watch() -> None:
    answers: list[Any] = [new_job("Running"), client.ApiException(status=404)]

    def read(*_: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    gang = new_gang(FakeCore([]))
    gang._jobs = SimpleNamespace(read_namespaced_job=read, list_namespaced_job=None)
    with pytest.raises(LookupError, match="deleted"):
        list(gang.follow())
