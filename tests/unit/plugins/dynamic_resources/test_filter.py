from typing import Any

import pytest

from builders import NOW, Json, node, pod
from devices import (
    DRIVER,
    allocated,
    attributes,
    claiming,
    device,
    device_class,
    device_slice,
    put,
    request,
    resource_claim,
    wanting,
    wanting_all,
)
from tidelock.devices.errors import SEARCH_TIMED_OUT
from tidelock.devices.requests import class_not_found
from tidelock.framework.api import Code, FilterResult
from tidelock.framework.decision_time import DecisionTime
from tidelock.model.pod_limits import too_large_text
from tidelock.model.pods import Pod
from tidelock.plugins.dynamic_resources.node_allocations import CANNOT_ALLOCATE, INVALID_POOLS, NOT_AVAILABLE
from unit.plugins.dynamic_resources.cluster import Cluster

WANTING = pod(**claiming("gpu"))


def from_template(**status: Any) -> Pod:
    spec = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
    return pod(resourceClaims=spec, status={"resourceClaimStatuses": [status]} if status else {})


def refusal(cluster: Cluster, wanted: Pod) -> str:
    """Return why a pod is refused for all nodes. PreEnqueue must agree about claims that are missing."""
    status = cluster.judge(wanted).status
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    (reason,) = status.reasons
    return reason


def test_pods_without_claims_are_skipped() -> None:
    judged = Cluster().judge(pod())
    assert (judged.status.code, judged.status.cacheable) == (Code.SKIP, True)
    assert Cluster().plugin.pre_enqueue(pod()).ok


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (WANTING, 'could not find ResourceClaim "shop/gpu"'),
        (from_template(), 'pod "shop/web-0": ResourceClaim not created yet'),
        (from_template(name="gpu", resourceClaimName="made"), "was not created for Pod shop/web-0"),
        (pod(**claiming("leaving")), 'resourceclaim "leaving" is being deleted'),
        (pod(resourceClaims=[{"name": "gpu"}]), "none of the supported fields are set"),
        (pod(**claiming(*["gpu"] * 65)), too_large_text("spec.resourceClaims: 65, at most 64")),
        (pod(**claiming("odd")), 'resourceclaim "odd" can\'t be read'),
    ],
)
def test_a_pod_waits_until_all_of_its_claims_exist(wanted: Pod, reason: str) -> None:
    cluster = Cluster()
    cluster.claim("made", owner="db-0")
    cluster.claim("leaving", deleted=True)
    cluster.claim("odd", {"name": 5, "exactly": wanting()})
    assert reason in cluster.plugin.pre_enqueue(wanted).reasons[0]
    assert reason in refusal(cluster, wanted)


def test_a_claim_from_a_template_belongs_to_its_pod() -> None:
    cluster = Cluster()
    cluster.claim("made", owner="web-0")
    put(cluster.objects, device_slice("a", "d0"))
    assert cluster.judge(from_template(name="gpu", resourceClaimName="made")).fitting == {"node-a"}
    unneeded = from_template(name="gpu")
    assert cluster.plugin.pre_enqueue(unneeded).ok
    assert cluster.judge(unneeded).status.code is Code.SKIP


def test_a_pod_fits_where_there_are_devices() -> None:
    cluster = Cluster()
    cluster.claim()
    put(cluster.objects, device_slice("a", "d0"))
    judged = cluster.judge(WANTING)
    assert judged.fitting == {"node-a"}
    assert judged.reasons("node-b") == (CANNOT_ALLOCATE,)
    assert not judged.preemption_may_help("node-b")
    assert cluster.judge(pod(**claiming("gpu", "gpu"))).fitting == {"node-a"}


def test_expressions_select_devices() -> None:
    cluster = Cluster()
    put(cluster.objects, device_class("gpu", f"device.driver == '{DRIVER}'"))
    cluster.claim("gpu", request("r", wanting(f"device.attributes['{DRIVER}'].memory >= 40")))
    small = device("d0", attributes=attributes(memory=10))
    large = device("d1", attributes=attributes(memory=80))
    put(cluster.objects, device_slice("a", small), device_slice("b", small, large, node_name="node-b"))
    judged = cluster.judge(WANTING)
    assert judged.fitting == {"node-b"}
    cluster.reserve(WANTING, "node-b")
    assert cluster.device_of() == "d1"


def test_expressions_see_lists_of_each_type() -> None:
    cluster = Cluster()
    own = f"device.attributes['{DRIVER}']"
    scalars = f"2 in {own}.numas && {own}.modes.includes('ib') && {own}.flags == [true]"
    versions = f"{own}.versions[0].isGreaterThan(semver('1.0.0'))"
    cluster.claim("gpu", request("r", wanting(scalars, versions)))
    lists = {"numas": {"ints": [1, 2]}, "modes": {"strings": ["ib"]}, "flags": {"bools": [True]}}
    newer = {"versions": {"versions": ["1.2.0"]}}
    older = {"versions": {"versions": ["0.9.0"]}}
    put(cluster.objects, device_slice("a", device("d0", attributes=lists | newer)))
    put(cluster.objects, device_slice("b", device("d0", attributes=lists | older), node_name="node-b"))
    assert cluster.judge(WANTING).fitting == {"node-a"}


def test_an_attribute_of_unknown_type_is_an_error_of_every_expression() -> None:
    cluster = Cluster()
    cluster.claim("gpu", request("r", wanting("true")))
    put(cluster.objects, device_slice("a", device("d0", attributes={"price": {"decimal": "1.5"}})))
    judged = cluster.judge(WANTING)
    assert judged.fitting == set()
    assert judged.reasons("node-a")[0].endswith("attribute price: unsupported attribute value")


def test_an_expression_that_fails_for_a_device_rules_its_node_out_with_the_error() -> None:
    cluster = Cluster()
    cluster.claim("gpu", request("r", wanting(f"device.attributes['{DRIVER}'].memory >= 40")))
    put(cluster.objects, device_slice("a", "d0"))
    judged = cluster.judge(WANTING)
    assert judged.fitting == set()
    error = (
        "claim shop/gpu: selector #0 on device gpu.example.com/a/d0: CEL runtime error: no such key: memory"
    )
    hint = ". consider .? with orValue(), or has(), for optional fields"
    assert judged.reasons("node-a") == (f"{error}{hint}",)
    assert judged.reasons("node-b") == (CANNOT_ALLOCATE,)


def test_an_invalid_pool_is_the_reason_if_nothing_else_suffices() -> None:
    cluster = Cluster()
    cluster.claim()
    put(cluster.objects, device_slice("a", "d0", "d0"))
    judged = cluster.judge(WANTING)
    assert judged.fitting == set()
    assert judged.reasons("node-a") == (INVALID_POOLS,)


def test_all_devices_of_an_incomplete_pool_are_not_known() -> None:
    cluster = Cluster()
    cluster.claim("gpu", request("r", wanting_all()))
    put(cluster.objects, device_slice("a", "d0", slices=2))
    judged = cluster.judge(WANTING)
    assert judged.fitting == set()
    assert "resource pool gpu.example.com/a is currently being updated" in judged.reasons("node-a")[0]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (request("r", wanting(of_class="none")), f"request r: {class_not_found('none')}"),
        (request("r", wanting(of_class="none"), wanting()), f"request r/a: {class_not_found('none')}"),
        (request("r", wanting(of_class="odd")), "device class odd can't be read: spec.selectors"),
    ],
)
def test_a_class_must_exist_before_any_node_is_tried(wanted: Json, reason: str) -> None:
    cluster = Cluster()
    put(cluster.objects, device_class("odd", 5))  # type: ignore[arg-type]
    cluster.claim("gpu", wanted)
    assert refusal(cluster, WANTING).startswith(reason)


def test_an_allocated_claim_keeps_its_pods_on_its_node() -> None:
    cluster = Cluster()
    cluster.claim(status=allocated("d0", node_name="node-b", users=["other"]))
    judged = cluster.judge(WANTING)
    assert judged.fitting == {"node-b"}
    assert judged.reasons("node-a") == (NOT_AVAILABLE,)
    assert judged.narrowed("node-b").fitting == {"node-b"}


def test_devices_without_node_operations_need_a_kubelet_that_can_leave_them_out() -> None:
    """kube-scheduler checks this with its gate DRAOptionalNodeOperations off, too."""
    cluster = Cluster()
    cluster.scene.cache.put_node(node("node-b", features=["DRAOptionalNodeOperations"]))
    cluster.claim(status=allocated("d0", skipNodeOperations=["*"], users=["other"]))
    judged = cluster.judge(WANTING)
    assert judged.fitting == {"node-b"}
    assert judged.reasons("node-a") == (NOT_AVAILABLE,)
    cluster.claim(status=allocated("d0", skipNodeOperations=["*"], node_name="node-a", users=["other"]))
    assert cluster.judge(WANTING).fitting == set()


def test_devices_with_failed_or_late_conditions_can_not_be_used() -> None:
    cluster = Cluster(bindingTimeout="1m")
    conditions: Json = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"]}
    status = allocated("d0", **conditions)
    status["allocation"]["allocationTimestamp"] = "2027-01-15T08:00:00Z"
    cluster.claim(status=status)
    assert cluster.judge(WANTING).fitting == {"node-a", "node-b"}
    report = {"driver": DRIVER, "pool": "a", "device": "d0"}
    broken = {"conditions": [{"type": "Broken", "status": "True"}]}
    put(cluster.objects, resource_claim(status=status | {"devices": [report | broken]}))
    assert cluster.judge(WANTING).fitting == set()
    put(cluster.objects, resource_claim(status=status))
    late = cluster.scene.judging(cluster.plugin, WANTING, DecisionTime(NOW + 61))
    assert late.fitting == set()
    assert late.reasons("node-a") == (NOT_AVAILABLE,)


def test_a_failed_device_is_noticed_before_the_others_are_ready() -> None:
    cluster = Cluster()
    conditions: Json = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"]}
    status = allocated("d0", "d1", **conditions)
    broken = {"conditions": [{"type": "Broken", "status": "True"}]}
    report = {"driver": DRIVER, "pool": "a", "device": "d1"} | broken
    cluster.claim(status=status | {"devices": [report]})
    assert cluster.judge(WANTING).fitting == set()


def test_nodes_with_preferred_alternatives_score_higher() -> None:
    cluster = Cluster()
    size = f"device.attributes['{DRIVER}'].size == '{{}}'"
    wanted = request("r", wanting(size.format("large")), wanting(size.format("small")))
    cluster.claim("gpu", wanted)
    for name, kind in (("node-a", "small"), ("node-b", "large")):
        put(
            cluster.objects,
            device_slice(name, device("d0", attributes=attributes(size=kind)), node_name=name),
        )
    assert cluster.judge(WANTING).fitting == {"node-a", "node-b"}
    judged = cluster.judge(WANTING)
    assert judged.fitting
    assert judged.scores == {"node-a": 87.0, "node-b": 100.0}
    cluster.claim("plain")
    plain = cluster.judge(pod(**claiming("plain")))
    assert plain.fitting
    assert plain.scores == {"node-a": 0.0, "node-b": 0.0}
    assert cluster.judge(pod()).scores == {"node-a": 0.0, "node-b": 0.0}


def test_alternatives_of_allocated_claims_count_for_the_score() -> None:
    cluster = Cluster()
    either = request("gpu", wanting(count=9), wanting())
    status = allocated("d0")
    status["allocation"]["devices"]["results"][0]["request"] = "gpu/b"
    cluster.claim("old", either, status=status)
    judged = cluster.judge(pod(**claiming("old")))
    assert judged.fitting
    assert judged.scores == {"node-a": 100.0, "node-b": 100.0}


def test_a_search_that_takes_too_long_rules_the_node_out() -> None:
    cluster = Cluster()
    many = [request(f"r{index}", wanting(count=8)) for index in range(4)]
    apart = [{"matchAttribute": f"{DRIVER}/a", "requests": ["r3"]}]
    cluster.claim("gpu", *many, constraints=apart)
    put(cluster.objects, device_slice("a", *(f"d{index}" for index in range(40))))
    judged = cluster.judge(WANTING)
    assert judged.fitting == set()
    assert judged.reasons("node-a") == (SEARCH_TIMED_OUT,)
    nothing = FilterResult(judged.mask, (), ())
    assert cluster.plugin.post_filter(judged.state, WANTING, judged.snapshot, nothing).unfinished
    cluster.claim()
    judged = cluster.judge(WANTING)
    assert judged.fitting == {"node-a"}
    assert not cluster.plugin.post_filter(judged.state, WANTING, judged.snapshot, nothing).unfinished


def test_thousands_of_new_devices_are_looked_at_over_several_attempts() -> None:
    cluster = Cluster()
    put(cluster.objects, device_class("gpu", f"device.driver == '{DRIVER}'"))
    last = f"device.attributes['{DRIVER}'].number == 9999"
    cluster.claim("gpu", request("r", wanting(last)))
    for index in range(50):
        devices = [device(f"d{index}-{n}", attributes=attributes(number=index * 100 + n)) for n in range(100)]
        name = "node-a" if index < 49 else "node-b"
        put(cluster.objects, device_slice(f"s{index}", *devices, node_name=name))
    devices = [device("last", attributes=attributes(number=9999))]
    put(cluster.objects, device_slice("t", *devices, node_name="node-b"))
    attempts = 0
    unfinished = True
    while unfinished:
        judged = cluster.judge(WANTING)
        fitting = judged.fitting
        nothing = FilterResult(judged.mask, (), ())
        unfinished = cluster.plugin.post_filter(judged.state, WANTING, judged.snapshot, nothing).unfinished
        attempts += 1
    assert (attempts, fitting) == (4, {"node-b"})


@pytest.mark.parametrize("args", [{"bindingTimeout": "soon"}, {"filterTimeout": 5}, {"other": 1}])
def test_invalid_args_are_refused(args: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="pluginConfig of DynamicResources: "):
        Cluster(**args)


def test_nodes_that_see_the_same_shared_devices_share_the_search() -> None:
    cluster = Cluster()
    for index in range(20):
        cluster.scene.cache.put_node(node(f"more-{index}"))
    cluster.claim()
    put(cluster.objects, device_slice("net", "d0", allNodes=True))
    judged = cluster.judge(WANTING)
    assert len(judged.fitting) == 22
    pools = cluster.objects.resource_slices.pools
    assert len({id(pools.of(each)) for each in cluster.scene.columns.nodes}) == 1


def test_expressions_that_fail_only_after_much_work_end_the_search_on_other_nodes() -> None:
    cluster = Cluster()
    cluster.claim("gpu", request("r", wanting("lists.range(60000).all(x, true)")))
    for index in range(20):
        cluster.scene.cache.put_node(node(f"more-{index}"))
        put(cluster.objects, device_slice(f"s{index}", "d0", node_name=f"more-{index}"))
    judged = cluster.judge(WANTING)
    assert judged.fitting == set()
    reasons = [judged.reasons(f"more-{index}")[0] for index in range(20)]
    assert sum("cost limit exceeded" in each for each in reasons) == 3
    assert sum(each == SEARCH_TIMED_OUT for each in reasons) == 17
