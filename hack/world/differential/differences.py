"""The known differences between the server in memory and a real kube-apiserver, each with its reason."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from world.differential.steps import Step

Json = dict[str, Any]
Change = Callable[[Step, Any], Any]


@dataclass(frozen=True)
class Difference:
    """A difference that is left.

    Attributes:
        name: short name.
        reason: why the server in memory differs.
        level: makes the answers of both servers equal in this respect.

    """

    name: str
    reason: str
    level: Change


def _message(pattern: str, replacement: str) -> Change:
    """Return the change of a Status' message, and of the messages of its causes."""
    found = re.compile(pattern, re.DOTALL)

    def level(_: Step, body: Any) -> Any:
        if not isinstance(body, dict) or body.get("kind") != "Status" or "message" not in body:
            return body
        changed = body | {"message": found.sub(replacement, body["message"])}
        details = body.get("details")
        if isinstance(details, dict) and "causes" in details:
            causes = [
                each | {"message": found.sub(replacement, each.get("message", ""))}
                for each in details["causes"]
            ]
            changed["details"] = details | {"causes": causes}
        return changed

    return level


_NOT_DECODED = re.compile(
    r"cannot be handled as a \w+: |is unrecognized \(must be of type \w+\)|error decoding patch|"
    r"is invalid: patch: "
)


def _without_decoding_errors(_: Step, body: Any) -> Any:
    if not isinstance(body, dict) or not _NOT_DECODED.search(str(body.get("message", ""))):
        return body
    return {name: body.get(name) for name in ("code", "reason")}


def _sorted_causes(_: Step, body: Any) -> Any:
    if not isinstance(body, dict) or body.get("kind") != "Status":
        return body
    details = body.get("details")
    if not isinstance(details, dict) or not details.get("causes", ())[1:]:
        return body
    causes = sorted(details["causes"], key=lambda each: sorted(each.items()))
    head = body["message"].partition(" is invalid: ")[0]
    return body | {"message": head, "details": details | {"causes": causes}}


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "order of errors",
        "The real server validates the fields of a custom object in the random order of a Go map.",
        _sorted_causes,
    ),
    Difference(
        "words of decoding errors",
        "Go's decoder names its own types. The status and the reason are equal.",
        _without_decoding_errors,
    ),
    Difference(
        "diff of specs",
        "A refused update of a pod shows a diff of Go structs.",
        _message(r"\n@@.*|\n +core\.PodSpec.*", ""),
    ),
    Difference(
        "structs in messages",
        "Some errors show a whole Go struct.",
        _message(r'Invalid value: (?:\{"[A-Z].*\}|null): (?=field is imm|minA)', "Invalid value: "),
    ),
    Difference(
        "versions in messages",
        "The servers count their own writes.",
        _message(r"(record \(|current: |precondition \(|too old resource version: )\d+", r"\1N"),
    ),
    Difference(
        "words of a bad continue token",
        "The text of Go's JSON decoder follows.",
        _message(r"(invalid continue token: continue key is not valid).*", r"\1"),
    ),
)


NOT_DRAWN: Mapping[str, str] = MappingProxyType(
    {
        "lists at version 0": "The real server may answer from a cache that is some milliseconds old.",
        "wrong values in Kubernetes' own kinds": "Only the main rules of their validation are here.",
        "updates of events": "Tidelock only creates them.",
        "a custom object of a wrong kind with other errors": "The real server skips its defaults then.",
        "a status beside a malformed spec": "The real server then does not note the manager of the status.",
        "ResourceClaims by apply": "The real server stores a null list of requests then.",
        "limits for kinds of the cluster": "The real server has objects of other sequences, too.",
        "warnings, audit and flow control headers": "No client of the simulation reads them.",
        "the authorizer in policies, and roles": "Every client has every right.",
        "OpenAPI documents": "kubectl needs --validate=false.",
        "watches before the start of a cache": "Only a compaction makes a version too old.",
    }
)
"""Parts of the API that sequences leave out, with the reason."""


def leveled(step: Step, body: Any) -> Any:
    """Return an answer without the known differences."""
    for each in DIFFERENCES:
        body = each.level(step, body)
    return body
