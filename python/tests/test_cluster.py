"""Tests with a real API server and the real programs of Rollcall.

KUBECONFIG and ROLLCALL_TEST_NAMESPACE name the cluster and an empty namespace. The cluster has no
nodes, so the tests report the status of pods as a kubelet does.
"""

import os
import re
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import nbformat
import pytest
from kubernetes import client
from nbclient import NotebookClient

import rollcall
from rollcall.connection import connect

NAMESPACE = os.environ.get("ROLLCALL_TEST_NAMESPACE", "")
IMAGE = "registry.example.com/train:1"

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "python" / "train.ipynb"
PAGE = ROOT / "docs" / "tasks" / "use-python.md"

pytestmark = pytest.mark.skipif(not NAMESPACE, reason="ROLLCALL_TEST_NAMESPACE is not set")


@pytest.fixture(scope="module")
def api() -> client.ApiClient:
    return connect()


@pytest.fixture(autouse=True)
def fail_for_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", rollcall.RollcallWarning)
        yield


def submit(name: str, program: Any = ("true",), **options: Any) -> rollcall.Gang:
    return rollcall.submit(name, program, image=IMAGE, namespace=NAMESPACE, **options)


def wait_until(condition: Callable[[], Any]) -> Any:
    """Return the first result that is true. The time limit is that of the test run."""
    while not (result := condition()):
        time.sleep(0.2)
    return result


def list_pods(api: client.ApiClient, gang: rollcall.Gang) -> list[Any]:
    selector = f"rollcall.training/gang={gang.name}"
    pods = client.CoreV1Api(api).list_namespaced_pod(NAMESPACE, label_selector=selector).items
    return [pod for pod in pods if pod.metadata.deletion_timestamp is None]


def end_pods(api: client.ApiClient, gang: rollcall.Gang, exit_codes: list[int]) -> None:
    """Report that the container of each rank has ended."""
    pods = wait_until(lambda: len(found := list_pods(api, gang)) == len(exit_codes) and found)
    for pod in pods:
        rank = int(pod.metadata.labels["batch.kubernetes.io/job-completion-index"])
        code = exit_codes[rank]
        now = datetime.now(timezone.utc).isoformat()
        ended = {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": now}
        container = {
            "name": "trainer", "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0,
            "state": {"terminated": {**ended, "message": f"words of rank {rank}"}},
        }  # fmt: skip
        status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [container]}
        client.CoreV1Api(api).patch_namespaced_pod_status(
            pod.metadata.name, NAMESPACE, {"status": status}
        )


def test_a_gang_succeeds(api: client.ApiClient) -> None:
    gang = submit("succeeds", pods=3, settings={"max-restarts": 1})
    end_pods(api, gang, [0, 0, 0])
    status = gang.wait()
    assert (status.phase, status.finished) == ("Succeeded", True)
    assert [rank.rank for rank in status.ranks] == [0, 1, 2]
    assert "succeeds" in {found.name for found in rollcall.list_gangs(NAMESPACE)}
    assert "Succeeded" in gang._repr_html_()


def test_a_gang_fails(api: client.ApiClient) -> None:
    gang = submit("fails", pods=2, settings={"max-restarts": 0})
    end_pods(api, gang, [0, 3])
    with pytest.raises(rollcall.GangFailed) as error:
        gang.wait()
    failure = error.value.status.first_failure
    assert failure is not None
    assert (failure["rank"], failure["exitCode"]) == (1, 3)
    assert failure["message"] == "words of rank 1"


def test_a_deleted_gang_ends_the_wait() -> None:
    gang = submit("deleted")
    statuses = gang.follow()
    next(statuses)
    gang.delete()
    with pytest.raises(LookupError, match="deleted"):
        list(statuses)


def test_waiting_has_a_time_limit() -> None:
    with pytest.raises(TimeoutError, match="too-slow has not finished"):
        submit("too-slow").wait(timeout=1)


def test_a_denial_lists_all_mistakes() -> None:
    def break_job(job: dict[str, Any]) -> None:
        job["spec"]["completions"] = 3

    with pytest.raises(rollcall.Denied) as error:
        submit("denied", settings={"max-restarts": -1}, change=break_job)
    denial = error.value
    fields = {cause.field for cause in denial.causes}
    assert fields == {"spec.completions", "metadata.annotations[rollcall.training/max-restarts]"}
    assert all(cause.fix for cause in denial.causes), denial.causes
    assert denial.webhook
    assert "denied the request" in denial.message
    assert isinstance(denial.__cause__, client.ApiException)


def test_the_documented_denial() -> None:
    with pytest.raises(rollcall.Denied) as error:
        submit("documented", settings={"max-restarts": -1})
    assert f"rollcall.errors.Denied: {error.value}" in PAGE.read_text()


def test_an_invalid_name_is_a_denial() -> None:
    with pytest.raises(rollcall.Denied, match="metadata.name"):
        submit("Not-A-Name")


def test_an_unknown_setting_is_a_warning() -> None:
    with pytest.warns(rollcall.RollcallWarning, match="max-restart.*max-restarts"):
        submit("warned", settings={"max-restart": 1}, dry_run=True)


def test_a_job_that_rollcall_ignores_is_a_warning() -> None:
    with pytest.warns(rollcall.RollcallWarning, match="without Rollcall"):
        submit("ignored", labels={"rollcall.training/inject": "false"}, dry_run=True)


def test_a_dry_run_creates_nothing() -> None:
    gang = submit("dry", dry_run=True)
    with pytest.raises(client.ApiException, match="404"):
        gang.status()


def test_a_function_travels_in_a_config_map_of_the_job(api: client.ApiClient) -> None:
    def train(rate: float) -> None:
        print(rate)

    gang = submit("function", train, arguments={"rate": 0.1})
    job = client.BatchV1Api(api).read_namespaced_job("function", NAMESPACE)
    pod = job.spec.template.spec
    torchrun = ["python3", "-m", "torch.distributed.run"]
    assert pod.containers[0].command == [*torchrun, "/mnt/program/program.py"]
    name = next(v.config_map.name for v in pod.volumes if v.name == "program")
    program = client.CoreV1Api(api).read_namespaced_config_map(name, NAMESPACE)
    assert "run(**json.loads('{\"rate\": 0.1}'))" in program.data["program.py"]
    assert [owner.uid for owner in program.metadata.owner_references] == [job.metadata.uid]
    gang.delete()


def test_a_rejected_function_leaves_nothing_behind(api: client.ApiClient) -> None:
    def train() -> None: ...

    with pytest.raises(rollcall.Denied):
        submit("rejected", train, settings={"max-restarts": -1})
    names = [
        c.metadata.name for c in client.CoreV1Api(api).list_namespaced_config_map(NAMESPACE).items
    ]
    assert not [name for name in names if name.startswith("rejected")]


def test_an_existing_job_is_an_error_of_the_api_server() -> None:
    submit("twice")
    with pytest.raises(client.ApiException, match="409"):
        submit("twice")


def test_the_notebook_follows_a_gang(api: client.ApiClient) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace("pods=2", f'pods=2, namespace="{NAMESPACE}"')
    gang = rollcall.Gang("from-notebook", NAMESPACE)
    with ThreadPoolExecutor() as executor:
        run = executor.submit(NotebookClient(notebook).execute)
        end_pods(api, gang, [0, 0])
        run.result()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pages = [data["text/html"] for o in outputs if "text/html" in (data := o.get("data", {}))]
    assert len(pages) == 2, outputs  # the view that follow updates, and the result of wait
    assert all("Succeeded" in page for page in pages), pages


def read_documented_rules() -> list[dict[str, list[str]]]:
    """Return the rules of a Role with the permissions of the page."""
    rows = re.findall(
        r"^\| `([a-z/]+)`( of the group `batch`)? \| ([^|]+) \|$", PAGE.read_text(), re.M
    )
    return [
        {
            "apiGroups": ["batch" if group else ""],
            "resources": [resource],
            "verbs": re.findall(r"`(\w+)`", verbs),
        }
        for resource, group, verbs in rows
    ]


def log_in_as_user(api: client.ApiClient) -> client.ApiClient:
    """Return a client with the permissions of the page, and no others."""
    core, rbac = client.CoreV1Api(api), client.RbacAuthorizationV1Api(api)
    metadata = {"name": "user"}
    core.create_namespaced_service_account(NAMESPACE, {"metadata": metadata})
    rules = read_documented_rules()
    rbac.create_namespaced_role(NAMESPACE, {"metadata": metadata, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "user", "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "user"}
    binding = {"metadata": metadata, "subjects": [subject], "roleRef": role}
    rbac.create_namespaced_role_binding(NAMESPACE, binding)
    token = core.create_namespaced_service_account_token("user", NAMESPACE, {"spec": {}})
    configuration = client.Configuration()
    configuration.host = api.configuration.host
    configuration.ssl_ca_cert = api.configuration.ssl_ca_cert
    configuration.api_key = {"authorization": f"Bearer {token.status.token}"}
    return client.ApiClient(configuration)


def test_the_documented_permissions_are_sufficient(api: client.ApiClient) -> None:
    def train() -> None: ...

    user = log_in_as_user(api)
    with pytest.raises(client.ApiException, match="403"):
        client.CoreV1Api(user).list_namespaced_secret(NAMESPACE)
    gang = submit("documented-permissions", train, pods=2, api_client=user)
    end_pods(api, gang, [0, 0])
    assert gang.wait().phase == "Succeeded"
    assert list(gang.logs(rank=1)) == []
    assert gang.name in {found.name for found in rollcall.list_gangs(NAMESPACE, user)}
    gang.delete()
