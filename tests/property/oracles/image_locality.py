"""ImageLocality for one node, in exact integers where kube-scheduler has them."""

from collections.abc import Sequence

from tidelock.model.nodes import Node
from tidelock.model.pods import Pod

MIB = 1024 * 1024


def score(wanting: Pod, on: Node, nodes: Sequence[Node]) -> int:
    containers = (*wanting.spec.init_containers, *wanting.spec.containers)
    references = [container.image for container in containers]
    references += [volume.image.reference for volume in wanting.spec.volumes if volume.image]
    total = 0
    for reference in references:
        name = reference if ":" in reference.rsplit("/", 1)[-1] else reference + ":latest"
        if name in names(on):
            holders = [node for node in nodes if name in names(node)]
            total += int(float(size(name, holders[0])) * (len(holders) / len(nodes)))
    most = 1000 * MIB * len(references)
    return 100 * (min(max(total, 23 * MIB), most) - 23 * MIB) // (most - 23 * MIB)


def names(node: Node) -> set[str]:
    return {name for image in node.images for name in image.names}


def size(name: str, node: Node) -> int:
    return next(image.size_bytes for image in node.images if name in image.names)
