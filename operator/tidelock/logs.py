"""Logs as text for people or JSON for collectors: a constant message, and fields beside it.

Foreign text in a field forges no line: each record is one line, followed by an indented traceback.
"""

import json
import logging
from datetime import UTC, datetime

from tidelock.model.printable import printable, printable_json

_CONNECTION = ("tidelock.kube.", "tidelock.load.")  # loggers of the parts that read from the API server
_QUIET_SECONDS = 1.0
_REMEMBERED_SECONDS = 60.0  # for the number of those left out

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {
        name: value
        for name, value in vars(record).items()
        if name not in _PLAIN and not name.startswith("k8s_")
    }


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


class TextFormatter(logging.Formatter):
    """One line per record: time, level, logger, message, fields. The lines of a traceback are indented."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        fields = "".join(f" {name}={value!s}" for name, value in _fields(record).items())
        line = f"{_time(record)} {record.levelname:7} {record.name}: {record.getMessage()}{fields}"
        traceback = self.formatException(record.exc_info).split("\n") if record.exc_info else ()
        return "\n".join((printable(line), *(f"  {printable(each)}" for each in traceback)))


class JsonFormatter(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return printable_json(json.dumps(line, default=str))


class RepeatFilter(logging.Filter):
    """Leaves out a message about the connection with the same error as another one of the last second.

    While the API server can't be reached, two dozen watches and the Lease report the same. The next record
    that passes has the number of those before it in the field `left_out`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[tuple[str, str, str], tuple[float, int]] = {}  # when, and those left out since

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged."""
        error = vars(record).get("error")
        if error is None or not record.name.startswith(_CONNECTION):
            return True
        key = (record.name, str(record.msg), str(error))
        passed, left_out = self._passed.get(key, (-_QUIET_SECONDS, 0))
        if record.created - passed < _QUIET_SECONDS and passed <= record.created:
            self._passed[key] = (passed, left_out + 1)
            return False
        if left_out:
            vars(record)["left_out"] = left_out
        known = self._passed.items()
        self._passed = {
            other: state for other, state in known if record.created - state[0] < _REMEMBERED_SECONDS
        }
        self._passed[key] = (record.created, 0)
        return True


def configure_logs(log_format: str, level: str) -> None:
    """Log to standard error from now on. Kopf only logs warnings about objects.

    `handlers.supervision` logs why Kopf fails, once and without the tracebacks of each try.
    """
    handler = logging.StreamHandler()
    handler.addFilter(RepeatFilter())
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.getLogger("kopf").setLevel(logging.CRITICAL)
    logging.getLogger("kopf.objects").setLevel(max(logging.WARNING, logging.getLogger().level))
