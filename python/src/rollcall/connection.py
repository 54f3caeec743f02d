"""Finds the cluster and the namespace as kubectl does."""

from __future__ import annotations

from pathlib import Path

from kubernetes import client, config

from rollcall.errors import RollcallError

_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def connect() -> client.ApiClient:
    """Return a client for the current context, or without a kubeconfig for the pod.

    RollcallError is raised if neither exists.
    """
    configuration = client.Configuration()
    try:
        config.load_kube_config(client_configuration=configuration)
    except config.ConfigException as error:
        try:
            config.load_incluster_config(client_configuration=configuration)
        except config.ConfigException:
            fix = "set KUBECONFIG, or run in a pod with a ServiceAccount"
            raise RollcallError(f"no cluster is configured: {error}; {fix}") from error
    return client.ApiClient(configuration)


def current_namespace() -> str:
    """Return the namespace of the current context, or of the pod without a kubeconfig."""
    try:
        _, context = config.list_kube_config_contexts()
    except config.ConfigException:
        return _POD_NAMESPACE.read_text().strip() if _POD_NAMESPACE.exists() else "default"
    return str(context["context"].get("namespace") or "default")
