"""The health of a reservation in every state for GitOps tools and Karmada, by the published manifests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import celpy
import pytest
import yaml
from celpy.adapter import json_to_cel
from lupa.lua51 import LuaRuntime

from builders import NAMESPACE, NOW, Json, node
from tidelock.ledger.messages import no_capacity_text
from tidelock.ledger.output.group_status import render_group
from tidelock.ledger.output.schedule_status import plan_windows, render_schedule
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.sets.groups import GroupKey
from unit.ledger import states
from unit.ledger.ledger import LedgerScene
from unit.scheduler.gang import Gang
from unit.scheduler.grouped import group
from unit.scheduler.machinery import Core
from unit.scheduler.scheduled import schedule

GITOPS = Path(__file__).resolve().parents[3] / "manifests" / "gitops"
NEVER_SEEN = {"observedGeneration": -1}  # The default of the CRD.


def stored(status: Json | None, generation: int = 1) -> Json:
    """Return the object that tools read."""
    body: Json = {"apiVersion": "tidelock.dev/v1alpha1", "kind": "Reservation"}
    body["metadata"] = {"name": "web-0", "namespace": "shop", "generation": generation}
    return body if status is None else {**body, "status": status}


def reservation(state: Callable[[LedgerScene], None]) -> Json:
    """Return the object of a reservation in a state."""
    ledger = LedgerScene()
    state(ledger)
    status = render_reservation(ledger.entry(), NOW)
    return stored(status, status["observedGeneration"])


def edited() -> Json:
    """Return a reservation with an edit that the operator has not seen."""
    found = reservation(states.active)
    return {**found, "metadata": {**found["metadata"], "generation": 99}}


def lua(value: Any, runtime: LuaRuntime) -> Any:
    """Convert JSON to the Lua values that scripts of the tools get."""
    if isinstance(value, dict):
        return runtime.table_from({name: lua(each, runtime) for name, each in value.items()})
    if isinstance(value, list):
        return runtime.table_from([lua(each, runtime) for each in value])
    return value


def read(name: str) -> Json:
    document: Json = yaml.safe_load((GITOPS / name).read_text())
    return document


def argo(found: Json) -> tuple[str, str]:
    """Run Argo CD's health check, and return the status and its message."""
    customizations = yaml.safe_load(read("argocd-cm.yaml")["data"]["resource.customizations"])
    runtime = LuaRuntime()
    runtime.globals().obj = lua(found, runtime)
    health = runtime.execute(customizations["tidelock.dev/*"]["health.lua"])
    return health["status"], health["message"]


def flux(found: Json, kind: str = "Reservation") -> str:
    """Evaluate Flux's expressions for a kind in Flux's order: failed, then in progress, then current."""
    environment = celpy.Environment()
    checks = read("flux-kustomization.yaml")["spec"]["healthCheckExprs"]
    (expressions,) = (each for each in checks if each["kind"] == kind)
    for filter_result in ("failed", "inProgress", "current"):
        program = environment.program(environment.compile(expressions[filter_result]))
        activation = {name: json_to_cel(value) for name, value in found.items()}
        if program.evaluate(activation):
            return filter_result
    return "unknown"


def karmada(script: str, function: str, *arguments: Any) -> Any:
    """Call a function of Karmada's interpreter, and return its result."""
    runtime = LuaRuntime()
    runtime.execute(read("karmada.yaml")["spec"]["customizations"][script]["luaScript"])
    return runtime.globals()[function](*(lua(each, runtime) for each in arguments))


CASES = [
    (states.pending, "Progressing", "inProgress", False),
    (states.active, "Healthy", "current", True),
    (states.planned, "Healthy", "current", True),
    (states.on_a_cordoned_node, "Degraded", "unknown", False),
    (states.with_a_lapsed_lease, "Degraded", "unknown", False),
    (states.growing, "Progressing", "inProgress", False),
    (states.uncommitted, "Progressing", "inProgress", False),
    (states.committed, "Healthy", "current", True),
    (states.not_committed, "Healthy", "current", True),
    (states.held_with_an_invalid_spec, "Degraded", "failed", False),
    (states.bound, "Progressing", "inProgress", False),
    (states.consumed, "Healthy", "current", True),
    (states.expired, "Healthy", "current", True),
    (states.lost, "Degraded", "failed", False),
    (states.rejected, "Degraded", "failed", False),
    (states.invalid, "Degraded", "failed", False),
    (states.terminating, "Degraded", "unknown", False),  # The tools may check its deletionTimestamp first.
]


@pytest.mark.parametrize(("state", "argo_status", "flux_verdict", "karmada_healthy"), CASES)
def test_every_state_has_the_right_health_in_each_tool(
    state: Callable[[LedgerScene], None], argo_status: str, flux_verdict: str, karmada_healthy: bool
) -> None:
    found = reservation(state)

    assert argo(found)[0] == argo_status
    assert flux(found) == flux_verdict
    assert karmada("healthInterpretation", "InterpretHealth", found) is karmada_healthy


@pytest.mark.parametrize("found", [stored(NEVER_SEEN), edited()], ids=["never seen", "edited"])
def test_an_object_that_the_operator_has_not_seen_is_in_progress(found: Json) -> None:
    assert argo(found) == ("Progressing", "not seen by the operator yet")
    assert flux(found) == "inProgress"
    assert karmada("healthInterpretation", "InterpretHealth", found) is False


def test_argo_shows_the_reason_and_the_message() -> None:
    _, message = argo(reservation(states.rejected))
    assert message == f"DeadlineExceeded: {no_capacity_text(0)}: full"


@pytest.mark.parametrize(
    ("cpu", "deadline", "argo_status", "flux_verdict"),
    [("1", 60, "Progressing", "inProgress"), ("2", 60, "Healthy", "current"), ("1", 0, "Degraded", "failed")],
    ids=["waiting", "given", "rejected"],
)
def test_a_group_has_the_health_of_its_reservations(
    cpu: str, deadline: int, argo_status: str, flux_verdict: str
) -> None:
    gang = Gang(Core(node("node-a", cpu=cpu)), 2).come(pendingDeadlineSeconds=deadline)
    gang.give()
    members = gang.core.ledger.groups.get(GroupKey(NAMESPACE, "train", "uid-train"))
    found = stored(render_group(group(), members, NOW)) | {"kind": "ReservationGroup"}

    assert argo(found)[0] == argo_status
    assert flux(found, "ReservationGroup") == flux_verdict


@pytest.mark.parametrize(
    ("spec", "problem", "argo_status", "flux_verdict"),
    [
        ({}, "", "Healthy", "current"),
        ({"suspend": True}, "", "Healthy", "current"),
        ({}, "403: exceeded quota", "Progressing", "inProgress"),
        ({"schedule": "0 26 * * *"}, "", "Degraded", "failed"),
    ],
    ids=["planned", "suspended", "refused", "invalid"],
)
def test_a_schedule_has_the_health_of_its_windows(
    spec: Json, problem: str, argo_status: str, flux_verdict: str
) -> None:
    asked = schedule(**spec)
    plan = plan_windows(asked, (), 0.0, NOW)
    found = stored(render_schedule(asked, (), plan, NOW, problem)) | {"kind": "ReservationSchedule"}

    assert argo(found)[0] == argo_status
    assert flux(found, "ReservationSchedule") == flux_verdict


def test_a_water_level_without_measurements_is_degraded() -> None:
    conditions = [{"type": "Ready", "status": "False", "reason": "NoSource", "message": "no source"}]
    found = stored({"observedGeneration": 1, "conditions": conditions}) | {"kind": "WaterLevel"}
    assert argo(found) == ("Degraded", "NoSource: no source")


def test_karmada_shows_the_status_of_a_member_unchanged() -> None:
    found = reservation(states.active)
    seen = karmada("statusReflection", "ReflectStatus", found)
    assert seen["phase"] == "Active"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_karmada_shows_the_member_that_is_furthest_from_active(order: tuple[int, int]) -> None:
    members = [reservation(states.active)["status"], reservation(states.pending)["status"]]
    items = [{"clusterName": f"member-{place}", "status": members[place]} for place in order]

    shown = karmada("statusAggregation", "AggregateStatus", stored(None), items)

    assert shown["status"]["phase"] == "Pending"


def test_karmada_waits_for_members_without_a_status() -> None:
    items = [{"clusterName": "a", "status": reservation(states.active)["status"]}, {"clusterName": "b"}]
    shown = karmada("statusAggregation", "AggregateStatus", stored(None), items)
    assert shown["status"] is None


def test_every_phase_is_covered() -> None:
    crd = yaml.safe_load((GITOPS.parents[1] / "crds" / "reservations.yaml").read_text())
    status = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    assert {reservation(state)["status"]["phase"] for state, *_ in CASES} == set(
        status["properties"]["phase"]["enum"]
    )
