"""Which container images are on which nodes."""

from tidelock.cluster.columns import Rows
from tidelock.cluster.index.row_index import RowIndex
from tidelock.model.nodes import Node


class Images:
    """Nodes by the names of their images.

    As in kube-scheduler, the first node with an image decides its size.
    """

    def __init__(self) -> None:
        self._rows: RowIndex[str] = RowIndex()
        self._size: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def rows(self, name: str) -> Rows:
        """Rows of the nodes that have an image."""
        return self._rows.rows(name)

    def size(self, name: str) -> int:
        """Size in bytes of an image that some node has."""
        return self._size[name]

    def put(self, old: Node | None, new: Node, row: int) -> None:
        """Take over the images of a node that is new in its row, or changed."""
        if old is not None:
            if old.images == new.images:
                return
            self.drop(old, row)
        sizes = _sizes(new)
        self._rows.add(sizes, row)
        for name, size in sizes.items():
            self._size.setdefault(name, size)

    def drop(self, node: Node, row: int) -> None:
        """Forget the images of a node."""
        names = _sizes(node)
        self._rows.remove(names, row)
        for name in names:
            if name not in self._rows:
                del self._size[name]

    def move(self, node: Node, row: int, to: int) -> None:
        """Follow a node to another row."""
        names = _sizes(node)
        self._rows.add(names, to)
        self._rows.remove(names, row)


def _sizes(node: Node) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for image in node.images:
        for name in image.names:
            sizes.setdefault(name, image.size_bytes)
    return sizes
