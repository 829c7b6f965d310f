"""Writes of objects: creations, updates, patches and deletions, each under admission."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from world.api import deletion, forms, managed_fields
from world.api.admission import Admission
from world.api.causes import Cause
from world.api.deletion import DeleteOptions
from world.api.errors import (
    MODIFIED,
    already_exists,
    bad_request,
    conflict,
    internal,
    invalid,
    not_found,
    other_uid,
)
from world.api.kinds import Kind
from world.api.managed_fields import Writer
from world.api.metadata import Stamps, keep_fixed, stamp_new
from world.api.operations import ADMINISTRATOR, Operation, Steps, User
from world.api.storage import Storage, Stored
from world.api.strategies import (
    create_errors,
    prepare_create,
    prepare_update,
    update_errors,
    without_reset,
)

Json = dict[str, Any]
Transform = Callable[[Json], Json]

OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"
_ATTEMPTS = 5  # of an update that others outrun, as in apiserver's patch handler


@dataclass(frozen=True)
class Place:
    """The object that a request is about.

    Attributes:
        kind: its kind.
        namespace: its namespace, empty for kinds of the cluster.
        name: its name, empty for a creation by generateName.
        subresource: part of the object that is written, or empty for the whole.

    """

    kind: Kind
    namespace: str
    name: str
    subresource: str = ""

    @property
    def resource(self) -> str:
        """The name under which the objects of the kind are stored."""
        return forms.resource_of(self.kind)

    @property
    def key(self) -> str:
        """The key of the object."""
        return self.kind.key(self.namespace, self.name)


@dataclass(frozen=True)
class Client:
    """The client of a write.

    Attributes:
        user: its user.
        manager: the name by which managedFields know it.
        options: the options of its request.

    """

    user: User = ADMINISTRATOR
    manager: str = "unknown"
    options: Json = field(default_factory=dict)

    @property
    def dry_run(self) -> bool:
        """Whether nothing is stored."""
        return bool(self.options.get("dryRun"))


def read_version(text: str) -> int:
    """Return the version that an object presumes, or 0 without one. Raises RefusedRequestError."""
    if text and not text.isdecimal():
        raise internal(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text or 0)


class Writes:
    """Changes the stored objects."""

    def __init__(self, storage: Storage, admission: Admission, stamps: Stamps) -> None:
        self.storage = storage
        self.stamps = stamps
        self._admission = admission

    def create(
        self, place: Place, data: Json, client: Client, *, applied: Json | None = None
    ) -> Steps[Stored]:
        """Store a new object. Raises RefusedRequestError."""
        kind = place.kind
        meta = data["metadata"]
        if kind.namespaced:
            if meta.get("namespace", place.namespace) != place.namespace:
                raise bad_request(OTHER_NAMESPACE)
            meta["namespace"] = place.namespace
        else:
            meta.pop("namespace", None)
        if meta.get("resourceVersion"):
            raise internal("resourceVersion should not be set on objects to be created")
        self._note_manager(place, data, None, client, applied)
        operation = self._operation("CREATE", place, data, None, client)
        if not operation.name:
            operation.name = meta.get("name", "")
        yield from self._admission.mutate(operation)
        data = operation.new or data
        meta = data["metadata"]
        stamp_new(kind, meta, self.stamps)
        partial = prepare_create(kind, data, self.stamps.now)
        causes = create_errors(kind, data)
        if causes:
            raise invalid(
                kind, meta.get("name", ""), causes, shown=data.get("kind", "") if kind.custom else ""
            )
        operation.new, operation.name = data, meta["name"]
        yield from self._admission.validate(operation)
        key = kind.key(place.namespace, meta["name"])
        if (taken := self.storage.get(place.resource, key)) is not None:
            raise already_exists(kind, meta["name"], leaving="deletionTimestamp" in taken.meta)
        if client.dry_run:
            return Stored(data, 0)
        return self.storage.put(place.resource, key, data, partial=partial)

    def update(
        self,
        place: Place,
        transform: Transform,
        client: Client,
        *,
        uid: str = "",
        applied: Json | None = None,
    ) -> Steps[Stored]:
        """Replace a stored object by a function of it. Raises RefusedRequestError."""
        for _ in range(_ATTEMPTS):
            stored = self.storage.get(place.resource, place.key)
            if stored is None:
                raise not_found(place.kind, place.name)
            if uid and uid != stored.meta["uid"]:
                raise other_uid(place.kind, place.namespace, place.name, uid, stored.meta["uid"])
            new = transform(deepcopy(stored.data))
            self._check_identity(place, new)
            self._note_manager(place, new, stored.data, client, applied)
            operation = self._operation("UPDATE", place, new, stored.data, client)
            yield from self._admission.mutate(operation)
            new = operation.new or new
            self._check_version(place, new, stored)
            self._prepare(place, new, stored)
            operation.new = new
            yield from self._admission.validate(operation)
            if self.storage.get(place.resource, place.key) is stored:
                return self._write(place, new, stored, client)
        raise conflict(place.kind, place.name, MODIFIED)

    def _check_identity(self, place: Place, new: Json) -> None:
        meta = new["metadata"]
        if meta.get("name", "") != place.name:
            shown = meta.get("name", "")
            raise bad_request(
                f"the name of the object ({shown}) does not match the name on the URL ({place.name})"
            )
        if not place.kind.namespaced:
            meta.pop("namespace", None)
        elif meta.setdefault("namespace", place.namespace) != place.namespace:
            raise bad_request(
                f"the namespace of the object ({meta['namespace']}) does not match the namespace on the URL "
                f"({place.namespace})"
            )

    def _check_version(self, place: Place, new: Json, stored: Stored) -> None:
        version = read_version(new["metadata"].get("resourceVersion", ""))
        if not version and not place.kind.unconditional:
            cause = Cause.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(place.kind, place.name, [cause], resource=True)
        if version and version != stored.revision:
            raise conflict(place.kind, place.name, MODIFIED)

    def _prepare(self, place: Place, new: Json, stored: Stored) -> None:
        """Set what an update can't change, and check the rest. Raises RefusedRequestError."""
        kind, old = place.kind, stored.data
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        keep_fixed(new["metadata"], old["metadata"])
        prepare_update(kind, new, old, place.subresource)
        causes = update_errors(kind, new, old, place.subresource)
        if causes:
            raise invalid(kind, place.name, causes)

    def _note_manager(
        self, place: Place, new: Json, old: Json | None, client: Client, applied: Json | None = None
    ) -> None:
        """Note in managedFields which fields the client writes, before admission changes others."""
        new["metadata"].pop("managedFields", None)
        tracked = forms.as_served(place.kind, without_reset(place.kind, new, old, place.subresource))
        old = None if old is None else forms.as_served(place.kind, old)
        if applied is None:
            writer = Writer(client.manager, "Update", place.subresource)
            managed_fields.note_update(place.kind, tracked, old, writer, self.stamps.now)
        else:
            writer = Writer(client.manager, "Apply", place.subresource)
            fields = managed_fields.fields_of_apply(place.kind, applied)
            managed_fields.note_apply(place.kind, tracked, old, writer, fields, self.stamps.now)
        if "managedFields" in tracked["metadata"]:
            new["metadata"]["managedFields"] = tracked["metadata"]["managedFields"]

    def _write(self, place: Place, new: Json, stored: Stored, client: Client) -> Stored:
        if deletion.ends_with(place.kind, new) and not deletion.ends_with(place.kind, stored.data):
            if not client.dry_run:
                self.storage.remove(place.resource, place.key)
            return Stored(new, stored.revision)
        if new == stored.data and not stored.partial:
            return stored
        if client.dry_run:
            return Stored(new, stored.revision)
        return self.storage.put(place.resource, place.key, new)

    def overwrite(self, place: Place, data: Json) -> Stored:
        """Store a new version without admission, as the server itself does for a binding."""
        return self.storage.put(place.resource, place.key, data)

    def delete(self, place: Place, options: DeleteOptions, client: Client) -> Steps[tuple[Stored, bool]]:
        """Delete or mark an object. Return its last version and whether it is gone.

        Raises:
            RefusedRequestError: the object is not there, is another one, or admission refuses.

        """
        stored = self.storage.get(place.resource, place.key)
        if stored is None:
            raise not_found(place.kind, place.name)
        operation = self._operation("DELETE", place, None, stored.data, client)
        yield from self._admission.mutate(operation)
        stored = self._present(place)
        deletion.check_preconditions(place.kind, stored, options)
        yield from self._admission.validate(operation)
        stored = self._present(place)
        deletion.check_preconditions(place.kind, stored, options)
        verdict = deletion.decide(place.kind, stored, options, self.stamps)
        if options.dry_run:
            return stored, verdict.removed
        if verdict.marked is not None:
            stored = self.storage.put(place.resource, place.key, verdict.marked)
        if verdict.removed:
            stored = self.storage.remove(place.resource, place.key)
        return stored, verdict.removed

    def _present(self, place: Place) -> Stored:
        stored = self.storage.get(place.resource, place.key)
        if stored is None:
            raise not_found(place.kind, place.name)
        return stored

    def _operation(
        self, verb: str, place: Place, new: Json | None, old: Json | None, client: Client
    ) -> Operation:
        return Operation(
            verb,
            place.kind,
            place.namespace,
            place.name,
            place.subresource,
            new,
            old,
            client.user,
            client.options,
        )

    def review(self, operation: Operation) -> Steps[None]:
        """Pass an operation through admission alone, as for a subresource that is only created."""
        yield from self._admission.mutate(operation)
        yield from self._admission.validate(operation)
