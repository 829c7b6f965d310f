"""Explains a decision: the answer of every plugin about every node for one pod or reservation.

A decision asks the filters until a node is ruled out, and sums the scores. Here the same pipeline keeps each
filter's answer about every node, and each plugin's score. Nothing is decided.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tidelock.framework.api import Code, Filter
from tidelock.framework.profile import Profile
from tidelock.framework.rejections import numbers_of, reasons_of
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import PODS
from tidelock.scheduler.core.diagnosis import in_detail
from tidelock.scheduler.core.pipeline import Evaluation, FilterPipeline, PluginAnswers
from tidelock.scheduler.core.reservation_cycle import ReservationCycle


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a plugin rules out a node: the reasons of a diagnosis, and its numbers if there are any.

    `preemption_may_help` means that the eviction of pods might help.
    """

    plugin: str
    reasons: tuple[str, ...]
    preemption_may_help: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The answers about one node: rejections, or the weighted points of each plugin if the node fits."""

    node: Node
    rejections: tuple[Rejection, ...]
    points: Mapping[str, float]

    @property
    def total(self) -> float:
        """The sum of the points, by which nodes are chosen."""
        return sum(self.points.values())


def explain_pod(pipeline: FilterPipeline, profile: Profile, pod: Pod, now: float) -> list[NodeReport]:
    """Ask all plugins of a profile about a pod.

    The node that a decision would choose comes first, then the others that fit by their points, then the
    rest by name.

    Raises:
        PluginError: a plugin failed.

    """
    answers = PluginAnswers()
    with pipeline.evaluate(profile, pod, now) as evaluation:
        evaluation.filter(answers=answers)
        chosen = evaluation.choose(answers=answers) or evaluation.choose_between(
            now, pod.gone_by(now), answers=answers
        )
        return _reports(evaluation, answers, chosen)


def explain_reservation(
    cycle: ReservationCycle, profile: Profile, entry: ReservationInfo, now: float
) -> list[NodeReport]:
    """Ask all plugins about a reservation by its reserve pod, as `explain_pod` does about a pod."""
    answers = PluginAnswers()
    with cycle.evaluate(profile, entry, now) as evaluation:
        chosen = cycle.find(entry, evaluation, answers)
        if chosen is not None and not len(answers.rows):  # chosen for its owners alone
            evaluation.choose(answers=answers)
        return _reports(evaluation, answers, chosen)


def _reports(evaluation: Evaluation, answers: PluginAnswers, chosen: Node | None) -> list[NodeReport]:
    snapshot = evaluation.snapshot
    if evaluation.rejection is not None:
        plugin, reasons, code = evaluation.rejection
        nowhere = Rejection(plugin.name, reasons, code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        return _sorted([NodeReport(node, (nowhere,), {}) for node in snapshot.nodes], evaluation, chosen)
    evaluation.timer.enter("Filter")  # plugins are asked for their reasons
    fits = np.zeros(len(snapshot), np.bool_)
    fits[answers.rows] = True
    if chosen is not None and (row := snapshot.row(chosen.name)) is not None:
        fits[row] = True
    place_of = {row: place for place, row in enumerate(answers.rows.tolist())}
    reports = []
    for row, node in enumerate(snapshot.nodes):
        place = place_of.get(row)
        points = {} if place is None else {name: float(by[place]) for name, by in answers.points.items()}
        rejections = () if fits[row] else tuple(_rejections(evaluation, answers, row))
        reports.append(NodeReport(node, rejections, points))
    return _sorted(reports, evaluation, chosen)


def _rejections(evaluation: Evaluation, answers: PluginAnswers, row: int) -> list[Rejection]:
    """Return the rejections of a node: those of the filters, or the one beside nominated pods."""
    found: dict[str, Rejection] = {}
    for plugin, mask in answers.masks:
        if not mask[row]:
            found.setdefault(plugin.name, _rejection(plugin, evaluation, row))
    if found:
        return list(found.values())
    result = evaluation.result
    for plugin, mask in result.ruled_out:
        if mask[row]:
            view = result.view(evaluation.state, evaluation.snapshot, row)
            at = int(view.rows[0])
            evaluation.timer.ask(plugin)
            there = Rejection(
                plugin.name,
                reasons_of(plugin, view.state, evaluation.pod, view.snapshot, at),
                plugin.preemption_may_help(view.state, evaluation.pod, view.snapshot, at),
            )
            return [replace(there, detail=in_detail(plugin, evaluation.pod, view, result))]
    return [_NOT_ELIGIBLE]


_NOT_ELIGIBLE = Rejection("", ("node(s) that reservations have to leave",), preemption_may_help=False)


def _rejection(plugin: Filter, evaluation: Evaluation, row: int) -> Rejection:
    state, pod, snapshot = evaluation.state, evaluation.pod, evaluation.snapshot
    evaluation.timer.ask(plugin)
    return Rejection(
        plugin.name,
        reasons_of(plugin, state, pod, snapshot, row),
        plugin.preemption_may_help(state, pod, snapshot, row),
        numbers_of(plugin, state, pod, snapshot, row),
    )


def _sorted(reports: list[NodeReport], evaluation: Evaluation, chosen: Node | None) -> list[NodeReport]:
    """Sort the chosen node first, then nodes that fit by points, pods and name, then the rest by name."""
    snapshot = evaluation.snapshot
    pods = snapshot.requested[:, snapshot.column(PODS)].tolist()
    rows = {node.name: row for row, node in enumerate(snapshot.nodes)}

    def order(each: NodeReport) -> tuple[object, ...]:
        name = each.node.name
        fits = not each.rejections
        return each.node is not chosen, not fits, -each.total, pods[rows[name]] if fits else 0, name

    return sorted(reports, key=order)
