"""Building blocks of the custom resources: the base model, bounded scalars, rules, conditions.

A type states everything once. pydantic checks its annotations, and the CRD's schema is generated from them.
Its docstrings are the text of `kubectl explain`. Only the API server checks a `Rule`.
"""

import ast
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from textwrap import dedent
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    ValidationError,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from tidelock.model.meta import field_path
from tidelock.model.printable import shortened

VALIDATIONS = "x-kubernetes-validations"
LARGEST_INTEGER = 2**53
"""Largest integer that all JSON readers represent exactly."""
YEAR_SECONDS = 31_536_000
"""Longest duration that a field accepts."""

_PROBLEMS_LENGTH = 1024
_REFUSED_BOUNDS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "string": {"maxLength": 253},
        "integer": {"minimum": -LARGEST_INTEGER, "maximum": LARGEST_INTEGER},
        "boolean": {},
        "object": {"x-kubernetes-preserve-unknown-fields": True},
    }
)


@dataclass(frozen=True)
class Rule:
    """A CEL rule of the API server on an annotated field, or on a model that lists it in `rules`."""

    expression: str
    message: str
    field: str = ""
    """Path below `self` of the field that the error names, such as `.template`."""
    reason: Literal["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired"] = "FieldValueInvalid"

    def to_schema(self) -> dict[str, str]:
        """Return an entry of x-kubernetes-validations."""
        entry = {"rule": self.expression, "message": self.message, "reason": self.reason}
        return entry | ({"fieldPath": self.field} if self.field else {})

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core)
        schema[VALIDATIONS] = [*schema.get(VALIDATIONS, ()), self.to_schema()]
        return schema


def exactly_one(of: str, other: str) -> tuple[Rule, Rule]:
    """Require one of two fields, with errors that name the missing or the superfluous field."""
    text = f"exactly one of {of} and {other} is required"
    return (
        Rule(f"has(self.{of}) || has(self.{other})", text, field=f".{of}", reason="FieldValueRequired"),
        Rule(f"!has(self.{of}) || !has(self.{other})", text, field=f".{other}", reason="FieldValueForbidden"),
    )


@dataclass(frozen=True)
class Refused:
    """A field that users may expect. The API server would drop it silently if it were not declared."""

    type: Literal["string", "integer", "boolean", "object"]
    reason: str

    def to_schema(self) -> dict[str, Any]:
        """Return the schema of the field, which accepts any value that the rule then refuses."""
        return {"type": self.type, "description": f"Refused: {self.reason}.", **_REFUSED_BOUNDS[self.type]}

    def rule(self, name: str) -> Rule:
        """Return the rule that refuses the field."""
        return Rule(
            f"!has(self.{name})",
            f"{name} is refused: {self.reason}",
            field=f".{name}",
            reason="FieldValueForbidden",
        )


class Wire(BaseModel):
    """An immutable part of a custom resource: camelCase on the wire, without unknown fields."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        serialize_by_alias=True,
        defer_build=True,  # until the first object of the kind: a start needs few of the kinds
    )
    rules: ClassVar[tuple[Rule, ...]] = ()
    refused: ClassVar[Mapping[str, Refused]] = MappingProxyType({})

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        described = handler.resolve_ref_schema(schema)
        for name, text in _field_docstrings(cls).items():
            described["properties"][cls.model_fields[name].alias or name].setdefault("description", text)
        for name, refused in cls.refused.items():
            described["properties"][name] = refused.to_schema()
        rules = (*(refused.rule(name) for name, refused in cls.refused.items()), *cls.rules)
        if rules:
            described[VALIDATIONS] = [rule.to_schema() for rule in rules]
        return schema


def _field_docstrings(model: type[Wire]) -> dict[str, str]:
    """Return the docstring of each field of a class and its bases, for the schema alone.

    The setting `use_attribute_docstrings` of pydantic reads the sources of all classes at each import.
    """
    found = {}
    for each in reversed(model.__mro__[: model.__mro__.index(Wire)]):
        (definition,) = ast.parse(dedent(inspect.getsource(each))).body
        for field, text in pairwise(ast.iter_child_nodes(definition)):
            match field, text:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(str(doc))):
                    found[name] = inspect.cleandoc(doc)
    return found


class OpenWire(Wire):
    """A part of a Kubernetes object that declares only the fields used here, and keeps all others."""

    model_config = ConfigDict(extra="allow")


class StatusWire(Wire):
    """A part of a status, which ignores the fields of a newer version."""

    model_config = ConfigDict(extra="ignore")


def _to_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("is not between the years 1 and 9999 in UTC") from error


_DATE_TIME = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)


def _read_given(value: object) -> object:
    """Parse a text as RFC 3339, and refuse variants that the API server would read differently."""
    if not isinstance(value, str):
        return value
    if not re.fullmatch(_DATE_TIME, value):
        raise ValueError(
            "should be a date-time such as 2026-12-01T00:00:00Z or 2026-12-01T02:00:00+02:00, with an "
            "upper-case T and Z, or an offset of less than 24 hours"
        )
    return datetime.fromisoformat(value)


Timestamp = Annotated[AwareDatetime, AfterValidator(_to_utc)]
GivenTimestamp = Annotated[
    Timestamp, BeforeValidator(_read_given), Field(json_schema_extra={"pattern": _DATE_TIME})
]
"""A timestamp that users write."""

_LABEL = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
# Kubernetes' own validation limits the length of a subdomain, and not the length of its parts.
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
SUBDOMAIN = rf"^{_SUBDOMAIN}$"
QUALIFIED_NAME = rf"^({_SUBDOMAIN}/)?{_LABEL}$"
PREFIXED_NAME = rf"^{_SUBDOMAIN}/{_LABEL}$"
LABEL_VALUE = rf"^({_LABEL})?$"
LONGEST_LABEL_KEY = 317

DnsLabel = Annotated[str, StringConstraints(max_length=63, pattern=rf"^{_DNS_LABEL}$")]
Subdomain = Annotated[str, StringConstraints(max_length=253, pattern=SUBDOMAIN)]
LabelKey = Annotated[str, StringConstraints(max_length=LONGEST_LABEL_KEY, pattern=QUALIFIED_NAME)]
LabelValue = Annotated[str, StringConstraints(max_length=63, pattern=LABEL_VALUE)]
Uid = Annotated[str, StringConstraints(max_length=128)]
Generation = Annotated[int, Field(ge=-1, le=LARGEST_INTEGER)]
Percent = Annotated[int, Field(ge=0, le=100)]

Labels = Annotated[
    dict[str, LabelValue],
    Field(max_length=64),
    Rule(f"self.all(key, key.matches(r'{QUALIFIED_NAME}'))", "a key is not a valid label key"),
]


class Condition(StatusWire):
    """One aspect of an object's state, in the form that kstatus and other tools read."""

    type: Annotated[str, Field(min_length=1, max_length=64)]
    """Name of the aspect, such as Active or Ready."""
    status: Literal["True", "False", "Unknown"]
    """Whether the aspect holds."""
    reason: Annotated[
        str, Field(min_length=1, max_length=128, pattern="^[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?$")
    ]
    """Cause of the last change, one CamelCase word for programs."""
    message: Annotated[str, Field(max_length=32_768)] = ""
    """Explanation for people, with numbers."""
    last_transition_time: Timestamp
    """Time at which the status last changed from one value to another."""
    observed_generation: Generation | None = None
    """Generation of the spec that the condition describes."""


LIST_SET: dict[str, Any] = {"x-kubernetes-list-type": "set"}
"""Marks a list with unique items."""


def list_map(key: str) -> dict[str, Any]:
    """Mark a list with items that are identified, and merged, by a key."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


Conditions = Annotated[list[Condition], Field(max_length=16, json_schema_extra=list_map("type"))]


def legible(kind: type[StatusWire], plain: object) -> dict[str, Any]:
    """Return the readable fields of a stored status, as plain JSON values.

    All other fields count as absent: an older or newer version wrote them, or another client that may write
    statuses.
    """
    if not isinstance(plain, dict):
        return {}
    try:
        kind.model_validate(plain)
    except ValidationError as error:
        odd = {problem["loc"][0] for problem in error.errors(include_url=False) if problem["loc"]}
        return {name: value for name, value in plain.items() if name not in odd}
    return plain


def spec_problems(error: ValidationError) -> str:
    """Return one line that names the wrong fields of a spec: `spec.owners[0].pod.name: ...; ...`."""
    text = "; ".join(
        f"{field_path(('spec', *problem['loc']))}: {_message(problem)}" for problem in error.errors()
    )
    return shortened(text, _PROBLEMS_LENGTH)


def _message(problem: Any) -> str:
    return " ".join(problem["msg"].removeprefix("Value error, ").split())
