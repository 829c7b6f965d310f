"""The request of a page, parsed from the parameters of a URL."""

from collections.abc import Mapping
from typing import Literal, get_args

import msgspec

View = Literal["overview", "node", "reservation", "groups", "schedules", "quotas"]
"""The pages. A node and a reservation have a page each, and the other kinds have one list each."""

BY_NAME, BY_WATER = "name", "water"

_VIEWS: tuple[View, ...] = get_args(View)
_LONGEST_TEXT = 253  # as long as a name can be
_LONGEST_NUMBER = 9  # digits
_TEXTS = ("text", "sort", "namespace", "name")
_NUMBERS = ("nodes", "reservations", "first")
_KNOWN = ("view", *_TEXTS, *_NUMBERS)


class BadQueryError(Exception):
    """A parameter of a request is wrong. The message names the parameter, the error and the expectation."""


class ViewQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a page.

    Attributes:
        view: the page.
        namespace: the only namespace to list, or that of the reservation. Empty: all.
        name: name of the node or reservation.
        text: part of the name of a listed object, of a node, a pod or an owner, or of a phase, in any case.
            Empty: all.
        sort: order of the nodes: `name`, `water` or a resource. By a resource, the fullest come first.
        reverse: whether to reverse the order.
        nodes: number of nodes, in that order, that are left out before the first row.
        reservations: the same for reservations.
        first: the same for the list of any other page.

    """

    view: View = "overview"
    namespace: str = ""
    name: str = ""
    text: str = ""
    sort: str = BY_NAME
    reverse: bool = False
    nodes: int = 0
    reservations: int = 0
    first: int = 0


def read_query(parameters: Mapping[str, str]) -> ViewQuery:
    """Parse the parameters, of which each may be missing, or raise BadQueryError. `-cpu` reverses a sort."""
    unknown = sorted(parameters.keys() - set(_KNOWN))
    if unknown:
        raise BadQueryError(f"{unknown[0]}: unknown parameter: expected any of {', '.join(_KNOWN)}")
    texts = {name: _read_text(parameters, name) for name in _TEXTS}
    sort = texts["sort"] or BY_NAME
    return ViewQuery(
        view=_read_view(parameters),
        namespace=texts["namespace"],
        name=texts["name"],
        text=texts["text"].strip().lower(),
        sort=sort.removeprefix("-"),
        reverse=sort.startswith("-"),
        **{name: _read_number(parameters, name) for name in _NUMBERS},
    )


def _read_view(parameters: Mapping[str, str]) -> View:
    text = parameters.get("view", _VIEWS[0])
    for view in _VIEWS:
        if view == text:
            return view
    raise BadQueryError(f"view: Unsupported value: {text!r}: expected any of {', '.join(_VIEWS)}")


def _read_text(parameters: Mapping[str, str], name: str) -> str:
    text = parameters.get(name, "")
    if len(text) > _LONGEST_TEXT:
        raise BadQueryError(f"{name}: Too long: may not be more than {_LONGEST_TEXT} characters")
    return text


def _read_number(parameters: Mapping[str, str], name: str) -> int:
    text = parameters.get(name, "0")
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER):
        raise BadQueryError(f"{name}: Invalid value: {text!r}: expected a whole number, such as 0")
    return int(text)
