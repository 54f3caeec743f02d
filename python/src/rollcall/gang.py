"""Reads, follows and deletes gangs of one Job."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

from kubernetes import client, watch
from urllib3.exceptions import HTTPError

from rollcall.connection import connect, current_namespace
from rollcall.errors import GangFailed, RollcallError
from rollcall.progress import LIMIT_BYTES, TAIL_LINES, Progress, read_progress
from rollcall.status import FINISHED, PREFIX, Rank, Status, parse_status

_RANK = PREFIX + "rank"
_INDEX = "batch.kubernetes.io/job-completion-index"
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_WATCH_SECONDS = 300
_RETRY_SECONDS = 2.0


class Gang:
    """A gang of one Job, in any state. The constructor sends no request.

    Each method raises ApiException for an error of the API server, such as code 404 if the Job does
    not exist.
    """

    def __init__(
        self, name: str, namespace: str | None = None, api_client: client.ApiClient | None = None
    ) -> None:
        """Refer to a Job by name. The defaults are those of kubectl, or of the pod's account."""
        self.name = name
        self.namespace = namespace or current_namespace()
        api_client = api_client or connect()
        self._jobs = client.BatchV1Api(api_client)
        self._core = client.CoreV1Api(api_client)

    def __repr__(self) -> str:
        """Return the name and the namespace."""
        return f"Gang({self.name!r}, namespace={self.namespace!r})"

    def _repr_html_(self) -> str:
        """Return the current status for a notebook."""
        return self.status()._repr_html_()

    def status(self) -> Status:
        """Return the current status, with the ranks that have a pod."""
        return self._parse(self._jobs.read_namespaced_job(self.name, self.namespace))

    def follow(self, timeout: float = 24 * 3600) -> Iterator[Status]:
        """Yield the status at each change of the phase, until the gang has finished.

        TimeoutError is raised after `timeout` seconds, and LookupError if the Job is deleted.
        """
        end = time.monotonic() + timeout
        job = self._jobs.read_namespaced_job(self.name, self.namespace)
        phase: str | None = None
        while True:
            status = self._parse(job)
            if status.phase != phase:
                phase = status.phase
                yield status
            if status.finished:
                return
            job = self._wait_for_phase_change(status.phase, end)

    def wait(self, timeout: float = 24 * 3600) -> Status:
        """Return the status when the gang has succeeded. Raise GangFailed when it has failed.

        TimeoutError is raised after `timeout` seconds, and LookupError if the Job is deleted.
        """
        for status in self.follow(timeout):
            if status.phase == "Failed":
                raise GangFailed(self.name, status)
        return status

    def logs(
        self, rank: int = 0, *, follow: bool = False, container: str | None = None
    ) -> Iterator[str]:
        """Yield the lines of the log of a rank, from the newest pod of the rank.

        With `follow`, wait until the rank has a log or the gang has finished, and end when the pod
        ends. Without, a rank without a log has no lines. The default container is the one that
        kubectl would read. LookupError is raised if no such rank can appear, and RollcallError if
        the connection is lost before the log ends.
        """
        finished = not follow
        while (answer := self._open_log(rank, follow, container)) is None:
            if finished:
                return
            finished = self._has_finished(rank)  # since the log was opened, so open it once more
            time.sleep(0 if finished else _RETRY_SECONDS)
        rest = b""
        try:
            for part in answer.stream():
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    yield line.decode(errors="replace")
        except HTTPError as error:
            raise RollcallError(f"the log of rank {rank} is incomplete: {error}") from error
        finally:
            answer.close()
        if rest:
            yield rest.decode(errors="replace")

    def progress(self) -> Progress | None:
        """Return how far rank 0 is, from the end of its log. None if the log does not show it.

        The gang needs the annotation rollcall.training/progress-pattern, and you need permission to
        read logs. RollcallError is raised for a pattern that Python does not understand.
        """
        job = self._jobs.read_namespaced_job(self.name, self.namespace)
        pattern = (job.metadata.annotations or {}).get(PREFIX + "progress-pattern")
        if not pattern:
            return None
        options = {"timestamps": True, "tail_lines": TAIL_LINES, "limit_bytes": LIMIT_BYTES}
        if (answer := self._open_log(0, follow=False, container=None, **options)) is None:
            return None
        try:
            log = b"".join(answer.stream()).decode(errors="replace")
            return read_progress(pattern, log)
        except (HTTPError, re.error) as error:
            raise RollcallError(f"the progress of {self.name} is not known: {error}") from error
        finally:
            answer.close()

    def delete(self) -> None:
        """Delete the Job, its pods, and the program that submit created."""
        self._jobs.delete_namespaced_job(self.name, self.namespace, propagation_policy="Foreground")

    def _open_log(self, rank: int, follow: bool, container: str | None, **options: Any) -> Any:
        """Return the stream of a log, or None if the rank has no log yet."""
        pod = self._newest_pods().get(rank)
        if pod is None:
            return None
        default = (pod.metadata.annotations or {}).get(_DEFAULT_CONTAINER)
        container = container or default or pod.spec.containers[0].name
        try:
            return self._core.read_namespaced_pod_log(
                pod.metadata.name,
                self.namespace,
                container=container,
                follow=follow,
                _preload_content=False,
                **options,
            )
        except client.ApiException as error:
            # The container has not started (400), or the pod was deleted in the meantime (404).
            names = [c.name for c in (pod.spec.init_containers or []) + pod.spec.containers]
            if error.status not in (400, 404) or container not in names:
                raise
            return None

    def _has_finished(self, rank: int) -> bool:
        """Return whether the gang has finished. Fail if the rank does not exist and never will."""
        try:
            job = self._jobs.read_namespaced_job(self.name, self.namespace)
        except client.ApiException as error:
            if error.status != 404:
                raise
            raise LookupError(f"the Job {self.name} was deleted") from error
        ranks = range(job.spec.completions or 1)
        if rank not in ranks and rank not in self._newest_pods():
            text = f"the gang {self.name} has no rank {rank}; its ranks are 0 to {ranks[-1]}"
            raise LookupError(text)
        return self._phase(job) in FINISHED

    def _newest_pods(self) -> dict[int, Any]:
        """Return the newest pod of each rank."""
        pods = self._core.list_namespaced_pod(
            self.namespace, label_selector=f"{PREFIX}gang={self.name}"
        ).items
        newest = {}
        for pod in sorted(pods, key=lambda pod: pod.metadata.creation_timestamp):
            labels = pod.metadata.labels
            index = labels.get(_RANK) or labels.get(_INDEX)
            if index is not None:
                newest[int(index)] = pod
        return newest

    def _parse(self, job: Any) -> Status:
        ranks = tuple(
            Rank(rank, pod.metadata.name, pod.spec.node_name or "", pod.status.phase or "")
            for rank, pod in sorted(self._newest_pods().items())
        )
        return parse_status(self.name, job.metadata.annotations or {}, ranks)

    def _phase(self, job: Any) -> str:
        """Return the phase of the gang in its Job."""
        return parse_status(self.name, job.metadata.annotations or {}, ()).phase

    def _wait_for_phase_change(self, phase: str, end: float) -> Any:
        """Return the Job when it has another phase than the given one."""
        while (remaining := end - time.monotonic()) > 0:
            try:
                # A watch does not report what happened before it, such as the deletion of the Job.
                job = self._jobs.read_namespaced_job(self.name, self.namespace)
                if self._phase(job) != phase:
                    return job
                events = watch.Watch().stream(
                    self._jobs.list_namespaced_job,
                    self.namespace,
                    field_selector=f"metadata.name={self.name}",
                    resource_version=job.metadata.resource_version,
                    timeout_seconds=max(1, int(min(remaining, _WATCH_SECONDS))),
                )
                for event in events:
                    if event["type"] == "DELETED":
                        raise LookupError(f"the Job {self.name} was deleted")
                    if self._phase(event["object"]) != phase:
                        return event["object"]
            except client.ApiException as error:
                if error.status == 404:
                    raise LookupError(f"the Job {self.name} was deleted") from error
                if error.status not in (410, 429) and error.status < 500:
                    raise
                time.sleep(_RETRY_SECONDS)
            except HTTPError:  # the API server restarts, or a proxy closed the connection
                time.sleep(_RETRY_SECONDS)
        raise TimeoutError(f"the gang {self.name} has not finished: its phase is {phase or '-'}")


def list_gangs(
    namespace: str | None = None, api_client: client.ApiClient | None = None
) -> list[Gang]:
    """Return the gangs of Jobs in a namespace."""
    api_client = api_client or connect()
    namespace = namespace or current_namespace()
    jobs = client.BatchV1Api(api_client).list_namespaced_job(
        namespace, label_selector=f"{PREFIX}framework"
    )
    return [Gang(job.metadata.name, namespace, api_client) for job in jobs.items]
