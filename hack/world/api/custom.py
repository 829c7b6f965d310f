"""The schema of a kind that a CustomResourceDefinition defines: decoding and all errors of its objects."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from world.api.causes import Cause
from world.api.rules import rule_errors
from world.api.structural import Structural, fill, prune, value_errors

Json = dict[str, Any]

_UNCHECKED = Cause(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
_BLOCKING = frozenset(
    {
        *("FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"),
        "FieldValueNotSupported",
    }
)


@dataclass
class CustomSchema:
    """The schema of a kind, as its CustomResourceDefinition has it."""

    root: Structural
    status: bool

    @classmethod
    def read(cls, version: Json) -> Self:
        """Return the schema of a version of a CustomResourceDefinition."""
        return cls(
            Structural.read(version["schema"]["openAPIV3Schema"]), "status" in version.get("subresources", {})
        )

    def decode(self, value: Json, unknown: list[str]) -> Json:
        """Return an object with its defaults and without unknown fields. The metadata is left as it is."""
        own = {name: each for name, each in value.items() if name not in {"apiVersion", "kind", "metadata"}}
        pruned: Json = prune(self.root, own, "", unknown)
        fill(self.root, pruned)
        named = {name: value[name] for name in ("apiVersion", "kind", "metadata") if name in value}
        return named | pruned

    def errors(
        self, new: Json, old: Json | None, known: Sequence[Cause], *, values: bool = True
    ) -> list[Cause]:
        """Return the errors of an object after those of its metadata.

        They are those of its values, and then those of the rules between its fields. The rules are not
        checked if others make the object unreadable.
        """
        own = {name: each for name, each in new.items() if name not in {"apiVersion", "kind", "metadata"}}
        found = [*known, *(value_errors(self.root, own, "") if values else ())]
        if any(cause.reason in _BLOCKING for cause in found):
            return [*found, _UNCHECKED] if self.root.has_rules else found
        if self.root.has_rules:
            found += rule_errors(self.root, new, old)
        return found
