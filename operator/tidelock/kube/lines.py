"""Lines out of a byte stream."""


class LineSplitter:
    """Cuts chunks of any size into lines of any length, in linear time."""

    def __init__(self) -> None:
        self._unfinished: list[bytes] = []

    def split(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes, without their newlines. The rest waits for its end."""
        lines = chunk.split(b"\n")
        unfinished = lines.pop()
        if lines:
            lines[0] = b"".join((*self._unfinished, lines[0]))
            self._unfinished.clear()
        self._unfinished.append(unfinished)
        return lines
