"""Schemas of the fuzzed kinds: Tidelock's from crds/, and Kubernetes' own from the API server."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec
import yaml

Json = dict[str, Any]

CRDS = Path(__file__).parents[2] / "crds"

_NESTED = {"properties", "items", "additionalProperties"}
_DEEPEST = 6
_INT_OR_STRING = "x-kubernetes-int-or-string"
_REFUSED = re.compile(r"!has\(self\.(\w+)\)")
_TEXT_PATTERN = re.compile(r"self\.matches\(r'([^']+)'\)")
_KEY_PATTERN = re.compile(r"self\.all\(key, key\.matches\(r'([^']+)'\)\)")
_LITERALS = re.compile(r"'([^']{1,40})'|\b(\d{1,19})\b")


@dataclass(frozen=True)
class Schema:
    """One schema, in which references are followed lazily.

    Attributes:
        plain: the schema in OpenAPI's format.
        components: targets of references, by name.
        words: texts and numbers that the rules (CEL) of this kind compare with.
        name: the field that has this schema. A list's items have the name of the list.

    """

    plain: Json
    components: Mapping[str, Json] = field(default_factory=dict)
    words: tuple[str | int, ...] = ()
    name: str = ""

    @property
    def type(self) -> str:
        """The JSON type, `quantity` for a number or a text, or empty for any type."""
        if self.plain.get(_INT_OR_STRING) or "oneOf" in self.plain or "anyOf" in self.plain:
            return "quantity"
        return str(self.plain.get("type", ""))

    @property
    def properties(self) -> dict[str, "Schema"]:
        """The fields of an object."""
        return {name: self._follow(each, name) for name, each in self.plain.get("properties", {}).items()}

    @property
    def required(self) -> tuple[str, ...]:
        """The fields that an object must have."""
        return tuple(self.plain.get("required", ()))

    @property
    def refused(self) -> frozenset[str]:
        """The fields that a rule refuses with any value."""
        found = (_REFUSED.fullmatch(rule) for rule in self._rules)
        return frozenset(each.group(1) for each in found if each)

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns that a text must match."""
        found = (_TEXT_PATTERN.match(rule) for rule in self._rules)
        own = (str(self.plain["pattern"]),) if "pattern" in self.plain else ()
        return (*own, *(each.group(1) for each in found if each))

    @property
    def key_pattern(self) -> str:
        """The pattern that the keys of a map must match, or empty without one."""
        found = (_KEY_PATTERN.fullmatch(rule) for rule in self._rules)
        return next((each.group(1) for each in found if each), "")

    @property
    def _rules(self) -> Iterator[str]:
        return (rule["rule"] for rule in self.plain.get("x-kubernetes-validations", ()))

    @property
    def items(self) -> "Schema":
        """The schema of a list's items."""
        return self._follow(self.plain.get("items", {}), self.name)

    @property
    def values(self) -> "Schema | None":
        """The schema of a map's values, or None for an object with fields, or with any content."""
        values = self.plain.get("additionalProperties")
        return self._follow(values, self.name) if isinstance(values, dict) else None

    def get(self, name: str, default: Any = None) -> Any:
        """Return a bound, format or pattern."""
        return self.plain.get(name, default)

    def _follow(self, plain: Json, name: str) -> "Schema":
        parts = [plain, *plain.get("allOf", ())]
        for part in parts:
            if "$ref" in part:
                plain = self.components[part["$ref"].rpartition("/")[2]]
                break
        return Schema(plain, self.components, self.words, name)


def of_wire(schema: Schema, hint: Any) -> Json:
    """Return a schema with only those fields that Tidelock decodes to a type of its own."""
    plain = {name: value for name, value in schema.plain.items() if name not in {"properties", "required"}}
    kinds = [each for each in (hint, *get_args(hint), *_inner(hint)) if _is_struct(each)]
    if schema.type == "array":
        return plain | {"items": of_wire(schema.items, hint)}
    if schema.type != "object" or not kinds or not schema.properties:
        return _expanded(schema)
    properties = schema.properties
    fields = {each.encode_name: each.type for each in msgspec.structs.fields(kinds[0])}
    required = set(schema.required) - fields.keys()
    kept = {name: of_wire(properties[name], fields[name]) for name in fields if name in properties}
    kept |= {name: _expanded(properties[name]) for name in required}
    return plain | {"properties": kept, "required": list(schema.required)}


def _expanded(schema: Schema, depth: int = 0) -> Json:
    """Copy a schema with its references replaced by their targets, up to a depth."""
    plain = {name: value for name, value in schema.plain.items() if name not in _NESTED}
    if depth > _DEEPEST:
        return plain
    if "properties" in schema.plain:
        plain["properties"] = {name: _expanded(each, depth + 1) for name, each in schema.properties.items()}
    if "items" in schema.plain:
        plain["items"] = _expanded(schema.items, depth + 1)
    if schema.values is not None:
        plain["additionalProperties"] = _expanded(schema.values, depth + 1)
    return plain


def _inner(hint: Any) -> Iterator[Any]:
    """Yield the type arguments of the parts of a union or a list."""
    for each in get_args(hint):
        yield from get_args(each)


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


@cache
def of_crds() -> dict[str, Schema]:
    """Return the schemas of Tidelock's kinds, by kind."""
    found = {}
    for file in sorted(CRDS.glob("*.yaml")):
        definition = yaml.safe_load(file.read_text())
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        words = tuple(dict.fromkeys(_words(schema)))
        found[definition["spec"]["names"]["kind"]] = Schema(schema, {}, words)
    return found


def of_openapi(document: Json) -> dict[str, Schema]:
    """Return the schemas of one group by kind, from the API server's answer to /openapi/v3/..."""
    components = document["components"]["schemas"]
    return {
        each["kind"]: Schema(plain, components)
        for plain in components.values()
        for each in plain.get("x-kubernetes-group-version-kind", ())
    }


def _words(plain: object) -> Iterator[str | int]:
    """Yield the literals of all rules in a schema, and the neighbours of its numbers."""
    if isinstance(plain, dict):
        for rule in plain.get("x-kubernetes-validations", ()):
            for text, number in _LITERALS.findall(rule["rule"]):
                yield from (text,) if text else (int(number) - 1, int(number), int(number) + 1)
        for value in plain.values():
            yield from _words(value)
    elif isinstance(plain, list):
        for value in plain:
            yield from _words(value)
