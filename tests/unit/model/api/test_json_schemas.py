"""The JSON Schemas of the kinds refuse the errors that the API server finds without rules in CEL."""

from typing import Any

import jsonschema
import pytest

from tidelock.model.api.crds import CUSTOM_RESOURCES
from write_schemas import json_schema

SCHEMAS = {resource.kind: json_schema(resource) for resource in CUSTOM_RESOURCES}


def reservation(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "tidelock.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "web-0"},
        "spec": {"resources": {"cpu": 2}, "owners": [{"pod": {"name": "web-0"}}], "ttlSeconds": 60, **spec},
    }


def faults(plain: dict[str, Any]) -> list[str]:
    validator = jsonschema.Draft7Validator(SCHEMAS["Reservation"])
    return [error.json_path for error in validator.iter_errors(plain)]


@pytest.mark.parametrize("kind", SCHEMAS)
def test_each_schema_is_one_of_its_dialect(kind: str) -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMAS[kind])


def test_a_quantity_is_a_number_or_a_text() -> None:
    assert not faults(reservation())
    assert not faults(reservation(resources={"cpu": "500m"}))
    assert faults(reservation(resources={"cpu": True})) == ["$.spec.resources.cpu"]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"owner": []}, "$.spec"),
        ({"owners": [{"pod": {"name": "web-0", "names": []}}]}, "$.spec.owners[0].pod"),
        ({"ttlSeconds": "60"}, "$.spec.ttlSeconds"),
        ({"answer": "Later"}, "$.spec.answer"),
    ],
)
def test_a_wrong_field_is_named(spec: dict[str, Any], path: str) -> None:
    assert faults(reservation(**spec)) == [path]


def test_a_template_keeps_fields_that_tidelock_does_not_know() -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "web", "futureField": 1}]}}
    assert not faults(reservation(template=template))


def test_another_kind_is_refused() -> None:
    assert faults(reservation() | {"kind": "Reservations"}) == ["$.kind"]
