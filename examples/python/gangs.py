"""Create a gang, follow it, and read its logs with the official Python client of Kubernetes.

A gang is a Job with a label, so nothing else is necessary. Each function also works in a notebook.
"""

import json
import time

from kubernetes import client, watch

FRAMEWORK = "rollcall.training/framework"
GANG = "rollcall.training/gang"
RANK = "rollcall.training/rank"
STATUS = "rollcall.training/status"
FINISHED = ("Succeeded", "Failed")


def create_gang(name, image, command, framework="pytorch", pods=2, gpus=0, namespace="default"):
    """Create a Job that becomes a gang, and return it.

    Admission rejects a Job with mistakes. The ApiException then contains a message with the fix.
    """
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    container = {"name": "trainer", "image": image, "command": command, "resources": resources}
    job = {
        "metadata": {"name": name, "labels": {FRAMEWORK: framework}},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
    return client.BatchV1Api().create_namespaced_job(namespace, job)


def read_status(job):
    """Return the status of the gang that a Job belongs to: phase, reason, message and more."""
    return json.loads((job.metadata.annotations or {}).get(STATUS, "{}"))


def follow_gang(name, namespace="default", timeout=3600):
    """Yield the status of a gang whenever its phase changes, until the gang has finished."""
    api = client.BatchV1Api()
    end = time.monotonic() + timeout
    phase = None
    while (remaining := int(end - time.monotonic())) > 0:
        jobs = watch.Watch().stream(
            api.list_namespaced_job,
            namespace,
            field_selector=f"metadata.name={name}",
            timeout_seconds=min(remaining, 300),
        )
        for event in jobs:
            if event["type"] == "DELETED":
                raise LookupError(f"the Job {name} was deleted")
            status = read_status(event["object"])
            if status.get("phase") != phase:
                phase = status.get("phase")
                yield status
            if phase in FINISHED:
                return
    raise TimeoutError(f"the gang {name} has not finished after {timeout} seconds: its phase is {phase}")


def read_logs(name, namespace="default", container=None):
    """Return the log of each rank, in the order of the ranks. A rank without a log has None."""
    api = client.CoreV1Api()
    pods = api.list_namespaced_pod(namespace, label_selector=f"{GANG}={name}").items
    newest = {}
    for pod in sorted(pods, key=lambda pod: pod.metadata.creation_timestamp):
        newest[find_rank(pod)] = pod
    logs = {}
    for rank in sorted(newest):
        try:
            logs[rank] = api.read_namespaced_pod_log(newest[rank].metadata.name, namespace, container=container)
        except client.ApiException as error:
            if error.status != 400:  # the container has not started
                raise
            logs[rank] = None
    return logs


def find_rank(pod):
    """Return the rank of a pod. In a gang of one workload, the rank is the index of the pod."""
    labels = pod.metadata.labels
    return int(labels.get(RANK) or labels.get("batch.kubernetes.io/job-completion-index") or labels["apps.kubernetes.io/pod-index"])


def delete_gang(name, namespace="default"):
    """Delete the Job and its pods."""
    client.BatchV1Api().delete_namespaced_job(name, namespace, propagation_policy="Foreground")
