import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from pydantic import Field

from tidelock.model.api.crds import CUSTOM_RESOURCES, CustomResource
from tidelock.model.api.resource_list import IntOrString
from tidelock.model.api.schema import structural_schema
from tidelock.model.api.wire import OpenWire, Refused, Rule, Wire

CRDS = Path(__file__).parents[4] / "crds"
STRUCTURAL_KEYWORDS = {
    "additionalProperties",
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "pattern",
    "properties",
    "required",
    "type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
}


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each node of a schema with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}[*]")


def root(resource: CustomResource) -> dict[str, Any]:
    version: dict[str, Any] = resource.definition()["spec"]["versions"][0]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def is_bounded(node: dict[str, Any]) -> bool:
    match node.get("type"):
        case "array":
            return "maxItems" in node and "items" in node
        case "object":
            return (
                "properties" in node
                or "maxProperties" in node
                or "x-kubernetes-preserve-unknown-fields" in node
            )
        case "string":
            return bool({"maxLength", "enum"} & node.keys()) or node.get("format") == "date-time"
        case "integer" | "number":
            return {"minimum", "maximum"} <= node.keys()
        case None:
            return "x-kubernetes-int-or-string" in node and "maxLength" in node
        case other:
            return bool(other == "boolean")


every_node = pytest.mark.parametrize(
    "node",
    [
        pytest.param(node, id=f"{resource.kind}{path}")
        for resource in CUSTOM_RESOURCES
        for path, node in nodes(root(resource))
    ],
)


@every_node
def test_a_node_is_structural(node: dict[str, Any]) -> None:
    assert node.keys() <= STRUCTURAL_KEYWORDS
    assert ("type" in node) != ("x-kubernetes-int-or-string" in node)
    assert not {"properties", "additionalProperties"} <= node.keys()
    assert set(node.get("required", ())) <= node.get("properties", {}).keys()


@every_node
def test_a_node_is_bounded(node: dict[str, Any]) -> None:
    assert is_bounded(node)


@every_node
def test_every_property_has_a_description_without_a_newline(node: dict[str, Any]) -> None:
    for name, child in node.get("properties", {}).items():
        assert child.get("description"), name
        assert "\n" not in child["description"], name


@every_node
def test_a_pattern_covers_the_whole_value(node: dict[str, Any]) -> None:
    if pattern := node.get("pattern"):
        assert re.compile(pattern)
        assert pattern.startswith("^")
        assert pattern.endswith("$")


@pytest.mark.parametrize("resource", CUSTOM_RESOURCES, ids=lambda resource: resource.kind)
def test_the_committed_definition_is_the_generated_one(resource: CustomResource) -> None:
    assert yaml.safe_load((CRDS / f"{resource.plural}.yaml").read_text()) == resource.definition()


@pytest.mark.parametrize("resource", CUSTOM_RESOURCES, ids=lambda resource: resource.kind)
def test_an_object_without_status_does_not_read_as_finished(resource: CustomResource) -> None:
    assert root(resource)["properties"]["status"]["default"] == {"observedGeneration": -1}


class Anchor(Wire):
    """What holds."""

    weight: Annotated[int, Field(ge=1, le=9)] = 3
    """Tons."""
    chain: Literal["iron"] | None = None
    """Made of."""


class Boat(Wire):
    """A vessel that floats."""

    anchor: Anchor = Anchor(weight=4)
    """Holds
    the boat."""
    spare: Annotated[list[Anchor], Field(max_length=2)] | None = None
    """More of them."""
    cargo: Annotated[
        dict[str, IntOrString], Field(max_length=2), Rule("true", "first"), Rule("true", "second")
    ]
    """Goods."""


class Port(OpenWire):
    """A place for boats."""

    rules = (Rule("has(self.pilot)", "a pilot is required", field=".pilot", reason="FieldValueRequired"),)
    refused = {"pirate": Refused("string", "not here"), "wreck": Refused("object", "not here either")}  # noqa: RUF012


def test_a_reference_is_inlined_with_the_description_of_its_field() -> None:
    anchor = structural_schema(Boat)["properties"]["anchor"]
    assert anchor["description"] == "Holds the boat."
    assert anchor["properties"]["weight"] == {
        "description": "Tons.",
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
        "default": 3,
    }


def test_an_item_keeps_the_description_of_its_type() -> None:
    assert structural_schema(Boat)["properties"]["spare"]["items"]["description"] == "What holds."


def test_an_optional_field_is_not_required() -> None:
    schema = structural_schema(Boat)
    assert schema["required"] == ["cargo"]
    assert schema["properties"]["spare"]["type"] == "array"


def test_a_default_leaves_out_absent_fields() -> None:
    assert structural_schema(Boat)["properties"]["anchor"]["default"] == {"weight": 4}


def test_a_single_value_is_an_enumeration() -> None:
    assert structural_schema(Anchor)["properties"]["chain"] == {
        "description": "Made of.",
        "type": "string",
        "enum": ["iron"],
    }


def test_rules_keep_their_order() -> None:
    validations = structural_schema(Boat)["properties"]["cargo"]["x-kubernetes-validations"]
    assert [rule["message"] for rule in validations] == ["first", "second"]


def test_a_rule_names_its_field_and_reason() -> None:
    assert structural_schema(Port)["x-kubernetes-validations"][-1] == {
        "rule": "has(self.pilot)",
        "message": "a pilot is required",
        "reason": "FieldValueRequired",
        "fieldPath": ".pilot",
    }


def test_a_refused_field_is_declared_and_forbidden() -> None:
    schema = structural_schema(Port)
    assert schema["properties"]["pirate"] == {
        "type": "string",
        "maxLength": 253,
        "description": "Refused: not here.",
    }
    assert schema["properties"]["wreck"]["x-kubernetes-preserve-unknown-fields"] is True
    assert schema["x-kubernetes-validations"][0] == {
        "rule": "!has(self.pirate)",
        "message": "pirate is refused: not here",
        "reason": "FieldValueForbidden",
        "fieldPath": ".pirate",
    }


def test_an_open_type_keeps_unknown_fields() -> None:
    assert structural_schema(Port)["x-kubernetes-preserve-unknown-fields"] is True
    assert "additionalProperties" not in structural_schema(Boat)


@pytest.mark.parametrize("resource", CUSTOM_RESOURCES, ids=lambda each: each.plural)
def test_rules_between_fields_name_the_field_that_is_wrong(resource: CustomResource) -> None:
    """Guard against rules that report an error of the whole spec, and against messages without a field."""
    (version,) = yaml.safe_load((CRDS / f"{resource.plural}.yaml").read_text())["spec"]["versions"]
    root = version["schema"]["openAPIV3Schema"]
    for schema in (root, root["properties"]["spec"]):
        for rule in schema.get("x-kubernetes-validations", ()):
            # No rule can have the path of a part of metadata, so such a message begins with it.
            path = rule.get("fieldPath") or rule["message"].partition(":")[0]
            assert path.startswith((".", "metadata.")), rule
            assert path.rpartition(".")[2] in rule["message"], rule
