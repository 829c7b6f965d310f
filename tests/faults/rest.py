"""What must hold of an operator that has nothing to do: memory equals the API, and nobody waits in vain."""

import json
from collections.abc import Mapping
from typing import Any

from faults.history import Json
from faults.life import SCHEDULER
from property.process import HandClock
from tidelock.framework.config import default_configuration
from tidelock.model.locks import decode_reservation
from tidelock.model.nodes import decode_node
from tidelock.model.pods import decode_pod
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.cycle import Assumed
from tidelock.scheduler.decider import Decider
from tidelock.scheduler.feed import Feed

_MOST_DECISIONS = 50


def check_memory(decider: Decider, stored: Mapping[tuple[str, str], Json], now: float) -> list[str]:
    """I4 and I5: another operator would make the same of the stored objects, and finds nothing to do."""
    rebuilt = _rebuild(stored, now)
    found = _differences("I4: memory and the API", _standing(decider), _standing(rebuilt))
    for _ in range(_MOST_DECISIONS):
        outcome = rebuilt.step(now)
        if isinstance(outcome, Assumed):
            found.append(f"I5: pod {outcome.pod.key} waits, and fits on {outcome.node_name}")
        elif outcome is None and not _due(rebuilt, now):
            break
    found += [f"I5: {claim.pod.key} has locks yet, and is bound" for claim in rebuilt.take_hearsay()]
    return found or _differences(
        "I5: before and after another decision", _standing(decider), _standing(rebuilt)
    )


def check_nothing_left(decider: Decider, stored: Mapping[tuple[str, str], Json]) -> list[str]:
    """When all locks are over, only tombstones are left, and nothing of what they held."""
    left = [
        f"I5: {name} is {state['status'].get('phase')} after all ends"
        for (kind, name), state in stored.items()
        if kind == "reservations"
        and (state["spec"]["retention"] != "Retain" or state["status"].get("phase") not in _TOMBSTONES)
    ]
    book, columns = decider.book, decider.columns
    held = {name: columns.named(columns.locked[row]) for name, row in columns.row_of.items()}
    remains = {
        "amounts": {name: amounts for name, amounts in held.items() if amounts},
        "waiting": book.waitlist.waiting,
        "claims": book._claims,
        "holders": book.rooms.nodes_with_locks(),
    }
    return left + [f"I4: {what} left of no lock: {some}" for what, some in remains.items() if some]


_TOMBSTONES = {"Consumed", "Expired", "Lost", "Rejected"}


def _rebuild(stored: Mapping[tuple[str, str], Json], now: float) -> Decider:
    """Start another operator over the same objects."""
    decider = Decider(default_configuration(SCHEDULER, BUILTINS))
    feed = Feed(
        decider.cache, decider.book, decider.queue, decider.waiting_pods, HandClock(now), lambda: None
    )
    for (kind, _), state in stored.items():
        raw = json.dumps(state).encode()
        if kind == "nodes":
            feed.nodes.upsert(None, decode_node(raw))
        elif kind == "pods":
            feed.pods.upsert(None, decode_pod(raw))
        else:
            feed.reservations.upsert(None, decode_reservation(raw))
    for sink in (feed.nodes, feed.pods, feed.reservations):
        sink.synced()
    return decider


def _due(decider: Decider, now: float) -> bool:
    due = decider.next_due()
    return due is not None and due <= now


def _standing(decider: Decider) -> dict[str, Any]:
    columns = decider.columns
    locks = {
        f"lock {key}": {
            "phase": entry.phase,
            "node": (entry.node, entry.node_uid),
            "held": dict(entry.held),
            "activated": entry.activated_at,
            "expires": entry.expires_at,
        }
        for key, entry in decider.book.entries.items()
    }
    kinds = {"allocatable": columns.allocatable, "requested": columns.requested, "locked": columns.locked}
    nodes = {
        f"node {name}": {kind: columns.named(amounts[row]) for kind, amounts in kinds.items()}
        for name, row in columns.row_of.items()
    }
    return locks | nodes


def _differences(what: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [
        f"{what} differ over {key}: {one.get(key)} / {other.get(key)}"
        for key in sorted(one.keys() | other.keys())
        if one.get(key) != other.get(key)
    ]
