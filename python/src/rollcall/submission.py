"""Creates gangs."""

from __future__ import annotations

import re
import secrets
import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubernetes import client

from rollcall.errors import RollcallWarning, parse_denial
from rollcall.function import build_program
from rollcall.gang import Gang
from rollcall.status import PREFIX

_PROGRAM_DIRECTORY = "/mnt/program"
_PROGRAM_FILE = "program.py"
# The launchers that start the processes of a pod from the variables of Rollcall. python3 -m works
# without torchrun in the path, and runs the Python for which pip installs packages.
_TORCHRUN = ("python3", "-m", "torch.distributed.run")
_LAUNCHERS: dict[str, Sequence[str]] = {
    "pytorch": _TORCHRUN,
    "deepspeed": _TORCHRUN,
    "paddle": ("python3", "-m", "paddle.distributed.launch"),
}
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


def submit(
    name: str,
    program: Sequence[str] | Callable[..., Any],
    *,
    image: str,
    framework: str = "pytorch",
    namespace: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    launcher: Sequence[str] | None = None,
    change: Callable[[dict[str, Any]], object] | None = None,
    dry_run: bool = False,
    api_client: client.ApiClient | None = None,
    **options: Any,  # noqa: ANN401 (the options of build_job)
) -> Gang:
    """Create a gang and return it.

    `program` is a command, or a function with its `arguments`. A function must import what it uses,
    because a ConfigMap with only its source travels to the pods. `launcher` is the command that
    runs the function. By default, it is torchrun for pytorch and deepspeed, Paddle's launcher for
    paddle, and otherwise python3, which starts one process in each pod. The other options are those
    of build_job. `change` gets the Job before it is created, to set other fields.

    Denied is raised for a Job with mistakes, and FunctionError for a function that cannot travel.
    Warnings of the cluster become a RollcallWarning. With `dry_run`, the API server and the webhook
    check the Job, but nothing is created.
    """
    source = None
    config_map = f"{name}-program-{secrets.token_hex(3)}"
    if callable(program):
        source = build_program(program, arguments or {})
        launcher = launcher or _LAUNCHERS.get(framework, ("python3",))
        program = [*launcher, f"{_PROGRAM_DIRECTORY}/{_PROGRAM_FILE}"]
    elif arguments or launcher:
        raise TypeError("arguments and launcher are only for functions; put them into the command")
    job = build_job(name, program, image=image, framework=framework, **options)
    if source is not None:
        _mount_program(job, config_map)
    if change is not None:
        change(job)
    gang = Gang(name, namespace, api_client)
    created = _create_job(gang, job, dry_run)
    if source is not None and not dry_run:
        _create_program(gang, created, config_map, source)
    return gang


def build_job(
    name: str,
    command: Sequence[str],
    *,
    image: str,
    framework: str = "pytorch",
    pods: int = 1,
    gpus: int = 0,
    resources: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    packages: Sequence[str] = (),
    settings: Mapping[str, object] | None = None,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the Job of a gang. It needs no cluster.

    `gpus` counts the accelerators of each pod, `resources` contains other requests that are also
    limits. `packages` are installed by pip before the command starts. `settings` are annotations of
    Rollcall without their prefix, such as {"max-restarts": 5}.
    """
    if isinstance(command, str):
        raise TypeError('the command is a text; pass a list, such as ["torchrun", "train.py"]')
    if packages:
        install = shlex.join(["python3", "-m", "pip", "install", "--quiet", *packages])
        command = ["sh", "-c", f"{install} && exec {shlex.join(command)}"]
    annotations = {PREFIX + key: str(value) for key, value in (settings or {}).items()}
    if gpus:
        annotations[PREFIX + "gpus"] = str(gpus)
    container: dict[str, Any] = {"name": "trainer", "image": image, "command": list(command)}
    if resources:
        container["resources"] = {"requests": dict(resources), "limits": dict(resources)}
    if env:
        container["env"] = [{"name": key, "value": value} for key, value in env.items()]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": {PREFIX + "framework": framework, **(labels or {})},
            "annotations": annotations,
        },
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def _mount_program(job: dict[str, Any], config_map: str) -> None:
    """Mount the ConfigMap with the program in the training container."""
    pod = job["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "program", "configMap": {"name": config_map}}]
    mount = {"name": "program", "mountPath": _PROGRAM_DIRECTORY, "readOnly": True}
    pod["containers"][0]["volumeMounts"] = [mount]


def _create_job(gang: Gang, job: dict[str, Any], dry_run: bool) -> Any:
    """Create a Job, and pass on the warnings of the API server."""
    options = {"dry_run": "All"} if dry_run else {}
    try:
        created, _, headers = gang._jobs.create_namespaced_job_with_http_info(
            gang.namespace, job, **options
        )
    except client.ApiException as error:
        denial = parse_denial(error.body)
        if denial is None:
            raise
        raise denial from error
    for text in _WARNING.findall(headers.get("Warning", "")):
        warnings.warn(text.replace('\\"', '"'), RollcallWarning, stacklevel=3)
    if PREFIX + "injected" not in (created.metadata.annotations or {}):
        text = "the cluster admitted the Job without Rollcall, so it is no gang; see rollcall check"
        warnings.warn(text, RollcallWarning, stacklevel=3)
    return created


def _create_program(gang: Gang, job: Any, name: str, source: str) -> None:
    """Create the ConfigMap with a program. Kubernetes deletes it with the Job that owns it.

    Pods wait until it exists. The Job comes first, so that a rejected Job leaves nothing behind.
    """
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": gang.name, "uid": job.metadata.uid}
    config_map = {
        "metadata": {"name": name, "ownerReferences": [owner]},
        "data": {_PROGRAM_FILE: source},
        "immutable": True,
    }
    try:
        gang._core.create_namespaced_config_map(gang.namespace, config_map)
    except BaseException:  # an interrupted call, too: pods would wait for their program
        gang.delete()
        raise
