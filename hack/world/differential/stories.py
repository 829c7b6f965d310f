"""Fixed sequences for parts that random ones do not reach: policies, quotas, priorities and users."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from world.api.patches import MERGE
from world.differential.compare import Mismatch, compare_steps
from world.differential.sides import Real
from world.differential.steps import Step

Json = dict[str, Any]

_MANIFESTS = Path(__file__).parents[3] / "manifests" / "base"
_OPERATOR = "system:serviceaccount:tidelock-system:tidelock"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/tidelock-system/leases"
_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


def _namespace(name: str) -> Step:
    return Step("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})


def _pod(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def _reservation(name: str) -> Json:
    spec = {"owners": [{"pod": {"name": "a"}}], "resources": {"cpu": "1"}, "ttlSeconds": 60}
    return {
        "apiVersion": "tidelock.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": spec,
    }


def _policies(*files: str) -> Iterator[Step]:
    for file in files:
        for each in yaml.safe_load_all((_MANIFESTS / file).read_text()):
            yield Step("POST", f"{_ADMISSION}/{_PLURALS[each['kind']]}", body=each)


def _fence() -> Iterator[Step]:
    """Yield writes of the operator in former, present and later leaderships."""
    space = "story-fence"
    pods, reservations = (
        f"/api/v1/namespaces/{space}/pods",
        f"/apis/tidelock.dev/v1alpha1/namespaces/{space}/reservations",
    )
    yield from map(_namespace, (space, "tidelock-system"))
    subjects = [{"kind": "User", "name": _OPERATOR, "apiGroup": "rbac.authorization.k8s.io"}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    yield Step("POST", _ROLES, body={"metadata": {"name": space}, "roleRef": role, "subjects": subjects})
    yield Step("POST", _LEASES, body={"metadata": {"name": "tidelock"}, "spec": {"leaseTransitions": 3}})
    yield Step("POST", reservations, body=_reservation("kept"))
    yield from _policies("fence.yaml", "pod-status.yaml", "annotations-only.yaml")
    for name in "abc":
        yield Step("POST", pods, body=_pod(name))
    yield from _bindings(pods)
    yield from _reservation_writes(pods, reservations)
    yield from _answers(reservations)
    yield from _narrow_writes(pods)


def _bindings(pods: str) -> Iterator[Step]:
    """Yield bindings by leaders and others, once the policies have an effect."""
    binding = {"target": {"kind": "Node", "name": "n"}}

    def bind(name: str, manager: str, user: str) -> Step:
        body = binding | {"metadata": {"name": name}}
        return Step("POST", f"{pods}/{name}/binding", {"fieldManager": manager}, body, user=user)

    # The real server takes a moment to follow its policies.
    probe = bind("absent", "tidelock-2", _OPERATOR)
    yield replace(probe, query={**probe.query, "dryRun": "All"}, until=403)
    yield bind("a", "tidelock-2", _OPERATOR)
    yield bind("a", "tidelock-x", _OPERATOR)
    yield bind("a", "tidelock-3", _OPERATOR)
    yield bind("b", "tidelock-9", _OPERATOR)
    yield bind("c", "other", "")


def _reservation_writes(pods: str, reservations: str) -> Iterator[Step]:
    """Yield a creation, a status and an eviction by a former leader, and by the present one."""
    for manager in ("tidelock-1", "tidelock-3"):
        yield Step("POST", reservations, {"fieldManager": manager}, _reservation(manager), user=_OPERATOR)
        status = {"status": {"phase": "Active", "nodeName": "n"}}
        yield Step(
            "PATCH", f"{reservations}/kept/status", {"fieldManager": manager}, status, MERGE, user=_OPERATOR
        )
        yield Step(
            "POST",
            f"{pods}/b/eviction",
            {"fieldManager": manager},
            {"metadata": {"name": "b"}},
            user=_OPERATOR,
        )


def _answers(reservations: str) -> Iterator[Step]:
    """Yield creations with answers of a former leadership and of the present one, and a forged answer."""
    for name, epoch in (("answered", 2), ("answered-now", 3)):
        answered = _reservation(name)
        answered["metadata"]["annotations"] = {"tidelock.dev/answer-signature": f"{epoch}." + 64 * "0"}
        yield Step("POST", reservations, body=answered)
    forged = {"metadata": {"annotations": {"tidelock.dev/answer": "x"}}}
    yield Step("PATCH", f"{reservations}/kept", {}, forged, MERGE)


def _narrow_writes(pods: str) -> Iterator[Step]:
    """Yield writes of the operator to pods and nodes, of which it may change only some fields."""
    for body in (
        {"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        {"status": {"phase": "Running"}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"annotations": {"tidelock.dev/claimed-locks": "x"}}},
        {"status": {"nominatedNodeName": "n"}},
    ):
        yield Step("PATCH", f"{pods}/c/status", {"fieldManager": "tidelock-3"}, body, MERGE, user=_OPERATOR)
    yield Step("POST", "/api/v1/nodes", body={"metadata": {"name": "story-node"}})
    changes: tuple[Json, ...] = (
        {"metadata": {"annotations": {"tidelock.dev/water-level": "x"}}},
        {"metadata": {"annotations": {"other": "x"}}},
        {"spec": {"unschedulable": True}},
    )
    for body in changes:
        yield Step(
            "PATCH", "/api/v1/nodes/story-node", {"fieldManager": "tidelock-3"}, body, MERGE, user=_OPERATOR
        )


def _quota() -> Iterator[Step]:
    """Yield pods within and beyond a ResourceQuota. A controller would compute its status."""
    space = "story-quota"
    pods, quotas = f"/api/v1/namespaces/{space}/pods", f"/api/v1/namespaces/{space}/resourcequotas"
    yield _namespace(space)
    hard = {"pods": "3", "requests.cpu": "2", "count/reservations.tidelock.dev": "1"}
    yield Step("POST", quotas, body={"metadata": {"name": "q"}, "spec": {"hard": hard}})
    used = dict.fromkeys(hard, "0")
    yield Step("PATCH", f"{quotas}/q/status", {}, {"status": {"hard": hard, "used": used}}, MERGE)
    # The real server reads quotas from a cache, which a pod without requests waits for.
    yield Step("POST", pods, {"dryRun": "All"}, _pod("none"), until=403)
    for name, cpu in (("a", "1"), ("b", "1500m"), ("c", "500m"), ("d", "100m")):
        body = _pod(name)
        body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        yield Step("POST", pods, body=body)
        yield Step("GET", f"{quotas}/q")
    for name in "xy":
        yield Step(
            "POST", f"/apis/tidelock.dev/v1alpha1/namespaces/{space}/reservations", body=_reservation(name)
        )


STORIES: Mapping[str, Callable[[], Iterator[Step]]] = MappingProxyType({"fence": _fence, "quota": _quota})
"""The stories by name."""


def compare_story(name: str, real: Real) -> list[Mismatch]:
    """Run a story against both servers, and return the steps with different answers."""
    return compare_steps(name, list(STORIES[name]()), real)
