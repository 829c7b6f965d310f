"""The definitions of a report's figures, and the limits of the method."""

from tidelock.shadow.waiting import PATIENCE


def _paragraphs(text: str) -> tuple[str, ...]:
    """Return the paragraphs of a text, each as one line."""
    return tuple(" ".join(each.split()) for each in text.strip().split("\n\n"))


RACES, WAITING, EVENNESS, RESERVATIONS, DECISIONS, GAPS = _paragraphs(
    f"""
    A binding of a pod to a node is a race if the node fits a waiting pod right before the binding, by all
    filters, and does not fit it right afterwards. The waiting pod loses its last node if no other node fits
    it. Managers race if the two pods belong to different workloads.

    A pod waits if it has neither a node nor a scheduling gate {PATIENCE:.0f} s after it was first seen. At
    each look all filters are asked whether some node fits it.

    The level of a node is its used share of a resource in percent: by measured use of its capacity, or by
    requests of its allocatable amount. Beside the cluster, a second one is replayed in memory. There the
    profile places each pod when the scheduler binds it, over the nodes as all earlier choices have left
    them. A pod takes its measured use along, so each world has its own measured levels.

    For each pod that was bound to a node, a reservation of its requests on that node some time earlier. It is
    given if the node had that much free at that time. It is given beside all others if the node had that much
    free until the arrival. It holds the requests idle for the lead time. The sum of that over all pods, over
    the capacity of the cluster times the time, is the idle share (Little's law).

    When the watch shows a binding, the profile decides the same pod over the state right before. The outcome
    is the relation of the scheduler's node to the profile's. It is the same node, another one of equal or
    lower score, or one that a filter rules out.

    A gap is a time without contact to the API server, from its last response to the next. No mean over time
    covers it, and pods that were bound in it are not compared.
    """
)

LIMITS = _paragraphs(
    """
    Events of pods and of other resources have no common order. A decision is compared over the state that had
    arrived when the watch showed its binding, a little later than the scheduler's own.

    A scheduler binds several pods at a time. So a binding can become visible after that of a later decision.

    kube-scheduler draws among nodes with equal scores, and scores only a part of the nodes of a large
    cluster. Both show as other nodes.

    A volume that was provisioned for the scheduler's node rules out other nodes when the binding is seen.

    An attempt that fails leaves no event. A race that is settled within a scheduler shows only if the loser
    waits at that moment.

    The manager of a pod is its workload, or its namespace if it has none. Two programs that create bare pods
    in one namespace count as one.

    The history for reservations knows amounts alone: no taints, affinities or volumes of the past. It assumes
    that all else would have happened as it did.

    In the replayed world pods arrive when the scheduler binds them, and live as long as in the cluster.

    Reservations of Tidelock, extenders and evictions are left out.
    """
)
