"""The managers of fields: one entry for each manager, operation and subresource, with a time.

Clients that update get the fields that they change. Clients that apply get the fields that they apply, and a
conflict if another manager has one with another value.
"""

from typing import Any, NamedTuple

from world.api import field_sets
from world.api.errors import RefusedRequestError
from world.api.field_sets import BRANCH, EMPTY, Path
from world.api.kinds import Kind

Json = dict[str, Any]


class Writer(NamedTuple):
    """The client of a write, as managedFields name it."""

    manager: str
    operation: str
    subresource: str


class Entry(NamedTuple):
    """The fields of one writer, and the time of its last change of them."""

    fields: frozenset[Path]
    time: str
    api_version: str


Entries = dict[Writer, Entry]
_BEFORE = Writer("before-first-apply", "Update", "")


def read(data: Json) -> Entries:
    """Return the entries of an object."""
    return {
        Writer(each.get("manager", ""), each["operation"], each.get("subresource", "")): Entry(
            frozenset(field_sets.decode(each.get("fieldsV1") or {})), each.get("time", ""), each["apiVersion"]
        )
        for each in data["metadata"].get("managedFields") or ()
    }


def write(data: Json, entries: Entries) -> None:
    """Set the entries of an object in place, in the order of the API server: by operation, time and name."""
    rows = []
    for writer, entry in sorted(
        entries.items(), key=lambda row: (row[0].operation, row[1].time, row[0].manager, row[0].subresource)
    ):
        row = {
            "manager": writer.manager,
            "operation": writer.operation,
            "apiVersion": entry.api_version,
            "time": entry.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": field_sets.encode(entry.fields),
        }
        rows.append(row | ({"subresource": writer.subresource} if writer.subresource else {}))
    if rows:
        data["metadata"]["managedFields"] = rows
    else:
        data["metadata"].pop("managedFields", None)


def _changed(before: dict[Path, Any], after: dict[Path, Any]) -> frozenset[Path]:
    """Return the fields that are added or have another value."""
    return frozenset(
        path
        for path, value in after.items()
        if path not in before or (value is not BRANCH and value is not EMPTY and before[path] != value)
    )


def note_update(kind: Kind, new: Json, old: Json | None, writer: Writer, now: str) -> None:
    """Set the entries of an object that a client has created or updated, in place.

    A field is the client's if it is added or changed. An added field with others below counts, too.
    """
    if old is not None and not old["metadata"].get("managedFields"):
        return  # nothing was ever tracked, and only an apply begins with it
    before = field_sets.empty_fields(kind) if old is None else field_sets.fields_of(kind, old)
    after = field_sets.fields_of(kind, new)
    changed = _changed(before, after)
    removed = before.keys() - after.keys()
    entries = {} if old is None else read(old)
    for other, entry in list(entries.items()):
        left = entry.fields - removed
        if other != writer:
            left -= changed
        if left:
            entries[other] = entry._replace(fields=frozenset(left))
        else:
            del entries[other]
    if changed:
        known = entries.get(writer)
        fields = changed | (known.fields if known else frozenset())
        entries[writer] = Entry(frozenset(fields), now, kind.api_version)
    write(new, entries)


def conflicts(kind: Kind, applied: Json, old: Json, writer: Writer) -> list[tuple[str, Path]]:
    """Return the managers of applied fields that have another value now, with the fields."""
    wanted, known = field_sets.fields_of(kind, applied), field_sets.fields_of(kind, old)
    return [
        (other.manager, path)
        for other, entry in sorted(read(old).items())
        if other != writer
        for path in sorted(entry.fields & wanted.keys())
        if wanted[path] is not BRANCH and known.get(path) != wanted[path]
    ]


def refuse_conflicts(found: list[tuple[str, Path]]) -> RefusedRequestError:
    """Return the refusal of an apply that conflicts with other managers."""
    count = len(found)
    shown = [(manager, "".join(map(_step, path))) for manager, path in found]
    managers = sorted({manager for manager, _ in shown})
    listed = "\n".join(
        f'conflict{"s" if sum(m == manager for m, _ in shown) > 1 else ""} with "{manager}"'
        + (
            ":" + "".join(f"\n- {path}" for m, path in shown if m == manager)
            if count > 1
            else f": {shown[0][1]}"
        )
        for manager in managers
    )
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{manager}"', "field": path}
        for manager, path in shown
    ]
    plural = "s" if count > 1 else ""
    message = f"Apply failed with {count} conflict{plural}: {listed}"
    return RefusedRequestError(409, "Conflict", message, {"causes": causes})


def _step(step: str) -> str:
    return f".{step[2:]}" if step.startswith("f:") else f"[{step[2:]}]"


def applied_result(kind: Kind, applied: Json, old: Json, writer: Writer) -> tuple[Json, frozenset[Path]]:
    """Return an object after an apply, and the fields that the writer manages then.

    Fields that the writer applied before and applies no more are removed, unless others manage them.
    """
    fields = fields_of_apply(kind, applied)
    entries = read(old)
    former = entries[writer].fields if writer in entries else frozenset()
    others = frozenset().union(*(entry.fields for other, entry in entries.items() if other != writer))
    result: Json = _joined(old, applied)
    for path in sorted(former - fields - others, key=len, reverse=True):
        _drop(result, path)
    return result, fields


def fields_of_apply(kind: Kind, applied: Json) -> frozenset[Path]:
    """Return the fields that an apply manages: the leaves of its object, and the entries of its lists."""
    return frozenset(
        path
        for path, value in field_sets.fields_of(kind, applied).items()
        if value is not BRANCH or path[-1].startswith("k:")
    )


def note_apply(
    kind: Kind, new: Json, old: Json | None, writer: Writer, fields: frozenset[Path], now: str
) -> None:
    """Set the entries of an object that a client has applied, in place."""
    before = {} if old is None else field_sets.fields_of(kind, old)
    after = field_sets.fields_of(kind, new)
    changed = {path for path, value in after.items() if path in before and before[path] != value}
    removed = before.keys() - after.keys()
    entries = {} if old is None else read(old)
    if old is not None and not entries:
        untracked = _changed(field_sets.empty_fields(kind), before)
        entries |= {_BEFORE: Entry(untracked, now, kind.api_version)} if untracked else {}
    for other, entry in list(entries.items()):
        if other != writer and not (left := entry.fields - removed - changed):
            del entries[other]
        elif other != writer:
            entries[other] = entry._replace(fields=frozenset(left))
    known = entries.get(writer)
    time = known.time if known is not None and known.fields == fields and not changed else now
    if fields:
        entries[writer] = Entry(fields, time, kind.api_version)
    else:
        entries.pop(writer, None)
    write(new, entries)


def _joined(old: Any, applied: Any) -> Any:
    """Merge applied fields into an object. Lists are replaced, but entries of map lists are merged by key."""
    if isinstance(old, dict) and isinstance(applied, dict):
        result = dict(old)
        for name, value in applied.items():
            result[name] = _joined(old.get(name), value)
        return result
    if isinstance(old, list) and isinstance(applied, list) and (key := _common_key(old, applied)):
        entries = {each[key]: each for each in old}
        for each in applied:
            entries[each[key]] = _joined(entries.get(each[key]), each)
        return list(entries.values())
    return applied


def _common_key(old: list[Any], applied: list[Any]) -> str:
    for key in ("type", "name", "key", "uid"):
        if all(isinstance(each, dict) and key in each for each in (*old, *applied)):
            return key
    return ""


def _drop(data: Json, path: Path) -> None:
    node: Any = data
    for step in path[:-1]:
        node = node.get(step[2:]) if isinstance(node, dict) and step.startswith("f:") else None
        if node is None:
            return
    if isinstance(node, dict) and path[-1].startswith("f:"):
        node.pop(path[-1][2:], None)
