"""NodePorts for one node: no host port of the pod may conflict with one of a pod there."""

from collections.abc import Iterable

from tidelock.model.pods import Pod

Port = tuple[str, str, int]


def fits(wanting: Pod, there: Iterable[Pod]) -> bool:
    return not any(clash(mine, other) for each in there for other in ports(each) for mine in ports(wanting))


def clash(one: Port, other: Port) -> bool:
    return one[1:] == other[1:] and (one[0] == other[0] or "0.0.0.0" in (one[0], other[0]))  # noqa: S104


def ports(pod: Pod) -> list[Port]:
    spec = pod.spec
    lasting = [each for each in spec.init_containers if each.restart_policy == "Always"]
    found = []
    for container in (*spec.containers, *lasting):
        for port in container.ports:
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number:
                found.append((port.host_ip or "0.0.0.0", port.protocol, number))  # noqa: S104
    return found
