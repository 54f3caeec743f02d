from pathlib import Path

import pytest

import rollcall


def test_a_missing_cluster_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(tmp_path / "none")
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", file)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(
        rollcall.RollcallError, match="no cluster is configured: .*; set KUBECONFIG"
    ):
        rollcall.Gang("train", "team-a")
