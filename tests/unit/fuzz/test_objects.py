"""The objects of the fuzzer: reproducible by seed and number, inside or outside the schema, of every kind."""

from functools import partial
from random import Random

import msgspec
import pytest

from fuzz.hostile import deep, mutated, plain
from fuzz.objects import Source
from fuzz.schema import Schema, of_crds, of_openapi, of_wire
from tidelock.model.pods import Pod

Chance = partial(Random)

DOCUMENT = {
    "components": {
        "schemas": {
            "Pod": {
                "type": "object",
                "x-kubernetes-group-version-kind": [{"group": "", "kind": "Pod", "version": "v1"}],
                "properties": {"spec": {"allOf": [{"$ref": "#/components/schemas/Spec"}]}},
            },
            "Spec": {
                "type": "object",
                "properties": {"nodeName": {"type": "string"}, "hostname": {"type": "string"}},
            },
        }
    }
}


def test_a_seed_and_a_number_reproduce_an_object() -> None:
    first, again, other = (Source(seed, {}) for seed in ("a", "a", "b"))
    encode = msgspec.json.Encoder().encode
    drawn = [encode(first.draw(number)) for number in range(40)]
    assert [encode(again.draw(number)) for number in reversed(range(40))] == drawn[::-1]
    assert [encode(other.draw(number)) for number in range(40)] != drawn


def test_every_custom_resource_is_drawn() -> None:
    source = Source("a", {})
    assert {source.draw(number).kind for number in range(300)} == of_crds().keys()


def test_some_objects_are_changed_and_some_have_their_status_forged() -> None:
    source = Source("a", {})
    cases = [source.draw(number) for number in range(100)]
    assert any(case.patches for case in cases)
    assert any(case.forged for case in cases)


@pytest.mark.parametrize("kind", of_crds())
def test_an_ordinary_object_has_all_required_fields_of_its_schema(kind: str) -> None:
    schema = of_crds()[kind]
    for number in range(20):
        drawn = plain(Chance(number), schema)
        assert set(schema.required) <= drawn.keys()
        assert set(schema.properties["spec"].required) <= drawn["spec"].keys()


def test_a_hostile_value_inside_a_schema_keeps_its_bounds() -> None:
    schema = Schema({"type": "object", "properties": {"a": {"type": "integer", "minimum": 1, "maximum": 9}}})
    drawn = {mutated(Chance(number), schema, {"a": 5}, 1)["a"] for number in range(200)}
    assert {1, 9} <= drawn <= set(range(1, 10))


def test_a_hostile_value_beyond_a_schema_may_be_anything() -> None:
    schema = Schema({"type": "object", "properties": {"a": {"type": "integer", "minimum": 1, "maximum": 9}}})
    drawn = [mutated(Chance(number), schema, {"a": 5}, 1, beyond=True) for number in range(200)]
    assert any(each.get("a") is None for each in drawn)
    assert any(isinstance(each.get("a"), str) for each in drawn)


def test_the_literals_of_rules_are_drawn_as_values() -> None:
    assert {10**15 - 1, 10**15, 10**15 + 1} <= set(of_crds()["ReservationQuota"].words)


def test_references_are_followed() -> None:
    schema = of_openapi(DOCUMENT)["Pod"]
    assert schema.properties["spec"].properties.keys() == {"nodeName", "hostname"}


def test_a_schema_is_reduced_to_the_fields_that_are_read() -> None:
    cut = Schema(of_wire(of_openapi(DOCUMENT)["Pod"], Pod))
    assert cut.properties["spec"].properties.keys() == {"nodeName"}


def test_deep_nesting_is_encoded_without_recursion() -> None:
    assert msgspec.json.encode({"a": deep(4)}) == b'{"a":{"a":[{"a":[1]}]}}'
    assert len(msgspec.json.encode(deep(100_000))) > 300_000


RULES = Schema(
    {
        "type": "object",
        "x-kubernetes-validations": [{"rule": "!has(self.namespace)"}],
        "properties": {
            "namespace": {"type": "string"},
            "labels": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "x-kubernetes-validations": [{"rule": "self.all(key, key.matches(r'^[a-z/.]+$'))"}],
            },
            "zone": {"type": "string", "x-kubernetes-validations": [{"rule": "self.matches(r'^[A-Z]+$')"}]},
        },
    }
)


def test_fields_that_rules_always_refuse_are_drawn_only_beyond_the_rules() -> None:
    """Nine of ten Reservations were once refused, so the operator saw few of them."""
    inside = [mutated(Chance(number), RULES, {}) for number in range(200)]
    assert not any("namespace" in each for each in inside)
    assert any("namespace" in mutated(Chance(number), RULES, {}, beyond=True) for number in range(200))


def test_texts_follow_the_patterns_of_rules() -> None:
    zones = {mutated(Chance(number), RULES, {"zone": "UTC"}).get("zone") for number in range(200)}
    assert zones >= {"UTC", "A"}
    assert all(zone.isupper() for zone in zones)


def test_resources_have_names_that_the_api_accepts() -> None:
    amounts = Schema({"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}})
    names = {name for number in range(100) for name in mutated(Chance(number), amounts, {"cpu": "1"})}
    assert {"cpu", "nvidia.com/gpu"} <= names
    assert "unknownField" not in names
