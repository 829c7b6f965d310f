"""Structural schemas, as CustomResourceDefinitions demand them, from wire types.

pydantic writes plain JSON Schema. A structural schema differs: nothing is referenced, absence takes the place
of null, unknown fields are dropped by the API server and so never forbidden, and text that helps no reader of
`kubectl explain` is left out.
"""

from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema, to_jsonable_python

from tidelock.model.api.wire import Wire

_DEFINITION = "#/$defs/"


class _StructuralGenerator(GenerateJsonSchema):
    """pydantic's generator without the parts that have no place in a structural schema."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """Describe what is there; an optional field is one that is not required."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Keep defaults that say something; None only stands for absence."""
        if schema.get("default") is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)

    def encode_default(self, dft: Any) -> Any:
        """Write defaults as the API server would store them."""
        return to_jsonable_python(dft, by_alias=True, exclude_none=True)

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        """List the values, even a single one."""
        return {"type": "string", "enum": list(schema["expected"])}


def structural_schema(model: type[Wire]) -> dict[str, Any]:
    """Describe a wire type as a structural schema."""
    schema = TypeAdapter(model).json_schema(schema_generator=_StructuralGenerator)
    definitions = schema.pop("$defs", {})
    return _structural(schema, definitions)


def _structural(schema: JsonSchemaValue, definitions: dict[str, JsonSchemaValue]) -> dict[str, Any]:
    """Make one node structural, and those below it."""
    if "$ref" in schema:
        referred = definitions[schema["$ref"].removeprefix(_DEFINITION)]
        return _structural(referred | {key: schema[key] for key in schema if key != "$ref"}, definitions)
    node = {key: value for key, value in schema.items() if key not in ("title", "propertyNames")}
    if isinstance(node.get("additionalProperties"), bool) and node.pop("additionalProperties"):
        node["x-kubernetes-preserve-unknown-fields"] = True
    for key in ("items", "additionalProperties"):
        if key in node:
            node[key] = _structural(node[key], definitions)
    if "properties" in node:
        node["properties"] = {
            name: _structural(each, definitions) for name, each in node["properties"].items()
        }
    if "description" in node:
        node["description"] = " ".join(node["description"].split())
    return node
