"""The schemas of Kubernetes' own kinds, from builtin.json, which `write_schemas` makes."""

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

Json = dict[str, Any]

FILE = Path(__file__).with_name("builtin.json")
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class BuiltinSchema(msgspec.Struct, rename="camel", gc=False):
    """One schema. References are followed by `resolved`."""

    type: str = ""
    format: str = ""
    default: Any = msgspec.UNSET
    required: tuple[str, ...] = ()
    ref: str = ""
    properties: "dict[str, BuiltinSchema]" = {}
    items: "BuiltinSchema | None" = None
    additional_properties: "BuiltinSchema | None" = None
    either: bool = False
    keys: tuple[str, ...] = ()
    list: str = ""
    map: str = ""
    merge_key: str = ""
    strategy: str = ""
    target: "BuiltinSchema | None" = None


class _File(msgspec.Struct):
    kinds: dict[str, str]
    definitions: dict[str, BuiltinSchema]


@cache
def _file() -> _File:
    return msgspec.json.decode(FILE.read_bytes(), type=_File)


def definition(name: str) -> BuiltinSchema:
    """Return a schema by its name in the OpenAPI document."""
    return _file().definitions[name]


def schema_of(group: str, version: str, kind: str) -> BuiltinSchema:
    """Return the schema of a kind."""
    return definition(_file().kinds[f"{group}/{version}/{kind}"])


def resolved(schema: BuiltinSchema) -> BuiltinSchema:
    """Return the schema to which a reference leads."""
    if not schema.ref:
        return schema
    if schema.target is None:
        schema.target = definition(schema.ref)
    return schema.target
