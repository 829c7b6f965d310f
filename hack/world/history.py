"""The record of a run: each delivery with its virtual time. Two runs are the same if their records are."""

from collections.abc import Iterator
from hashlib import blake2b

_DIGEST_BYTES = 8


class History:
    """Each delivery in its order."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, str, str, str, int, str]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def note(
        self, when: float, connection: int, source: str, target: str, kind: str, data: bytes = b""
    ) -> None:
        """Add a delivery: its virtual time, the number of its connection, sender, receiver and bytes."""
        digest = blake2b(data, digest_size=_DIGEST_BYTES).hexdigest() if data else "-"
        self._entries.append((when, connection, source, target, kind, len(data), digest))

    def lines(self) -> Iterator[str]:
        """Yield each delivery as a line."""
        for when, connection, source, target, kind, size, digest in self._entries:
            yield f"{when!r} {connection} {source}>{target} {kind} {size} {digest}"

    def digest(self) -> str:
        """Return a digest of all lines."""
        whole = blake2b(digest_size=_DIGEST_BYTES * 2)
        for line in self.lines():
            whole.update(line.encode() + b"\n")
        return whole.hexdigest()
