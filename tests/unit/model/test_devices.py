"""Devices and claims as their writers leave them."""

import pytest

from builders import NAMESPACE, Json, encode
from devices import DRIVER, attributes, claim_json, device, device_slice, resource_claim, slice_json, wanting
from tidelock.cluster.index.devices import ResourceClaims, ResourceSlices
from tidelock.model.devices import decode_slice
from tidelock.model.quantities import QuantityError, TooLargeError, format_nanos, parse_nanos
from tidelock.model.resource_claims import decode_resource_claim


def test_attributes_have_one_of_several_types() -> None:
    plain = attributes(a="x", b=3, c=True) | {
        "d": {"version": "1.2.3"},
        "e": {"strings": ["x"]},
        "f": {"ints": [1, 2]},
        "g": {"bools": [True]},
        "h": {"versions": ["1.2.3"]},
        "i": {"prices": [1.5]},
    }
    found = device_slice("s", device("d0", attributes=plain)).spec.devices[0]
    typed = {name: each.typed for name, each in found.attributes.items()}
    assert typed == {
        "a": ("text", "x"),
        "b": ("number", 3),
        "c": ("flag", True),
        "d": ("version", "1.2.3"),
        "e": ("texts", ("x",)),
        "f": ("numbers", (1, 2)),
        "g": ("flags", (True,)),
        "h": ("versions", ("1.2.3",)),
        "i": None,
    }


def test_the_domain_of_a_drivers_own_attributes_can_be_left_out() -> None:
    plain = attributes(model="x") | {"other.example.com/rack": {"string": "r"}}
    found = device_slice("s", device("d0", attributes=plain)).spec.devices[0]
    assert found.attribute(f"{DRIVER}/model", DRIVER) == found.attributes["model"]
    assert found.attribute("other.example.com/rack", DRIVER) is not None
    assert found.attribute("other.example.com/model", DRIVER) is None
    assert found.attribute("rack", DRIVER) is None


@pytest.mark.parametrize(
    "spec",
    [
        {"sharedCounters": [{"name": "c", "counters": {"x": {"value": "many"}}}]},
        {"devices": [device("d0", amounts={"memory": "many"})]},
        {
            "devices": [
                device("d0", consumesCounters=[{"counterSet": "c", "counters": {"x": {"value": "?"}}}])
            ]
        },
        {"devices": [device("d0", capacity={"m": {"value": "1", "requestPolicy": {"default": "?"}}})]},
    ],
)
def test_a_slice_with_a_bad_quantity_is_not_used(spec: Json) -> None:
    plain = slice_json("s")
    plain["spec"] |= spec
    found = decode_slice(encode(plain))
    assert found.meta.unreadable
    assert not found.usable


def test_a_claim_with_a_bad_quantity_can_not_be_read() -> None:
    wanted = wanting(capacity={"requests": {"memory": "many"}})
    plain = claim_json("c", {"name": "r", "exactly": wanted})
    assert "requests.memory" in decode_resource_claim(encode(plain)).meta.unreadable


def test_the_newest_version_replaces_the_known_one_whatever_the_caller_knows() -> None:
    slices = ResourceSlices()
    slices.upsert(None, device_slice("s", "d0"))
    slices.upsert(None, device_slice("s", "d1", pool="other"))
    slices.remove(device_slice("s"))
    slices.remove(device_slice("s"))
    assert len(slices) == 0
    claims = ResourceClaims()
    claims.upsert(None, resource_claim())
    claims.remove(resource_claim())
    claims.remove(resource_claim())
    assert claims.get("gpu", NAMESPACE) is None


@pytest.mark.parametrize("text", ["0", "1", "4Gi", "1500m", "3u", "7n", "-2Ki", "1001"])
def test_amounts_are_exact_to_a_billionth(text: str) -> None:
    assert format_nanos(parse_nanos(text)) == text


def test_smaller_amounts_are_rounded_up_and_larger_ones_refused() -> None:
    assert parse_nanos("0.0000000001") == 1
    assert parse_nanos("9223372036854775807") == (2**63 - 1) * 10**9
    with pytest.raises(TooLargeError):
        parse_nanos("9223372036854775808")
    with pytest.raises(QuantityError):
        parse_nanos("many")
