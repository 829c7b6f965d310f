"""The same answer of two servers in one form: uids and versions as order numbers, times as words."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

Json = dict[str, Any]

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_RECENT = timedelta(days=1)


class Normal:
    """Renames what differs between two servers by nature."""

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}
        self._versions: set[int] = set()

    def note(self, value: Any) -> None:
        """Note the versions of objects in an answer, before any answer is renamed."""
        match value:
            case dict():
                meta = value.get("metadata")
                if (
                    isinstance(meta, dict)
                    and meta.get("uid")
                    and str(meta.get("resourceVersion")).isdecimal()
                ):
                    self._versions.add(int(meta["resourceVersion"]))
                for each in value.values():
                    self.note(each)
            case list():
                for each in value:
                    self.note(each)

    def rename(self, value: Any) -> Any:
        """Return an answer with order numbers and words."""
        match value:
            case dict():
                return {self._text(key): self._field(key, each, value) for key, each in sorted(value.items())}
            case list():
                return [self.rename(each) for each in value]
            case str():
                return self._text(value)
        return value

    def _field(self, name: str, value: Any, parent: Json) -> Any:
        match name, value:
            case "resourceVersion", str() if value.isdecimal():
                if not parent.get("uid"):
                    return "of the list"
                order = sorted(self._versions)
                return f"version {order.index(int(value)) + 1}"
            case "continue", str() if value:
                return "token"
            case "managedFields", list():
                rows = [self.rename(each) for each in value]
                return sorted(
                    rows, key=lambda row: (row["operation"], row["manager"], row.get("subresource", ""))
                )
        return self.rename(value)

    def _text(self, text: str) -> str:
        text = _UID.sub(lambda found: self._uids.setdefault(found[0], f"uid {len(self._uids) + 1}"), text)
        return _TIME.sub(_when, text)


def _when(found: re.Match[str]) -> str:
    moment = datetime.fromisoformat(found[0])
    return "now" if abs(datetime.now(UTC) - moment) < _RECENT else found[0]
