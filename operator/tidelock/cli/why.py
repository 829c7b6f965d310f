"""`kubectl tidelock why`: each node's capacity for a pod or a reservation, and each plugin's verdict."""

from typing import Annotated

import msgspec
import typer

from tidelock.cli.cluster_state import ClusterState, configuration_of, look
from tidelock.cli.failure import Failure
from tidelock.cli.options import (
    Context,
    Format,
    Kubeconfig,
    Namespace,
    Output,
    SchedulerConfig,
)
from tidelock.cli.reservations import ListedReservation, amounts
from tidelock.cli.session import ClusterTarget, Session, ask
from tidelock.cli.tables import lines_of, show, show_plain, terminal_width
from tidelock.cli.water import measured, settings_of, staleness_of
from tidelock.cli.why_tables import NodeCapacity, WhyAnswer, plain, screen
from tidelock.clock import SystemClock
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.config import Configuration
from tidelock.framework.extension_point_timer import PluginError
from tidelock.framework.profile import Profile
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod, decode_pod
from tidelock.model.quantities import PODS, Resources
from tidelock.model.usage_annotations import Quality
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.core.explain import explain_pod, explain_reservation
from tidelock.scheduler.informers.offline import OfflineScheduler

EXAMPLES = """\
kubectl tidelock why web-0            # a pod, or else a reservation
kubectl tidelock why reservation/web-0 -o wide
kubectl tidelock why web-0 -n shop --limit 0 -o json
"""

_POD_WORDS = frozenset({"pod", "pods", "po"})
_MOST_NODES = 50
_RESERVATION_WORDS = frozenset({"reservation", "reservations", "rsv"})


def command(
    subject: Annotated[
        str,
        typer.Argument(
            help="pod/NAME or reservation/NAME. NAME alone is a pod, or a reservation if no such pod exists.",
            metavar="POD|RESERVATION",
        ),
    ],
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    output: Format = None,
    config: SchedulerConfig = "",
    limit: Annotated[
        int, typer.Option("--limit", help="Largest number of nodes to show. 0 shows all.", min=0)
    ] = _MOST_NODES,
) -> None:
    """Show why a pod or a reservation is on its node, or on none.

    Every plugin of its profile checks every node of the current cluster. Nothing is written.
    """
    configuration = configuration_of(config)
    target = ClusterTarget(kubeconfig=kubeconfig, context=context, namespace=namespace)
    key, world = ask(target, lambda session: _look(session, subject))
    answer = answer_for(world, configuration, key, SystemClock().now())
    if output in (Output.JSON, Output.YAML):
        show_plain(plain(answer), output)
    else:
        show(*screen(answer, limit=limit, wide=output is Output.WIDE, width=terminal_width()))


async def _look(session: Session, subject: str) -> tuple[tuple[str, Key], ClusterState]:
    kind, slash, name = subject.rpartition("/")
    if slash and kind not in _POD_WORDS | _RESERVATION_WORDS:
        raise Failure(f"{subject!r}: should be a name, pod/NAME or reservation/NAME")
    word = "" if not slash else "pod" if kind in _POD_WORDS else "reservation"
    return (word, Key(session.home, name)), await look(session)


def answer_for(
    world: ClusterState, configuration: Configuration, subject: tuple[str, Key], now: float
) -> WhyAnswer:
    """Find the pod or reservation in the cluster, and let all plugins judge it, or raise Failure."""
    word, key = subject
    pod = _pod(world, key) if word != "reservation" else None
    picture = world.picture(configuration, now, without=pod.uid if pod is not None else "")
    if pod is not None:
        return _about_pod(picture, pod, world)
    entry = picture.decider.ledger.entries.get(key)
    if entry is None or word == "pod":
        kinds = word or "pod and no reservation"
        raise Failure(
            f"there is no {kinds} {key}: name its namespace with -n, or see kubectl tidelock status -A"
        )
    return _about_reservation(picture, entry, world)


def explained_reservation(world: ClusterState, key: Key, now: float, width: int) -> str:
    """Return the screen about a reservation for a terminal of `width` cells, or raise Failure."""
    answer = answer_for(world, configuration_of(""), ("reservation", key), now)
    return lines_of(*screen(answer, limit=_MOST_NODES, wide=False, width=width), width=width)


def _pod(world: ClusterState, key: Key) -> Pod | None:
    for raw in world.objects["pods"]:
        if msgspec.json.decode(raw, type=_Named).metadata.key == key:
            return decode_pod(raw)
    return None


class _Meta(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)


class _Named(msgspec.Struct, frozen=True):
    metadata: _Meta


def _about_pod(picture: OfflineScheduler, pod: Pod, world: ClusterState) -> WhyAnswer:
    decider, story = picture.decider, list(world.remarks)
    profile = decider.profiles.get(pod.spec.scheduler_name)
    if profile is None:
        profile = decider.profile
        story.append(
            f"Its scheduler is {pod.spec.scheduler_name}; this is the answer of {profile.scheduler_name}."
        )
    bound_to = pod.node_name
    if bound_to:
        story.append(f"It is bound to {bound_to}; the table shows the cluster without it.")
    unbound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
    decider.objects.pod_groups.join(unbound)  # the picture is without the pod
    gates = [(plugin.name, plugin.pre_enqueue(unbound)) for plugin in profile.pre_enqueue]
    closed = {name: "; ".join(status.reasons) for name, status in gates if not status.ok and not bound_to}
    scheduled = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    has_message = scheduled is not None and scheduled.message and not bound_to
    if scheduled is not None and has_message and scheduled.message not in closed.values():
        story.append(f"Its status: {scheduled.reason}: {scheduled.message}")
    story += [f"{name}: {text}" for name, text in closed.items()]
    own = decider.ledger.ownership.of(pod if bound_to else unbound)
    story += [f"Its reservation {entry.key} is {entry.phase}{_location(entry)}." for entry in own]
    return _answer(picture, profile, unbound, f"pod {pod.key}", tuple(story), None, bound_to)


def _about_reservation(picture: OfflineScheduler, entry: ReservationInfo, world: ClusterState) -> WhyAnswer:
    title = f"reservation {entry.key}"
    pod = entry.reservation.pod
    if pod is None:
        raise Failure(f"{title} can't be read: {entry.problem}; see kubectl tidelock lint")
    listed = ListedReservation(entry.reservation)
    story = [*world.remarks, f"It is {entry.phase}{_location(entry)}, for {listed.owner}."]
    if listed.why:
        story.append(listed.why)
    return _answer(picture, picture.decider.profile, pod, title, tuple(story), entry, entry.node)


def _location(entry: ReservationInfo) -> str:
    return f" on {entry.node}, with {amounts(_shown(entry.held))}" if entry.held else ""


def _answer(
    picture: OfflineScheduler,
    profile: Profile,
    pod: Pod,
    title: str,
    story: tuple[str, ...],
    reservation: ReservationInfo | None,
    node: str,
) -> WhyAnswer:
    decider = picture.decider
    try:
        if reservation is None:
            reports = explain_pod(decider.pipeline, profile, pod, picture.now)
        else:
            reports = explain_reservation(decider.reservation_cycle, profile, reservation, picture.now)
    except PluginError as error:
        raise Failure(f"{title} can't be judged: {error}") from error
    snapshot = decider.cache.snapshot()
    nodes = [report.node for report in reports]
    levels = decider.objects.water_levels.all()
    return WhyAnswer(
        title,
        _shown(pod.requests),
        (
            *story,
            *settings_of(levels, picture.now),
            *(f"Not used, as it can't be read: {each}" for each in picture.unreadable),
        ),
        reports,
        {each.name: node_capacity(decider, snapshot, each) for each in nodes},
        {each.name: level_of(each, picture.now, staleness_of(levels, each)) for each in nodes},
        node,
    )


def _shown(resources: Resources) -> Resources:
    return {name: units for name, units in resources.items() if name != PODS}


def node_capacity(decider: Decider, snapshot: Snapshot, node: Node) -> NodeCapacity:
    """Read a node's amounts from the columns and the ledger."""
    row = snapshot.row(node.name)
    if row is None:
        raise ValueError(f"no node {node.name}")
    amount = {
        kind: {name: int(values[row, column]) for column, name in enumerate(snapshot.resources)}
        for kind, values in (
            ("allocatable", snapshot.allocatable),
            ("used", snapshot.requested),
            ("reserved", snapshot.reserved),
        )
    }
    reservations = {entry.key: _shown(entry.held) for entry in decider.ledger.holdings.held_on(node.name)}
    return NodeCapacity(**amount, reservations=reservations)


def level_of(node: Node, now: float, staleness: float) -> str:
    """Return a node's measured use over the shortest window, or why it does not count."""
    level = measured(node, now, staleness)
    if level.worth is Quality.MISSING:
        return ""
    uses = ", ".join(f"{name} {mean:.0f}%" for name, mean in level.means.items())
    if level.worth is Quality.FRESH:
        return uses
    return f"{uses} ({level.worth.value})" if uses else level.worth.value
