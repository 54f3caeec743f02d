from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes import client

from rollcall import Gang, build_job, submit
from rollcall.submission import _LAUNCHERS, _TORCHRUN, _WARNING, _create_program

FRAMEWORK_PAGES = Path(__file__).parents[2] / "docs" / "reference" / "frameworks"
IMAGE = "registry.example.com/train:1"
PROGRAM = "/mnt/program/program.py"


def test_a_job_has_only_what_was_asked_for() -> None:
    assert build_job("train", ["torchrun", "train.py"], image="example.com/train:1", pods=4) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "labels": {"rollcall.training/framework": "pytorch"},
            "annotations": {},
        },
        "spec": {
            "parallelism": 4,
            "completions": 4,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "trainer",
                            "image": "example.com/train:1",
                            "command": ["torchrun", "train.py"],
                        }
                    ],
                }
            },
        },
    }


def read_container(job: dict[str, Any]) -> Any:
    return job["spec"]["template"]["spec"]["containers"][0]


def test_options_become_fields() -> None:
    job = build_job(
        "train",
        ["python3", "it's.py"],
        image="example.com/train:1",
        framework="jax",
        gpus=8,
        resources={"memory": "16Gi"},
        env={"NCCL_DEBUG": "INFO"},
        packages=["einops>=0.8"],
        settings={"max-restarts": 5},
        labels={"kueue.x-k8s.io/queue-name": "research"},
    )
    assert job["metadata"]["labels"] == {
        "rollcall.training/framework": "jax",
        "kueue.x-k8s.io/queue-name": "research",
    }
    assert job["metadata"]["annotations"] == {
        "rollcall.training/max-restarts": "5",
        "rollcall.training/gpus": "8",
    }
    container = read_container(job)
    assert container["command"] == [
        "sh",
        "-c",
        "python3 -m pip install --quiet 'einops>=0.8' && exec python3 'it'\"'\"'s.py'",
    ]
    assert container["resources"] == {"requests": {"memory": "16Gi"}, "limits": {"memory": "16Gi"}}
    assert container["env"] == [{"name": "NCCL_DEBUG", "value": "INFO"}]


def test_a_job_has_one_pod_by_default() -> None:
    spec = build_job("train", ["python3", "train.py"], image=IMAGE)["spec"]
    assert (spec["parallelism"], spec["completions"]) == (1, 1)


def build_function_job(**options: Any) -> dict[str, Any]:
    """Return the Job of a function, without a cluster."""
    jobs: list[dict[str, Any]] = []

    def stop(job: dict[str, Any]) -> None:
        jobs.append(job)
        raise InterruptedError

    def train(rate: float = 0.1) -> None:
        print(rate)

    with pytest.raises(InterruptedError):
        submit("train", train, image=IMAGE, change=stop, **options)
    return jobs[0]


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param({}, _TORCHRUN, id="pytorch is the default"),
        pytest.param({"gpus": 8}, _TORCHRUN, id="torchrun reads the number of GPUs in the pod"),
        pytest.param(
            {"framework": "deepspeed"}, _TORCHRUN, id="deepspeed reads the same variables"
        ),
        pytest.param(
            {"framework": "paddle"},
            ["python3", "-m", "paddle.distributed.launch"],
            id="only the launcher of Paddle reads the address of rank 0",
        ),
        pytest.param({"framework": "jax", "gpus": 8}, ["python3"], id="jax has no launcher"),
        pytest.param({"launcher": ["python3", "-X", "dev"]}, ["python3", "-X", "dev"], id="other"),
    ],
)
def test_the_launcher_of_a_function(options: dict[str, Any], want: list[str]) -> None:
    job = build_function_job(**options)
    assert read_container(job)["command"] == [*want, PROGRAM]
    assert job["metadata"]["labels"]["rollcall.training/framework"] == options.get(
        "framework", "pytorch"
    )


def test_packages_are_installed_before_the_launcher_starts() -> None:
    command = read_container(build_function_job(packages=["einops"]))["command"]
    install = "python3 -m pip install --quiet einops"
    assert command == ["sh", "-c", f"{install} && exec python3 -m torch.distributed.run {PROGRAM}"]


def test_functions_of_frameworks_with_variables_for_torchrun_start_with_torchrun() -> None:
    pages = {page.stem: page.read_text() for page in FRAMEWORK_PAGES.glob("*.md")}
    want = {name for name, text in pages.items() if "PET_NNODES" in text}
    assert want == {name for name, launcher in _LAUNCHERS.items() if launcher == _TORCHRUN}
    assert set(_LAUNCHERS) <= set(pages)


def test_a_command_that_is_a_text_is_an_error() -> None:
    with pytest.raises(TypeError, match="pass a list"):
        submit("train", "torchrun train.py", image=IMAGE)


def test_arguments_of_a_command_are_an_error() -> None:
    with pytest.raises(TypeError, match="only for functions"):
        submit("train", ["torchrun", "train.py"], image=IMAGE, arguments={"rate": 0.1})


@pytest.mark.parametrize(
    ("header", "want"),
    [
        pytest.param("", [], id="no header"),
        pytest.param('299 - "one"', ["one"], id="one warning"),
        pytest.param(r'299 - "a \"b\", c", 299 - "two"', [r"a \"b\", c", "two"], id="two warnings"),
    ],
)
def test_warnings_of_a_header(header: str, want: list[str]) -> None:
    assert _WARNING.findall(header) == want


def test_a_job_without_its_program_is_deleted() -> None:
    """Pods would wait for the ConfigMap for ever."""
    deleted: list[str] = []

    def reject(namespace: str, config_map: dict[str, Any]) -> None:
        raise client.ApiException(status=403)

    def delete(name: str, namespace: str, **_: Any) -> None:
        deleted.append(name)

    gang = Gang("train", "team-a", client.ApiClient(client.Configuration()))
    gang._core = SimpleNamespace(create_namespaced_config_map=reject)
    gang._jobs = SimpleNamespace(delete_namespaced_job=delete)
    job = SimpleNamespace(metadata=SimpleNamespace(uid="1"))
    with pytest.raises(client.ApiException, match="403"):
        _create_program(gang, job, "train-program-1", "pass")
    assert deleted == ["train"]
