"""A scheduler whose profile enables GangScheduling, and the groups that tests give it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from builders import NAMESPACE, SCHEDULER, Json, encode, pod
from tidelock.framework.api import Plugin
from tidelock.framework.config import Configuration, read_configuration
from tidelock.framework.profile import PluginFactory
from tidelock.model.nodes import Node
from tidelock.model.pod_group import PodGroup, decode_pod_group
from tidelock.model.pods import Pod
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.outcomes import Outcome, Unschedulable
from tidelock.scheduler.core.pod_group_scheduler import PodGroupResult
from unit.scheduler.machinery import Core


def configured(*plugins: type[Plugin]) -> Configuration:
    """Return the default profile with GangScheduling, and with plugins of a test."""
    enabled = [{"name": name} for name in ("GangScheduling", *(plugin.name for plugin in plugins))]
    profile = {"schedulerName": SCHEDULER, "plugins": {"multiPoint": {"enabled": enabled}}}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    made: dict[str, PluginFactory] = {plugin.name: plugin for plugin in plugins}
    return read_configuration(json.dumps({**head, "profiles": [profile]}), BUILTINS, lambda _: made)


GROUPS = configured()


def pod_group_json(
    name: str = "train",
    min_count: int | None = 3,
    *,
    version: int = 1,
    priority: int = 0,
    disruption: str = "",
    conditions: Sequence[Mapping[str, Any]] = (),
) -> Json:
    """Build a PodGroup, of the policy `basic` without a `min_count`. `disruption` is `all` or `single`."""
    policy = {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}}
    meta = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "generation": 1}
    return {
        "metadata": {**meta, "resourceVersion": str(version)},
        "spec": {
            "schedulingPolicy": policy,
            "priority": priority,
            **({"disruptionMode": {disruption: {}}} if disruption else {}),
        },
        "status": {"conditions": list(conditions)},
    }


def pod_group(name: str = "train", min_count: int | None = 3, **fields: Any) -> PodGroup:
    return decode_pod_group(encode(pod_group_json(name, min_count, **fields)))


def member(name: str, group: str = "train", **fields: Any) -> Pod:
    """Build a pod of a group."""
    return pod(name, schedulingGroup={"podGroupName": group}, **fields)


def members(count: int, group: str = "train", **fields: Any) -> list[Pod]:
    """Build equal pods of a group."""
    return [member(f"{group}-{number}", group, **fields) for number in range(count)]


def grouping(*nodes: Node, **options: Any) -> Core:
    """Build a scheduler with GangScheduling."""
    return Core(*nodes, configuration=GROUPS, **options)


def deliver(core: Core, *groups: PodGroup) -> None:
    """Deliver PodGroups by the watch, new or in newer versions."""
    for new in groups:
        known = core.decider.objects.pod_groups.get(new.meta.name, new.meta.namespace)
        core.event_handlers.others["pod_groups"].upsert(known, new)


def placed(outcomes: Iterable[Outcome]) -> list[str]:
    """Return the names of the pods that got a node, in the order of decisions."""
    return [each.pod.meta.name for each in outcomes if isinstance(each, AssumedPod)]


def refusals(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Return the messages of the refused pods by name."""
    return {
        each.waiting.pod.meta.name: each.diagnosis.message
        for each in outcomes
        if isinstance(each, Unschedulable)
    }


def decide_one_step(core: Core) -> tuple[Outcome | None, list[PodGroupResult]]:
    step = core.decider.step(core.clock.now())
    return step.outcome, list(step.pod_groups)
