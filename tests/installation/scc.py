"""The rules by which OpenShift's SecurityContextConstraints `restricted-v2` admits a pod.

OpenShift grants that constraint to all ServiceAccounts. A field that a pod leaves open gets the value of the
namespace or of the constraint, and is never refused. The rules are those of the manifest `restricted-v2` in
openshift/cluster-kube-apiserver-operator and of `sccmatching` in openshift/apiserver-library-go.
"""

from collections.abc import Iterator
from typing import Any

UIDS = range(1_000_680_000, 1_000_690_000)
"""Users and groups of a namespace: its annotation `openshift.io/sa.scc.uid-range`, as 1000680000/10000."""
_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
_ADDED = {"NET_BIND_SERVICE"}
_PROFILE = "RuntimeDefault"

_Spec = dict[str, Any]


def refusals(pod: _Spec) -> Iterator[str]:
    """Yield the reason for each field of a pod's spec that the constraint refuses."""
    yield from (f"{name} is not allowed" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name))
    context = pod.get("securityContext", {})
    yield from _shared(context, "pod")
    if context.get("fsGroup", UIDS.start) not in UIDS:
        yield f"pod: fsGroup {context['fsGroup']} is not in {UIDS}"
    for volume in pod.get("volumes", ()):
        (kind,) = volume.keys() - {"name"}
        if kind not in _VOLUMES:
            yield f"volume {volume['name']}: {kind} is not allowed"
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        yield from _container(container, container["name"])


def _container(container: _Spec, name: str) -> Iterator[str]:
    context = container.get("securityContext", {})
    yield from _shared(context, name)
    yield from (f"{name}: {each}" for each in ("privileged", "allowPrivilegeEscalation") if context.get(each))
    added = set(context.get("capabilities", {}).get("add", ())) - _ADDED
    if added:
        yield f"{name}: capabilities {sorted(added)} are not allowed"
    if any(port.get("hostPort") for port in container.get("ports", ())):
        yield f"{name}: hostPort is not allowed"


def _shared(context: _Spec, name: str) -> Iterator[str]:
    """Yield the reasons for fields that a pod and a container have in common."""
    if context.get("runAsUser", UIDS.start) not in UIDS:
        yield f"{name}: runAsUser {context['runAsUser']} is not in {UIDS}"
    if context.get("seccompProfile", {}).get("type", _PROFILE) != _PROFILE:
        yield f"{name}: seccompProfile {context['seccompProfile']['type']} is not allowed"
    if context.get("seLinuxOptions"):
        yield f"{name}: seLinuxOptions are the namespace's"
