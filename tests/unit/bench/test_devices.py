from typing import Any

from bench.device_claims import wrong_devices
from bench.devices import claiming_pod, device_claim, device_class, device_slice, drain, parse
from bench.pods import pod_name
from bench.scenarios import pod_object
from builders import encode, node
from devices import put
from tidelock.model.devices import decode_device_class, decode_slice
from tidelock.model.pods import decode_pod
from tidelock.model.resource_claims import decode_resource_claim
from tidelock.plugins.dynamic_resources.plugin import DynamicResources
from unit.plugins.scene import Scene


def claim(number: int, *devices: str, pool: str = "node-00001") -> dict[str, Any]:
    """Build a stored claim with these devices."""
    results = [{"pool": pool, "device": each} for each in devices]
    return device_claim(number) | {"status": {"allocation": {"devices": {"results": results}}}}


def test_a_pod_fits_where_its_claim_gets_devices() -> None:
    scene = Scene(node("node-00000"), node("node-00001"))
    put(scene.objects, decode_device_class(encode(device_class())))
    put(scene.objects, decode_slice(encode(device_slice(0, 1))), decode_slice(encode(device_slice(1, 2))))
    for number, fitting in ((4, {"node-00001"}), (5, {"node-00000", "node-00001"})):
        made = device_claim(number)
        made["metadata"]["namespace"] = "bench"
        put(scene.objects, decode_resource_claim(encode(made)))
        body = pod_object(pod_name(number), "default-scheduler", claiming_pod(number))
        body["metadata"]["namespace"] = "bench"
        wanting = decode_pod(encode(body))
        assert scene.judging(DynamicResources(scene.handle, {}), wanting).fitting == fitting


def test_a_drain_has_the_devices_of_every_node() -> None:
    options = parse(["--quick"])
    scenario = drain(options.nodes, options.pods, options.devices)
    assert len(scenario.cluster) == 51
    assert scenario.title == "drain of pods with claims, 50 nodes with 8 devices"


def test_wrong_devices_are_faults() -> None:
    nodes = {pod_name(number): "node-00001" for number in range(1, 4)}
    assert not [*wrong_devices([claim(1, "gpu-0"), claim(2, "gpu-1")], nodes)]
    assert [*wrong_devices([claim(1, "gpu-0"), claim(2, "gpu-0")], nodes)] == [
        "device gpu-0 of node-00001 is in 2 claims"
    ]
    assert [*wrong_devices([claim(1, "gpu-0", pool="node-00002")], nodes)] == [
        "claim pod-000001 has devices of another node than node-00001"
    ]
    assert [*wrong_devices([device_claim(3)], nodes)] == ["claim pod-000003 has 0 of 1 devices"]
