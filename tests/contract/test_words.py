"""The words of refusals, which tests of units and of properties import.

kube-scheduler's words are a contract: tools that read events and conditions look for them.
"""

import pytest

from tidelock.binders.claim_check import allocating_text, reserved_text
from tidelock.binders.server import unread_text
from tidelock.devices.errors import SEARCH_TIMED_OUT
from tidelock.devices.requests import class_not_found
from tidelock.framework.extender import UNEXPECTED_ANSWER
from tidelock.framework.pod_claims import claim_not_found
from tidelock.framework.rejections import nodes_by_reason, shortage_text
from tidelock.framework.waiting_pods import timeout_text
from tidelock.ledger.messages import (
    binding_text,
    bound_text,
    cordoned_text,
    edited_text,
    gone_text,
    holding_text,
    no_capacity_text,
    overcommitted_text,
    taken_text,
)
from tidelock.ledger.owners.awaited import NAMED_BY_NONE, awaited_text
from tidelock.ledger.queue.quotas import exceeded_text
from tidelock.model.outlook import UNPROCESSED
from tidelock.model.pod_limits import too_large_text
from tidelock.model.quantities import CPU, MEMORY, PODS
from tidelock.plugins.default_preemption.plugin import (
    NEVER_PREEMPTS,
    NO_CANDIDATE,
    PREEMPTION_LATER,
    PREEMPTION_NOT_HELPFUL,
    VICTIM_TERMINATING,
)
from tidelock.plugins.default_preemption.trial import NO_VICTIMS
from tidelock.plugins.dynamic_load import metric_above_limit
from tidelock.plugins.dynamic_resources.claim_words import (
    allocated_elsewhere,
    being_allocated,
    being_deallocated,
    deallocated_elsewhere,
)
from tidelock.plugins.dynamic_resources.node_allocations import (
    CANNOT_ALLOCATE,
    INVALID_POOLS,
    LEFTOVER,
    NOT_AVAILABLE,
)
from tidelock.plugins.dynamic_resources.pod_claims import template_not_found
from tidelock.plugins.gang_scheduling import MEMBERS_AWAITED, group_awaited
from tidelock.plugins.inter_pod_affinity import (
    EXISTING_ANTI_AFFINITY,
    POD_AFFINITY_MISMATCH,
    POD_ANTI_AFFINITY_MISMATCH,
)
from tidelock.plugins.load_aware import above_threshold
from tidelock.plugins.node_affinity import (
    AFFINITY_CONFLICT,
    ENFORCED_AFFINITY_MISMATCH,
    NODE_AFFINITY_ELSEWHERE,
    NODE_AFFINITY_MISMATCH,
)
from tidelock.plugins.node_declared_features import NodeDeclaredFeatures
from tidelock.plugins.node_name import NodeName
from tidelock.plugins.node_ports import NodePorts
from tidelock.plugins.node_resources_fit import insufficient
from tidelock.plugins.node_unschedulable import NodeUnschedulable
from tidelock.plugins.node_volume_limits.plugin import DRIVER_MISSING, TOO_MANY_VOLUMES
from tidelock.plugins.pod_topology_spread.plugin import SPREAD_MISMATCH, SPREAD_NO_LABEL
from tidelock.plugins.reservation.plugin import NO_OWN_RESERVATION, insufficient_beside
from tidelock.plugins.taint_toleration import TaintToleration
from tidelock.plugins.unreadable_objects import UnreadableObjects
from tidelock.plugins.volume_binding.plugin import (
    NO_FREE_STORAGE,
    NO_VOLUME_TO_BIND,
    UNBOUND_IMMEDIATE,
    VOLUME_GONE,
    VOLUME_NODE_CONFLICT,
    claim_awaited,
    claim_deleted,
    claim_lost,
    claim_not_owned,
)
from tidelock.plugins.volume_restrictions import CLAIM_IN_USE, DISK_CONFLICT
from tidelock.plugins.volume_zone import NO_CLAIM_NAME, NO_CLASS_NAME, NO_VOLUME_NAME, ZONE_CONFLICT
from tidelock.plugins.water_level_balance.plugin import use_above_limit
from tidelock.plugins.workload_topology_spread.plugin import WorkloadTopologySpread
from tidelock.scheduler.actions.extenders import extender_failed
from tidelock.scheduler.core.diagnosis import NO_NODES, beside_text
from tidelock.scheduler.core.gang import too_few_text
from tidelock.scheduler.core.pod_group_scheduler import unsatisfied_text
from tidelock.scheduler.defrag.controller import unhelpful_text

OF_KUBE_SCHEDULER = (
    (nodes_by_reason(5, {"b": 2, "a": 3}), "0/5 nodes are available: 2 b, 3 a."),
    (NO_NODES, "no nodes available to schedule pods"),
    (NodeName.reason, "node(s) didn't match the requested node name"),
    (NodePorts.reason, "node(s) didn't have free ports for the requested pod ports"),
    (NodeUnschedulable.reason, "node(s) were unschedulable"),
    (TaintToleration.reason, "node(s) had untolerated taint(s)"),
    (NodeDeclaredFeatures.reason, "node(s) didn't match Pod's required features"),
    (insufficient(CPU), "Insufficient cpu"),
    (insufficient("nvidia.com/gpu"), "Insufficient nvidia.com/gpu"),
    (insufficient(PODS), "Too many pods"),
    (NODE_AFFINITY_MISMATCH, "node(s) didn't match Pod's node affinity/selector"),
    (ENFORCED_AFFINITY_MISMATCH, "node(s) didn't match scheduler-enforced node affinity"),
    (AFFINITY_CONFLICT, "pod affinity terms conflict"),
    (NODE_AFFINITY_ELSEWHERE, "node(s) didn't satisfy plugin(s) [NodeAffinity]"),
    (POD_AFFINITY_MISMATCH, "node(s) didn't match pod affinity rules"),
    (POD_ANTI_AFFINITY_MISMATCH, "node(s) didn't match pod anti-affinity rules"),
    (EXISTING_ANTI_AFFINITY, "node(s) didn't satisfy existing pods anti-affinity rules"),
    (SPREAD_MISMATCH, "node(s) didn't match pod topology spread constraints"),
    (SPREAD_NO_LABEL, "node(s) didn't match pod topology spread constraints (missing required label)"),
    (DISK_CONFLICT, "node(s) had no available disk"),
    (
        CLAIM_IN_USE,
        (
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
            "already in-use by another pod"
        ),
    ),
    (ZONE_CONFLICT, "node(s) had no available volume zone"),
    (NO_CLAIM_NAME, "PersistentVolumeClaim had no name"),
    (NO_CLASS_NAME, "PersistentVolumeClaim had no pv name and storageClass name"),
    (NO_VOLUME_NAME, "PersistentVolume had no name"),
    (claim_not_found("data"), 'persistentvolumeclaim "data" not found'),
    (TOO_MANY_VOLUMES, "node(s) exceed max volume count"),
    (DRIVER_MISSING, "CSI driver is not installed on the node"),
    (VOLUME_NODE_CONFLICT, "node(s) didn't match PersistentVolume's node affinity"),
    (NO_VOLUME_TO_BIND, "node(s) didn't find available persistent volumes to bind"),
    (NO_FREE_STORAGE, "node(s) did not have enough free storage"),
    (VOLUME_GONE, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
    (UNBOUND_IMMEDIATE, "pod has unbound immediate PersistentVolumeClaims"),
    (
        claim_awaited("data"),
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "data"',
    ),
    (
        claim_lost("data", "disk"),
        'persistentvolumeclaim "data" bound to non-existent persistentvolume "disk"',
    ),
    (claim_deleted("data"), 'persistentvolumeclaim "data" is being deleted'),
    (claim_not_owned("shop/c", "shop/x"), "PVC shop/c was not created for pod shop/x (pod is not owner)"),
    (CANNOT_ALLOCATE, "cannot allocate all claims"),
    (INVALID_POOLS, "invalid resource pools were encountered"),
    (SEARCH_TIMED_OUT, "timed out trying to allocate devices"),
    (NOT_AVAILABLE, "resourceclaim not available on the node"),
    (LEFTOVER, "cannot schedule extended resource claim"),
    (class_not_found("gpu"), "device class gpu does not exist"),
    (being_allocated("shop/c"), "resource claim shop/c is in the process of being allocated"),
    (being_deallocated("shop/c"), "resource claim shop/c is in the process of being deallocated"),
    (allocated_elsewhere("shop/c"), "claim shop/c got allocated elsewhere in the meantime"),
    (deallocated_elsewhere("shop/c"), "claim shop/c got deallocated elsewhere in the meantime"),
    (extender_failed("filter", "http://x/filter"), "failed filter with extender at URL http://x/filter"),
    (group_awaited("train"), 'waiting for pods\'s pod group "train" to appear in scheduling queue'),
    (MEMBERS_AWAITED, "waiting for minCount pods from a gang to appear in scheduling queue"),
    (PREEMPTION_NOT_HELPFUL, "Preemption is not helpful for scheduling"),
    (NO_VICTIMS, "No preemption victims found for incoming pod"),
    (NEVER_PREEMPTS, "not eligible due to preemptionPolicy=Never."),
    (VICTIM_TERMINATING, "not eligible due to a terminating pod on the nominated node."),
    (NO_CANDIDATE, "no candidate node for preemption"),
    (unsatisfied_text(3, 2, 1), "minCount (3) cannot be satisfied: 2 scheduled, 1 remaining"),
    (timeout_text("gang", "1m0s"), "rejected due to timeout after waiting 1m0s at plugin gang"),
)
OWN = (
    (PREEMPTION_LATER, "Preemption is tried on in a later attempt"),
    (UnreadableObjects.reason, "node(s) had an unreadable object"),
    (insufficient_beside(MEMORY), "Insufficient memory beside reservations"),
    (insufficient_beside(PODS), "Too many pods beside reservations"),
    (NO_OWN_RESERVATION, "node(s) without the reservation that the pod requires"),
    (WorkloadTopologySpread.reason, "node(s) in a domain that has its share of the workload's pods"),
    (metric_above_limit("cpu_usage_avg_5m"), "node(s) with cpu_usage_avg_5m above the limit"),
    (use_above_limit(CPU), "node(s) with measured cpu use above the limit"),
    (NAMED_BY_NONE, "waiting for a reservation, and none names this pod as its owner"),
    (UNPROCESSED, "the operator has not processed it yet"),
    (template_not_found("shop", "gpu"), 'could not find ResourceClaimTemplate "shop/gpu"'),
    (above_threshold("cpu", "usage"), "node(s) cpu usage exceed threshold"),
    (UNEXPECTED_ANSWER, "the answer is not of the expected type"),
    (too_large_text("volumes: 65"), "pod is too large: volumes: 65"),
    (unread_text("shop/x", "500: a"), "cannot read pod shop/x: 500: a"),
    (no_capacity_text(30), "no capacity within spec.pendingDeadlineSeconds (30)"),
    (
        exceeded_text("team", "cpu=2", "cpu=1", "cpu=2"),
        "exceeded quota: team, requested: cpu=2, used: cpu=1, limited: cpu=2",
    ),
    (exceeded_text("team", "cpu=2", "", "cpu=1"), "exceeded quota: team, requested: cpu=2, limited: cpu=1"),
    (beside_text("shop/x"), "beside shop/x, for which capacity is kept"),
    (shortage_text("cpu", "2", "1500m"), "cpu 2 needed, 1500m free"),
    (too_few_text(3, 2), "needs capacity for 3 reservations at once, and 2 fit"),
    (
        awaited_text("shop/lock", "Planned: Planned"),
        "waiting for reservation shop/lock, which is Planned: Planned",
    ),
    (holding_text("cpu 1", "node-a"), "cpu 1 held on node-a"),
    (taken_text("pod shop/x", "cpu 1", "node-a"), "pod shop/x took cpu 1 reserved on node-a"),
    (overcommitted_text("node-a", "cpu 1"), "node-a is overcommitted by cpu 1"),
    (cordoned_text("node-a"), "node node-a is cordoned"),
    (gone_text("node-a", "uid"), "node node-a (uid uid) is gone"),
    (edited_text("node-b"), "the spec now names node-b"),
    (binding_text("shop/x", "node-a"), "pod shop/x is being bound to node-a"),
    (bound_text("shop/x", "node-a"), "pod shop/x is bound to node-a"),
    (reserved_text("d", "shop/lock"), "device d is reserved by shop/lock"),
    (allocating_text("d", "shop/one"), "device d is being allocated to claim shop/one"),
    (unhelpful_text("node-a"), "moving its pods would no longer free enough capacity on node-a"),
)


@pytest.mark.parametrize(("text", "words"), [*OF_KUBE_SCHEDULER, *OWN])
def test_a_refusal_has_its_words(text: str, words: str) -> None:
    assert text == words
