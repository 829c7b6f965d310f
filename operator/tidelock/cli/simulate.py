"""`kubectl tidelock simulate`: effects of a file's Reservations and pods, on themselves and on others."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec
import typer

from tidelock.cli.cluster_state import ClusterState, configuration_of, look
from tidelock.cli.documents import Document, read_documents
from tidelock.cli.failure import Failure
from tidelock.cli.options import (
    Context,
    File,
    Format,
    Kubeconfig,
    Namespace,
    Output,
    SchedulerConfig,
)
from tidelock.cli.options_spec import refuse_unsound
from tidelock.cli.session import ClusterTarget, Session, apply_dry_run, ask, create
from tidelock.cli.tables import Table, show, show_plain
from tidelock.clock import SystemClock
from tidelock.framework.config import Configuration
from tidelock.kube.client import PODS, RESERVATIONS
from tidelock.kube.errors import AlreadyExists
from tidelock.ledger.effects import Transition
from tidelock.ledger.owners.matching import POD_TEMPLATE_HASH
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.pods import Pod, decode_pod
from tidelock.model.reservation import Reservation, decode_reservation
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.driver import due_steps
from tidelock.scheduler.core.outcomes import Unschedulable
from tidelock.scheduler.core.preemption import PreemptionAttempt
from tidelock.scheduler.informers.offline import OfflineScheduler

EXAMPLES = """\
kubectl tidelock simulate -f deployment.yaml
kubectl kustomize overlays/prod | kubectl tidelock simulate -f -
"""

_HORIZON = 15.0  # simulated seconds, which are more than any backoff
_MOST_REPLICAS = 1000
_HASH = "simulated"
# Workloads, with the field that contains their number of pods.
_WORKLOADS = {
    "Deployment": "replicas",
    "StatefulSet": "replicas",
    "ReplicaSet": "replicas",
    "Job": "parallelism",
}
KINDS = (PODS.kind, RESERVATIONS.kind, *_WORKLOADS)
"""The kinds that can be simulated."""

_GOOD = frozenset({Phase.ACTIVE, Phase.BOUND, Phase.CONSUMED})


def command(
    filename: File,
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    output: Format = None,
    config: SchedulerConfig = "",
) -> None:
    """Show the effects that a file would have if it were applied now. Nothing is written.

    FILE has Reservations, Pods, Deployments, StatefulSets, ReplicaSets or Jobs. Other kinds are skipped. The
    API server completes and checks them in a dry run. Then the scheduler itself decides on them in the
    current cluster. Exit status 1 if not all of them find capacity.
    """
    configuration = configuration_of(config)
    documents = read_documents(filename)
    skipped = [each for each in documents if each.body.get("kind") not in KINDS]
    rest = [each for each in documents if each.body.get("kind") in KINDS]
    if not rest:
        raise Failure(f"{filename}: nothing in it can be simulated, only {', '.join(KINDS)} can")
    refuse_unsound([each for each in rest if each.body["kind"] == RESERVATIONS.kind], RESERVATIONS.kind)
    shapes = [shape for document in rest for shape in shapes_of(document)]
    target = ClusterTarget(kubeconfig=kubeconfig, context=context, namespace=namespace)
    world, stored = ask(target, lambda session: _prepare(session, shapes))
    simulated = simulate_objects(world, configuration, stored, SystemClock().now())
    simulated.remarks.extend(f"{each.place}: skipped, as this kind is not simulated." for each in skipped)
    if output in (Output.JSON, Output.YAML):
        show_plain(
            {"outcomes": [asdict(each) for each in simulated.outcomes], "besides": simulated.remarks}, output
        )
    else:
        show(*screen(simulated))
    if not all(each.good for each in simulated.outcomes):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class Shape:
    """An object for the API server to check, with its number of copies."""

    document: Document
    body: dict[str, Any]
    count: int = 1
    replicated: bool = False


@dataclass(frozen=True, slots=True)
class ObjectOutcome:
    """The result for one object."""

    object: str
    outcome: str
    node: str
    why: str
    good: bool


@dataclass(frozen=True, slots=True)
class SimulatedObjects:
    """The results for the objects of the file, and for others."""

    outcomes: list[ObjectOutcome] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def shapes_of(document: Document) -> list[Shape]:
    """Return the objects of a document of KINDS: itself, or a workload's pods, or raise Failure."""
    body, kind = document.body, str(document.body.get("kind"))
    if kind in (PODS.kind, RESERVATIONS.kind):
        return [Shape(document, body)]
    spec = body.get("spec") or {}
    template, count = spec.get("template"), spec.get(_WORKLOADS[kind], 1)
    if not isinstance(template, dict):
        raise Failure(f"{document.place}: spec.template: should be a pod template")
    if not isinstance(count, int) or not 0 <= count <= _MOST_REPLICAS:
        raise Failure(
            f"{document.place}: spec.{_WORKLOADS[kind]}: {count!r}: should be 0 to {_MOST_REPLICAS}"
        )
    return [Shape(document, _pod_of(document, template), count, replicated=True)]


def _pod_of(document: Document, template: dict[str, Any]) -> dict[str, Any]:
    """Return a pod as a workload's controller would create it, or the ReplicaSet of a Deployment."""
    kind, version, name = document.body["kind"], document.body.get("apiVersion", ""), document.name
    metadata = dict(template.get("metadata") or {})
    if kind == "Deployment":
        kind, name = "ReplicaSet", f"{name}-{_HASH}"
        metadata["labels"] = {**(metadata.get("labels") or {}), POD_TEMPLATE_HASH: _HASH}
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": f"{_HASH}-{name}", "controller": True}
    metadata |= {"name": name, "ownerReferences": [owner]}
    if "namespace" in document.metadata:
        metadata["namespace"] = document.metadata["namespace"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec")}


async def _prepare(session: Session, shapes: Sequence[Shape]) -> tuple[ClusterState, list[Pod | Reservation]]:
    stored = [made for shape in shapes for made in _replicas(shape, await _dry_run(session, shape))]
    return await look(session), stored


async def _dry_run(session: Session, shape: Shape) -> bytes:
    """Let the API server complete and check an object as if it were applied."""
    name, place = shape.document.name, shape.document.place
    namespace = shape.document.namespace or session.home
    if shape.body["kind"] == RESERVATIONS.kind:
        if not name:
            raise Failure(f"{place}: metadata.name: Required value")
        return await apply_dry_run(session, RESERVATIONS, name, namespace, shape.body)
    try:
        return await create(session, PODS, namespace, shape.body, dryRun="All")
    except AlreadyExists as error:
        raise Failure(f"{place}: the pod exists already: see kubectl tidelock why pod/{name}") from error


def _replicas(shape: Shape, raw: bytes) -> Iterator[Pod | Reservation]:
    if shape.body["kind"] == RESERVATIONS.kind:
        yield decode_reservation(raw)
    elif not shape.replicated:
        yield decode_pod(raw)
    else:
        stored = decode_pod(raw)
        for number in range(shape.count):
            name = f"{stored.meta.name}-{number}"
            meta = msgspec.structs.replace(stored.meta, name=name, uid=f"{stored.uid}-{number}")
            yield msgspec.structs.replace(stored, metadata=meta)


def simulate_objects(
    world: ClusterState, configuration: Configuration, stored: Sequence[Pod | Reservation], now: float
) -> SimulatedObjects:
    """Decide the objects that wait in the cluster already, and then these objects, one after the other."""
    picture = world.picture(configuration, now)
    event_handlers, decider = picture.event_handlers, picture.decider
    before = len(_run(picture, now).pods)
    results = _Results()
    for each in stored:
        if isinstance(each, Reservation):
            event_handlers.reservations.upsert(None, each)
        else:
            event_handlers.pods.upsert(None, each)
        results.add(_run(picture, now))
    results.add(_run(picture, now + _HORIZON))
    ours = {each.meta.uid for each in stored}
    simulated = SimulatedObjects(remarks=list(world.remarks))
    if before:
        simulated.remarks.append(f"Pods that already wait for Tidelock, and were decided first: {before}.")
    for each in stored:
        if isinstance(each, Reservation):
            simulated.outcomes.append(_of_reservation(each, decider.ledger.entries.get(each.key)))
        else:
            simulated.outcomes.append(results.pods.get(each.uid) or _left(each, picture))
    simulated.remarks.extend(_remarks(results, ours))
    return simulated


@dataclass(slots=True)
class _Results:
    """Results of decided pods by UID, and everything else that happened."""

    pods: dict[str, ObjectOutcome] = field(default_factory=dict)
    preemptions: list[PreemptionAttempt] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)

    def add(self, later: "_Results") -> None:
        self.pods |= later.pods
        self.preemptions += later.preemptions
        self.transitions += later.transitions


def _run(picture: OfflineScheduler, until: float) -> _Results:
    """Decide until nothing is due. The simulated time jumps to the next instant at which something is due."""
    decider, results = picture.decider, _Results()

    def now() -> float:
        due = decider.next_due()
        return picture.now if due is None else min(max(due, picture.now), until)

    for step in due_steps(decider, now):
        instant, outcome = decider.time(), step.outcome
        results.preemptions += step.preemptions
        results.transitions += step.effects.transitions
        if isinstance(outcome, AssumedPod):
            reservations = [
                entry.key for entry in decider.ledger.claims.used_by(outcome.pod.uid, outcome.node_name)
            ]
            took = f"takes the capacity of {', '.join(map(str, reservations))}" if reservations else ""
            decider.bound(outcome, instant)
            results.pods[outcome.pod.uid] = ObjectOutcome(
                _name(outcome.pod), "bound", outcome.node_name, took, good=True
            )
        elif isinstance(outcome, Unschedulable):
            pod = outcome.waiting.pod
            nominated = decider.cache.nominator.node_of(pod.uid)
            word = f"waits for evictions on {nominated}" if nominated else "no capacity"
            results.pods[pod.uid] = ObjectOutcome(_name(pod), word, "", outcome.diagnosis.message, good=False)
    return results


def _name(of: Pod | Reservation) -> str:
    return f"{'pod' if isinstance(of, Pod) else 'reservation'} {of.meta.key}"


def _of_reservation(reservation: Reservation, entry: ReservationInfo | None) -> ObjectOutcome:
    if entry is None:
        return ObjectOutcome(_name(reservation), "gone", "", "it is being deleted", good=False)
    why = entry.message if entry.phase is not Phase.ACTIVE else ""
    text = f"{entry.reason}: {why}" if why else ""
    return ObjectOutcome(_name(reservation), entry.phase.value, entry.node, text, good=entry.phase in _GOOD)


def _left(pod: Pod, picture: OfflineScheduler) -> ObjectOutcome:
    """Return the result of an undecided pod: another scheduler's, already bound, or gated."""
    if pod.node_name:
        return ObjectOutcome(_name(pod), "bound", pod.node_name, "as its spec says", good=True)
    profile = picture.decider.profiles.get(pod.spec.scheduler_name)
    if profile is None:
        why = f"schedulerName is {pod.spec.scheduler_name}, expected {' or '.join(picture.decider.profiles)}"
        return ObjectOutcome(_name(pod), "not Tidelock's", "", why, good=False)
    gates = (plugin.pre_enqueue(pod) for plugin in profile.pre_enqueue)
    reasons = "; ".join(reason for status in gates if not status.ok for reason in status.reasons)
    return ObjectOutcome(_name(pod), "gated", "", reasons, good=False)


def _remarks(results: _Results, ours: set[str]) -> Iterator[str]:
    """Yield the effects on others: pods that are evicted, reservations that lose their capacity or end."""
    for attempt in results.preemptions:
        for victim in attempt.victims:
            reason = f"{attempt.kind} {attempt.pod.key}"
            yield f"pod {victim.key} would be evicted from {attempt.node_name} for {reason}."
    last = {change.meta.key: change for change in results.transitions}
    for key, change in last.items():
        if change.meta.uid not in ours and change.phase is not Phase.EXPIRED:  # which it would be anyway
            yield f"reservation {key} would be {change.phase}: {change.message}."


def screen(simulated: SimulatedObjects) -> list[Table | str]:
    """Return the table and the sentences below it."""
    rows = [[each.object, each.outcome, each.node, each.why] for each in simulated.outcomes]
    parts: list[Table | str] = [Table(["OBJECT", "OUTCOME", "NODE", "WHY"], rows, names=frozenset({"NODE"}))]
    if simulated.remarks:
        parts += ["", *simulated.remarks]
    return [*parts, "", "Nothing was written."]
