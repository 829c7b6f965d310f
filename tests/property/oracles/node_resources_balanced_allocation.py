"""NodeResourcesBalancedAllocation for one node, in kube-scheduler's order of operations."""

from collections.abc import Mapping, Sequence
from math import sqrt

from tidelock.model.pods import Pod


def score(
    wanting: Pod, allocatable: Mapping[str, int], requested: Mapping[str, int], resources: Sequence[str]
) -> int:
    wanted = {name: wanting.requests.get(name, 0) for name in resources if name != "pods"}
    if not any(wanted.values()):
        return 0
    counted = [
        name
        for name in wanted
        if allocatable.get(name, 0) and (wanted[name] or name in ("cpu", "memory", "ephemeral-storage"))
    ]
    holdings = [allocatable[name] for name in counted]
    before = [requested.get(name, 0) for name in counted]
    after = [taken + wanted[name] for taken, name in zip(before, counted, strict=True)]
    return 50 + (50 + evenness(after, holdings) - evenness(before, holdings)) // 2


def evenness(taken: Sequence[int], holdings: Sequence[int]) -> int:
    shares = [min(used / room, 1.0) for used, room in zip(taken, holdings, strict=True)]
    deviation = 0.0
    if len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    elif len(shares) > 2:
        total = 0.0
        for share in shares:
            total += share
        mean = total / len(shares)
        squares = 0.0
        for share in shares:
            squares += (share - mean) * (share - mean)
        deviation = sqrt(squares / len(shares))
    return int((1 - deviation) * 100)
