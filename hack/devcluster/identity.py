"""The operator's login as its ServiceAccount of the manifests, not as admin."""

import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from devcluster.cluster import Cluster

MANIFESTS = Path(__file__).parents[2] / "manifests"
BASE = MANIFESTS / "base"
COMPONENTS = MANIFESTS / "components"
EXTENDER = "components/extender"
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


def write_kustomization(
    folder: Path, *parts: str, manifests: Path = MANIFESTS, patches: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Write a kustomization of the base with parts such as `components/ha`, as a user would write it.

    `patches` are entries of its field of that name.
    """
    kustomization: dict[str, list[Any]] = {"resources": [], "components": [], "patches": [*patches]}
    for part in ("base", *parts):
        field = "components" if part.startswith("components/") else "resources"
        kustomization[field].append(os.path.relpath(manifests / part, folder.resolve()))
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))


def rendered(cluster: Cluster, *parts: str) -> list[dict[str, Any]]:
    """Return the objects of an installation: the base with parts such as `components/ha`."""
    return list(yaml.load_all(_kustomized(cluster, parts), yaml.CSafeLoader))


@cache
def _kustomized(cluster: Cluster, parts: tuple[str, ...]) -> str:
    with TemporaryDirectory() as folder:
        write_kustomization(Path(folder), *parts)
        return cluster.kubectl("kustomize", folder)


def operator_kubeconfig(cluster: Cluster, directory: Path, *parts: str) -> Path:
    """Install the operator's identity and rights, and return a kubeconfig with only its token.

    The rights of the given parts are added. The rights of other identities in the cluster stay as they are.
    """
    identity = [manifest for manifest in rendered(cluster, *parts) if manifest["kind"] in _IDENTITY]
    text = "\n---\n".join(map(json.dumps, identity))
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)
    return token_kubeconfig(cluster, SERVICE_ACCOUNT, SYSTEM_NAMESPACE, directory / _FILE_NAME)


@cache
def _connection(cluster: Cluster) -> str:
    """Return the kubeconfig of a cluster with its certificates. Tests need it for hundreds of accounts."""
    return cluster.kubectl("config", "view", "--minify", "--raw", "--flatten", "-o", "json")


def token_kubeconfig(cluster: Cluster, account: str, namespace: str, kubeconfig: Path) -> Path:
    """Write a kubeconfig with only a token of a ServiceAccount, and its namespace."""
    token = cluster.kubectl(
        "create", "token", account, f"--namespace={namespace}", f"--duration={_VALIDITY}"
    ).strip()
    content = json.loads(_connection(cluster))
    for user in content["users"]:
        user["user"] = {"token": token}
    for context in content["contexts"]:
        context["context"]["namespace"] = namespace
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(json.dumps(content))
    return kubeconfig
