"""Accounts of tenants: a namespace's manager, and an author of its pods, each with only its own rights."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from devcluster.cluster import Cluster
from devcluster.identity import token_kubeconfig

MANAGER = "tidelock-manager"
"""The ClusterRole of manifests/base that a manager is bound to in its namespace."""

Rule = dict[str, list[str]]

_ALL = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
_RBAC = "rbac.authorization.k8s.io"
AUTHOR: Sequence[Rule] = (
    {
        "apiGroups": [""],
        "resources": ["pods", "services", "persistentvolumeclaims", "replicationcontrollers", "configmaps"],
        "verbs": _ALL,
    },
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["get", "update", "patch"]},
    {
        "apiGroups": ["apps"],
        "resources": ["deployments", "replicasets", "statefulsets", "daemonsets"],
        "verbs": _ALL,
    },
    {"apiGroups": ["batch"], "resources": ["jobs", "cronjobs"], "verbs": _ALL},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": _ALL},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": _ALL},
)
"""The rights of an author of pods in its namespace: those of the role `edit` on objects that Tidelock reads.

`edit` itself would let the author act as any ServiceAccount of the namespace, including its manager."""

STATUSES: Sequence[Rule] = (
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["get", "update", "patch"]},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets/status"], "verbs": ["update", "patch"]},
    {
        "apiGroups": ["tidelock.dev"],
        "resources": [
            f"{kind}/status"
            for kind in (
                "reservations",
                "reservationgroups",
                "reservationschedules",
                "reservationquotas",
                "reservationquotes",
            )
        ],
        "verbs": ["get", "update", "patch"],
    },
)
"""Rights to statuses in a namespace. No role of the manifests has them, so only a mistake can grant them.

A policy of the manifests refuses the statuses of tidelock.dev all the same."""


def tenant_account(
    cluster: Cluster, namespace: str, name: str, roles: Sequence[str | Sequence[Rule]], directory: Path
) -> Path:
    """Create a ServiceAccount with these roles in a namespace, and return a kubeconfig with its token.

    A role is the name of a ClusterRole, or the rules of a Role for this account alone.
    """
    objects: list[dict[str, Any]] = [_object("v1", "ServiceAccount", namespace, name)]
    for number, role in enumerate(roles):
        own = f"{name}-{number}"
        kind, referred = ("ClusterRole", role) if isinstance(role, str) else ("Role", own)
        if not isinstance(role, str):
            objects.append(_object(f"{_RBAC}/v1", "Role", namespace, own) | {"rules": list(role)})
        objects.append(
            _object(f"{_RBAC}/v1", "RoleBinding", namespace, own)
            | {
                "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": referred},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
            }
        )
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    cluster.kubectl("apply", "--server-side", "-f", "-", input=manifest)
    return token_kubeconfig(cluster, name, namespace, directory / f"{namespace}-{name}.kubeconfig")


def _object(version: str, kind: str, namespace: str, name: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}}
