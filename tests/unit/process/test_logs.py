import json
import logging
import sys

import pytest

from tidelock.logs import JsonFormatter, RepeatFilter, TextFormatter, configure_logs


def record(message: str, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("tidelock.test", logging.WARNING, "file.py", 1, message, (), None)
    made.created = 1_800_000_000.123
    vars(made).update(fields)
    return made


def test_text_is_one_line_with_the_fields_after_the_message() -> None:
    line = TextFormatter().format(record("binding failed", pod="shop/web-0", tries=2))

    assert line == "2027-01-15T08:00:00.123Z WARNING tidelock.test: binding failed pod=shop/web-0 tries=2"


def test_json_is_one_object_with_the_fields_beside_the_message() -> None:
    line = JsonFormatter().format(record("binding failed", pod="shop/web-0"))

    assert json.loads(line) == {
        "time": "2027-01-15T08:00:00.123Z",
        "level": "warning",
        "logger": "tidelock.test",
        "message": "binding failed",
        "pod": "shop/web-0",
    }


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_an_exception_is_logged_with_its_traceback(formatter: logging.Formatter) -> None:
    made = record("crashed")
    try:
        int("the cause")
    except ValueError:
        made.exc_info = sys.exc_info()

    assert "'the cause'" in formatter.format(made)


def test_kopf_logs_warnings_about_objects_and_nothing_else() -> None:
    root, objects = logging.getLogger(), logging.getLogger("kopf.objects")

    configure_logs("json", "debug")

    assert root.level == logging.DEBUG
    assert not logging.getLogger("kopf._core.reactor.running").isEnabledFor(logging.ERROR)
    assert not objects.isEnabledFor(logging.INFO)
    assert objects.isEnabledFor(logging.WARNING)
    assert isinstance(root.handlers[0].formatter, JsonFormatter)


def test_the_same_message_with_the_same_error_is_logged_once_a_second() -> None:
    repeats = RepeatFilter()

    def passes(
        seconds: float,
        message: str = "can't watch for now",
        name: str = "tidelock.kube.watch",
        **fields: object,
    ) -> object:
        made = record(message, **fields)
        made.name, made.created = name, 1_800_000_000.0 + seconds
        return vars(made).get("left_out", 0) if repeats.filter(made) else None

    refused = {"error": "connection refused"}
    assert passes(0.0, resource="nodes", **refused) == 0
    assert passes(0.1, resource="pods", **refused) is None
    assert passes(0.9, resource="pods", **refused) is None
    assert passes(0.9, resource="pods", error="cannot list pods") == 0
    assert passes(0.9, "the Lease was not taken", **refused) == 0
    assert passes(1.1, resource="nodes", **refused) == 2
    assert passes(1.1) == passes(1.1) == 0  # without an error
    assert passes(1.1, name="tidelock.scheduler", **refused) == 0
    assert passes(1.1, name="tidelock.scheduler", **refused) == 0  # about one pod each
    assert passes(-3600.0, resource="nodes", **refused) == 0  # the clock was set back
