from builders import Json
from devices import device, device_slice, request, resource_claim, wanting
from tidelock.model.selectors import NodeSelector, NodeSelectorTerm, Requirement
from unit.devices.test_allocator import allocations


def opaque(name: str) -> Json:
    return {"opaque": {"driver": "gpu.example.com", "parameters": {"name": name}}}


def zone(value: str) -> Json:
    wanted = {"key": "zone", "operator": "In", "values": [value]}
    return {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}


def test_devices_of_a_node_bind_the_claim_to_the_node() -> None:
    found = allocations([device_slice("s", "d0")], resource_claim())
    assert found is not None
    only = Requirement("metadata.name", "In", ("node-a",))
    assert found[0].node_selector == NodeSelector((NodeSelectorTerm(match_fields=(only,)),))


def test_devices_for_some_nodes_bind_the_claim_to_these() -> None:
    slices = [
        device_slice("s", "d0", nodeSelector=zone("a")),
        device_slice("t", "d1", nodeSelector=zone("a")),
        device_slice("u", "d2", allNodes=True),
    ]
    found = allocations(slices, resource_claim("c", request("r", wanting(count=3))))
    assert found is not None
    same = Requirement("zone", "In", ("a",))
    assert found[0].node_selector == NodeSelector((NodeSelectorTerm((same,)),))
    everywhere = allocations(slices[2:], resource_claim())
    assert everywhere is not None
    assert everywhere[0].node_selector is None
    bound = allocations([device_slice("u", device("d2", bindsToNode=True), allNodes=True)], resource_claim())
    assert bound is not None
    assert bound[0].node_selector is not None


def test_parameters_of_classes_and_claims_go_to_the_requests_that_use_them() -> None:
    wanted = resource_claim(
        "c",
        request("r", wanting(of_class="configured")),
        request("s", wanting()),
        config=[opaque("claim"), opaque("r") | {"requests": ["r"]}, opaque("t") | {"requests": ["t/a"]}],
    )
    found = allocations([device_slice("s", "d0", "d1")], wanted)
    assert found is not None
    config = [
        (each.source, each.requests, each.opaque and each.opaque.parameters["name"])
        for each in found[0].devices.config
    ]
    assert config == [
        ("FromClass", ("r",), "class"),
        ("FromClaim", (), "claim"),
        ("FromClaim", ("r",), "r"),
    ]


def test_parameters_for_all_requests_name_none() -> None:
    either = request("r", wanting(count=9), wanting())
    config = [opaque("all") | {"requests": ["r/b"]}, opaque("other") | {"requests": ["r/a"]}]
    found = allocations([device_slice("s", "d0")], resource_claim("c", either, config=config))
    assert found is not None
    assert [each.requests for each in found[0].devices.config] == [()]


def test_conditions_for_the_binding_come_with_the_device() -> None:
    waiting = device("d0", bindingConditions=["Ready"], bindingFailureConditions=["Failed"])
    found = allocations([device_slice("s", waiting)], resource_claim())
    assert found is not None
    (result,) = found[0].devices.results
    assert (result.binding_conditions, result.binding_failure_conditions) == (("Ready",), ("Failed",))
    assert found[0].waits
