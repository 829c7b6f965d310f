"""The operator's login as its ServiceAccount of the manifests, not as admin."""

import json
from pathlib import Path
from typing import Any

import yaml

from devcluster.cluster import Cluster

MANIFESTS = Path(__file__).parents[2] / "manifests"
BASE = MANIFESTS / "base"
OVERLAYS = MANIFESTS / "overlays"
EXTENDER = OVERLAYS / "extender"
SYSTEM_NAMESPACE = "tidelock-system"
SERVICE_ACCOUNT = "tidelock"

_IDENTITY = (
    "Namespace",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "Secret",
)
_FILE_NAME = "operator.kubeconfig"
_VALIDITY = "8h"  # the token's lifetime, longer than any test, demo or benchmark


def rendered(cluster: Cluster, installation: Path = BASE) -> list[dict[str, Any]]:
    """Return the objects of an installation."""
    return list(yaml.load_all(cluster.kubectl("kustomize", str(installation)), yaml.CSafeLoader))


def operator_kubeconfig(cluster: Cluster, directory: Path, installation: Path = BASE) -> Path:
    """Install the operator's identity and rights, and return a kubeconfig with only its token.

    The rights of other identities in the cluster stay as they are.
    """
    identity = [manifest for manifest in rendered(cluster, installation) if manifest["kind"] in _IDENTITY]
    text = "\n---\n".join(map(json.dumps, identity))
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)
    return token_kubeconfig(cluster, SERVICE_ACCOUNT, SYSTEM_NAMESPACE, directory / _FILE_NAME)


def token_kubeconfig(cluster: Cluster, account: str, namespace: str, kubeconfig: Path) -> Path:
    """Write a kubeconfig with only a token of a ServiceAccount, and its namespace."""
    token = cluster.kubectl(
        "create", "token", account, f"--namespace={namespace}", f"--duration={_VALIDITY}"
    ).strip()
    content = json.loads(cluster.kubectl("config", "view", "--minify", "--raw", "--flatten", "-o", "json"))
    for user in content["users"]:
        user["user"] = {"token": token}
    for context in content["contexts"]:
        context["context"]["namespace"] = namespace
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(json.dumps(content))
    return kubeconfig
