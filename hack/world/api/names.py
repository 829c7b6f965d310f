"""The rules for names, labels and the rest of an object's metadata."""

import re
from collections.abc import Iterator
from typing import Any

from world.api.causes import Cause
from world.api.kinds import Kind

Json = dict[str, Any]

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = rf"({_QUALIFIED})?"
_NAME_LENGTH, _LABEL_LENGTH = 253, 63
_ANNOTATIONS_BYTES = 256 * 1024

SUBDOMAIN_DETAIL = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_DETAIL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_QUALIFIED_DETAIL = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_DETAIL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_LABEL_NAMED = frozenset({"Namespace", "Service"})
_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_PATH_NAMED = frozenset({"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "PodDisruptionBudget"})


def name_problems(name: str, *, label: bool = False) -> list[str]:
    """Return the problems of a name: that of a DNS subdomain, or of a DNS label."""
    limit = _LABEL_LENGTH if label else _NAME_LENGTH
    pattern, detail = (_LABEL, LABEL_DETAIL) if label else (_SUBDOMAIN, SUBDOMAIN_DETAIL)
    found = [] if re.fullmatch(pattern, name, re.ASCII) else [detail]
    return ([f"must be no more than {limit} bytes"] if len(name) > limit else []) + found


def qualified_problems(name: str) -> list[str]:
    """Return the problems of a qualified name, such as a label's key."""
    prefix, slash, rest = name.partition("/")
    found = []
    if slash:
        if not prefix:
            found.append("prefix part must be non-empty")
        else:
            found += [f"prefix part {problem}" for problem in name_problems(prefix)]
    else:
        rest = prefix
    if not rest:
        found.append("name part must be non-empty")
    elif len(rest) > _LABEL_LENGTH:
        found.append(f"name part must be no more than {_LABEL_LENGTH} bytes")
    if not re.fullmatch(_QUALIFIED, rest, re.ASCII):
        found.append(_QUALIFIED_DETAIL)
    return found


def value_problems(value: str) -> list[str]:
    """Return the problems of a label's value."""
    found = [f"must be no more than {_LABEL_LENGTH} bytes"] if len(value) > _LABEL_LENGTH else []
    return found if re.fullmatch(_VALUE, value, re.ASCII) else [*found, _VALUE_DETAIL]


def metadata_errors(kind: Kind, meta: Json) -> Iterator[Cause]:
    """Yield the errors of the metadata of a new object."""
    if generated := meta.get("generateName"):
        problems = name_problems(generated.removesuffix("-"), label=kind.kind in _LABEL_NAMED)
        yield from (Cause.invalid("metadata.generateName", generated, each) for each in problems)
    name = meta.get("name", "")
    if not name:
        yield Cause.required("metadata.name", "name or generateName is required")
    elif kind.kind in _PATH_NAMED:
        if "/" in name or "%" in name or name in {".", ".."}:
            yield Cause.invalid("metadata.name", name, "may not contain '/'")
    else:
        for each in name_problems(name, label=kind.kind in _LABEL_NAMED):
            yield Cause.invalid("metadata.name", name, each)
    yield from common_errors(meta)
    if not kind.group:
        for index, each in enumerate(meta.get("finalizers") or ()):
            if "/" not in each and each not in _FINALIZERS:
                detail = "name is neither a standard finalizer name nor is it fully qualified"
                yield Cause.invalid(f"metadata.finalizers[{index}]", each, detail)


def common_errors(meta: Json) -> Iterator[Cause]:
    """Yield the errors of metadata that creations and updates have in common."""
    for key, value in (meta.get("labels") or {}).items():
        yield from (Cause.invalid("metadata.labels", key, each) for each in qualified_problems(key))
        yield from (Cause.invalid("metadata.labels", value, each) for each in value_problems(value))
    annotations = meta.get("annotations") or {}
    for key in annotations:
        problems = qualified_problems(key.lower())
        yield from (Cause.invalid("metadata.annotations", key, each) for each in problems)
    if (
        sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        > _ANNOTATIONS_BYTES
    ):
        detail = f"Too long: may not be more than {_ANNOTATIONS_BYTES} bytes"
        yield Cause("FieldValueTooLong", "metadata.annotations", detail)
    yield from _owner_errors(meta)
    for each in meta.get("finalizers") or ():
        yield from (
            Cause.invalid("metadata.finalizers", each, problem) for problem in qualified_problems(each)
        )


def _owner_errors(meta: Json) -> Iterator[Cause]:
    controllers = []
    for index, owner in enumerate(meta.get("ownerReferences") or ()):
        place = f"metadata.ownerReferences[{index}]"
        for field, detail in (
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ):
            if not owner.get(field):
                yield Cause.invalid(f"{place}.{field}", owner.get(field, ""), detail)
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    if len(controllers) > 1:
        detail = (
            'Only one reference can have Controller set to true. Found "true" in references for '
            f"{controllers[0]} and {controllers[1]}"
        )
        yield Cause.invalid("metadata.ownerReferences", None, detail)
