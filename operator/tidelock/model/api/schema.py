"""Structural schemas of wire types, as CustomResourceDefinitions require them.

pydantic writes plain JSON Schema. A structural schema has no references, and an absent field instead of null.
The API server drops unknown fields, so the schema never forbids them. Text that does not help a reader of
`kubectl explain` is left out.
"""

from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema, to_jsonable_python

from tidelock.model.api.wire import Wire

_DEFINITION = "#/$defs/"


class _StructuralGenerator(GenerateJsonSchema):
    """Generates JSON Schema without the parts that a structural schema can't have."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """Return the schema of the inner type. An optional field is one that is not required."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Keep a default unless it is None, which stands for absence."""
        if schema.get("default") is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)

    def encode_default(self, dft: Any) -> Any:
        """Return a default as the API server stores it."""
        return to_jsonable_python(dft, by_alias=True, exclude_none=True)

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        """List the values, even a single one."""
        return {"type": "string", "enum": list(schema["expected"])}


def structural_schema(model: type[Wire]) -> dict[str, Any]:
    """Return the structural schema of a wire type."""
    schema = TypeAdapter(model).json_schema(schema_generator=_StructuralGenerator)
    definitions = schema.pop("$defs", {})
    return _structural(schema, definitions)


def _structural(schema: JsonSchemaValue, definitions: dict[str, JsonSchemaValue]) -> dict[str, Any]:
    """Return the structural form of a node and of the nodes below it."""
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
