from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes import client

from rollcall import Gang, build_job
from rollcall.submission import _WARNING, _create_program


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
