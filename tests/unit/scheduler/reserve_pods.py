"""Terms of pods and templates, and decisions about them."""

from typing import Any

from builders import Json, node
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.pods import Pod, assigned_to
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.outcomes import Unschedulable
from unit.scheduler.machinery import Core

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"app": "web"}


def term(labels: Json, key: str = HOSTNAME, **more: Any) -> Json:
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **more}


def far(*terms: Json) -> Json:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def spread(labels: Json, key: str = ZONE, **more: Any) -> list[Json]:
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return [constraint | {"labelSelector": {"matchLabels": labels}} | more]


def port(number: int) -> list[Json]:
    requests = {"requests": {"cpu": "1"}}
    return [{"name": "main", "ports": [{"containerPort": 80, "hostPort": number}], "resources": requests}]


def template(labels: Json | None = None, annotations: Json | None = None, **spec: Any) -> Json:
    """Return the fields of a reservation of one CPU for a pod with these labels."""
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"labels": labels or {}, "annotations": annotations or {}}
    return {
        "resources": None,
        "template": {"metadata": metadata, "spec": {"containers": [container], **spec}},
    }


def zoned(name: str, zone: str, **fields: Any) -> Any:
    return node(name, labels={ZONE: zone, HOSTNAME: name}, **fields)


def hosts(*names: str) -> list[Any]:
    """Build nodes. The first is the largest by far, so it is preferred."""
    sizes = ["64", *["4"] * len(names)]
    return [node(name, cpu=cpu, labels={HOSTNAME: name}) for name, cpu in zip(names, sizes, strict=False)]


def phase(entry: ReservationInfo) -> Phase:
    """Return the present phase, as a type checker would keep the attribute narrowed to an earlier value."""
    return entry.phase


def decide(core: Core, waiting: Pod) -> str:
    """Decide on a pod. Return the name of its node, or the message of the refusal."""
    core.event_handlers.pods.upsert(None, waiting)
    outcome = core.step()
    while outcome is not None and not _about(outcome, waiting):
        outcome = core.step()
    assert outcome is not None
    if isinstance(outcome, AssumedPod):
        core.decider.bound(outcome, core.clock.now())
        core.event_handlers.pods.upsert(waiting, assigned_to(waiting, outcome.node_name))
        core.step()
        return outcome.node_name
    assert isinstance(outcome, Unschedulable)
    return outcome.diagnosis.message


def _about(outcome: object, waiting: Pod) -> bool:
    if isinstance(outcome, AssumedPod):
        return outcome.pod.uid == waiting.uid
    return isinstance(outcome, Unschedulable) and outcome.waiting.pod.uid == waiting.uid
