"""Logs as text for people or JSON for collectors: a constant message, and fields beside it.

Foreign text in a field forges no line: each record is one line, followed by an indented traceback.
"""

import json
import logging
from datetime import UTC, datetime

from tidelock.model.printable import printable, printable_json

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


def configure_logs(log_format: str, level: str) -> None:
    """Log to standard error from now on. Kopf only logs warnings about objects.

    `handlers.supervision` logs why Kopf fails, once and without the tracebacks of each try.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.getLogger("kopf").setLevel(logging.CRITICAL)
    logging.getLogger("kopf.objects").setLevel(max(logging.WARNING, logging.getLogger().level))
