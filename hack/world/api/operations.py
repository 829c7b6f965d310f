"""One write under admission, and the calls of webhooks that it may need.

The server's functions are generators. They yield the webhooks to call, and get the answers. So the core stays
free of I/O, and other requests can be handled while a webhook decides.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from world.api.kinds import Kind

Json = dict[str, Any]
_T = TypeVar("_T")


@dataclass(frozen=True)
class User:
    """The user of a request, as authentication has found it."""

    name: str = "system:admin"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")

    @property
    def info(self) -> Json:
        """The user as reviews and expressions see it."""
        return {"username": self.name, "groups": list(self.groups)}


ADMINISTRATOR = User()
"""The user with all rights."""


@dataclass(frozen=True)
class WebhookCall:
    """A webhook that a write must ask.

    Attributes:
        webhook: name of the webhook.
        config: its clientConfig: a URL or a service, and the authority.
        review: the AdmissionReview to send, as JSON.
        timeout: seconds after which the call has failed.

    """

    webhook: str
    config: Json
    review: Json
    timeout: float


class WebhookFailedError(Exception):
    """A webhook that could not be called, or gave no answer in time."""


Answer = Json | WebhookFailedError
Steps = Generator[WebhookCall, Answer, _T]


@dataclass
class Operation:
    """A write under admission. `new` is None for a deletion, `old` for a creation.

    `kind` is that of `new`: a Binding for a pod's binding. `resource` is the one of the path.
    """

    verb: str
    resource: Kind
    namespace: str
    name: str
    subresource: str
    new: Json | None
    old: Json | None
    user: User
    options: Json = field(default_factory=dict)
    api_version: str = ""
    kind: str = ""

    @property
    def group_version_kind(self) -> Json:
        """The kind of the object."""
        group, _, version = (self.api_version or self.resource.api_version).rpartition("/")
        return {"group": group, "version": version, "kind": self.kind or self.resource.kind}

    def request(self, uid: str) -> Json:
        """Return the request as expressions and webhooks see it, without the objects."""
        resource = {
            "group": self.resource.group,
            "version": self.resource.version,
            "resource": self.resource.plural,
        }
        found: Json = {
            "uid": uid,
            "kind": self.group_version_kind,
            "resource": resource,
            "requestKind": self.group_version_kind,
            "requestResource": resource,
            "name": self.name,
            "operation": self.verb,
            "userInfo": self.user.info,
            "options": self.options,
            "dryRun": bool(self.options.get("dryRun")),
        }
        if self.namespace:
            found["namespace"] = self.namespace
        if self.subresource:
            found |= {"subResource": self.subresource, "requestSubResource": self.subresource}
        return found


def options_of(kind: str, query: Mapping[str, str]) -> Json:
    """Return the options of a creation, an update or a patch."""
    options: Json = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    for name in ("fieldManager", "fieldValidation"):
        if query.get(name):
            options[name] = query[name]
    if "dryRun" in query:
        options["dryRun"] = [query["dryRun"]]
    if query.get("force") in {"true", "1"}:
        options["force"] = True
    return options
