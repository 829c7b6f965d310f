"""The draws of the state machine of the ledger: objects, edits, troubles and the weather of its network."""

from hypothesis import strategies as st

from builders import NOW, Json
from property.creations import Fate
from property.process import KINDS
from tidelock.model.instants import format_instant

NODES = st.sampled_from(["node-a", "node-b"])
NUMBERS = st.sampled_from([0, 1, 2])
CPUS = st.sampled_from(["1", "2", "3"])
NODE_CPUS = st.sampled_from(["3", "4", "2"])
GPU = "example.com/gpu"
SECONDS = st.sampled_from([1, 9, 31, 300])

# The order of the moves, the kinds that have to wait, and the number of moves at a time. A few such choices
# reorder more than a random choice for each move.
ORDERS = [tuple(KINDS[n:] + KINDS[:n])[::way] for n in range(len(KINDS)) for way in (1, -1)]
HELD_UP = [(), *((kind,) for kind in KINDS), *((a, b) for a in KINDS for b in KINDS if a < b)]
Weather = tuple[tuple[str, ...], int | None]
WEATHER: st.SearchStrategy[Weather] = st.builds(
    lambda order, held_up, pace: (tuple(kind for kind in order if kind not in held_up), pace),
    st.sampled_from(ORDERS),
    st.sampled_from(HELD_UP),
    st.sampled_from([None, None, 2, 7]),
)
TROUBLES = st.sampled_from(
    [
        *("weather", "weather", "weather", "time", "time", "accident", "accident"),
        *("nodes", "pods", "reservations", "quotas", "crash", "crash in the end", "rest", "rest", "forget"),
    ]
)
ACCIDENTS = st.sampled_from(
    ["bind", "bind", "bind", "written", "evict", "move", "nodes", "pods", "reservations", "ask", "answer"]
)

OWNERS = st.sampled_from(
    [
        *([{"pod": {"name": name}}] for name in ("web-0", "web-0", "web-1", "web-1", "web-2")),
        [{"selector": {"matchLabels": {"app": "web"}}}],
        [{"selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}}],
        [{"controller": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}}],
        [{"pod": {"name": "web-1"}}, {"selector": {"matchLabels": {"app": "db"}}}],
    ]
)
ROOM: list[Json] = [{"cpu": "1"}, {"cpu": "2"}, {"cpu": "3"}, {"cpu": "1", GPU: "1"}]


def template(requests: Json, app: str = "", host_port: int = 0, limit: str = "", **affinity: str) -> Json:
    """Build the template of a pod with affinity or anti-affinity to an app, a host port, or a cpu limit."""
    container: Json = {"name": "m", "resources": {"requests": requests}}
    if limit:
        container["resources"]["limits"] = {"cpu": limit}
    if host_port:
        container["ports"] = [{"containerPort": 80, "hostPort": host_port}]
    metadata = {"labels": {"app": app}} if app else {}
    terms = {
        kind: [{"topologyKey": "name", "labelSelector": {"matchLabels": {"app": other}}}]
        for kind, other in affinity.items()
    }
    required = {
        kind: {"requiredDuringSchedulingIgnoredDuringExecution": each} for kind, each in terms.items()
    }
    return {"metadata": metadata, "spec": {"containers": [container], "affinity": required}}


SIZES = st.sampled_from(
    [{"resources": amounts, "template": None} for amounts in ROOM]
    + [
        {"resources": None, "template": each}
        for each in (
            *(template(amounts) for amounts in ROOM[:2]),
            template(ROOM[0], "web", 8080),
            template(ROOM[0], "web", podAffinity="web"),
            template(ROOM[1], "db", podAntiAffinity="web"),
            template(ROOM[1], "db", 8080, limit="3"),
        )
    ]
)
ENDS: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"ttlSeconds": 600, "expireAt": None},
        {"ttlSeconds": 30, "expireAt": None},
        {"ttlSeconds": None, "expireAt": format_instant(NOW + 60)},
        {"ttlSeconds": None, "expireAt": format_instant(NOW + 900)},
    ]
)
LEASES: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"lease": None},
        {"lease": None},
        *({"lease": {"durationSeconds": d, "graceSeconds": g}} for d, g in ((20, 0), (20, 30), (45, 15))),
    ]
)
COMMITS: st.SearchStrategy[Json] = st.sampled_from(
    [{"commit": None}, {"commit": None}, *({"commit": {"withinSeconds": s}} for s in (8, 40, 500))]
)
SETS: st.SearchStrategy[Json] = st.sampled_from([{"anyOf": name} for name in (None, None, "web", "web")])
# The hold that a commit names: the published one, the one before, the one after, or another reservation's.
TOKENS = st.sampled_from([0, 0, 0, -1, 1, None])
SHARING: st.SearchStrategy[Json] = st.sampled_from(
    [{}, {"reuse": "Never"}, {"reuse": "Always"}, {"borrowable": True}]
)
LENDING: st.SearchStrategy[Json] = st.sampled_from([{}, {"borrowable": True}])
BEGINNINGS = st.sampled_from([None, None, 9, 40, 90])
RUNS: st.SearchStrategy[Json] = st.sampled_from([{"runSeconds": seconds} for seconds in (None, None, 1, 30)])
SKEWS = st.sampled_from([0, 0, -500, 500])
RANKS: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"priority": priority, "preemptionPolicy": policy}
        for priority in (0, 1, 5)
        for policy in ("Never", "PreemptLowerPriority")
    ]
)
PLANS: st.SearchStrategy[Json] = st.sampled_from(
    [
        {
            "pendingDeadlineSeconds": seconds,
            "retention": retention,
            "ttlSecondsAfterFinished": after,
            "onViolation": on_violation,
        }
        for seconds, after in ((600, None), (60, 20), (5, None), (0, None))
        for retention in ("Delete", "Retain")
        for on_violation in ("Keep", "Move")
    ]
)
PLACES: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"nodeName": None, "nodeSelector": None},
        {"nodeName": "node-a", "nodeSelector": None},
        {"nodeName": "node-b", "nodeSelector": None},
        {"nodeName": None, "nodeSelector": {"name": "node-b"}},
    ]
)
ALONE: st.SearchStrategy[Json] = st.sampled_from([{"anyOf": None, "startAt": None}] * 5 + [{}])
NAMES = st.sampled_from(["", "", "", "lock-", "l"])
FATES: st.SearchStrategy[Fate] = st.sampled_from(["stored"] * 6 + ["refused", "dry run"])
APPS = st.sampled_from(["web", "db"])
MAY_MOVE = st.sampled_from([{}, {"maxPods": 1}, {"automatically": True}, {"automatically": True}])
MOVES: st.SearchStrategy[Json] = st.sampled_from(
    [
        *({"mayMove": None}, {"mayMove": None}),
        *({"mayMove": asks} for asks in ({}, {"maxPods": 1}, {"automatically": True})),
    ]
)
RANKED: Json = {"maxPriority": 5, "preemptionPolicy": "PreemptLowerPriority"}
LIMITS: st.SearchStrategy[Json] = st.sampled_from(
    [
        *({"hard": {"cpu": cpu}} for cpu in ("0", "2", "3", "5")),
        {"hard": {"pods": "1", GPU: "1"}},
        *({"hardSeconds": {"cpu": seconds}} for seconds in ("600", "1200", "1900")),
        *({"maxLifeSeconds": seconds} for seconds in (30, 600)),
        {"maxAmounts": {"cpu": "2"}, "maxPriority": 1},
        {"maxPriority": 0, "hard": {"cpu": "4"}},
        {"hard": {"cpu": "two"}},
        {"preemptionPolicy": "Never", "maxPriority": 5},
        RANKED,
    ]
)
UNREADABLE: st.SearchStrategy[Json] = st.just({"resources": {"cpu": "two"}, "template": None})
EDITS = st.one_of(
    *(
        SIZES,
        OWNERS.map(lambda owners: {"owners": owners}),
        ENDS,
        RANKS,
        PLANS,
        PLACES,
        UNREADABLE,
        LEASES,
        RUNS,
        MOVES,
    )
)


POD_KINDS = st.sampled_from(
    [
        *("plain", "plain", "short", "short", "urgent", "urgent", "requires", "gated", "choosy", "another's"),
        *("borrows", "borrows", "urgently borrows", "short, borrows"),
    ]
)
