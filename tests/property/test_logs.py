"""Log lines can't be forged by the contents of their fields."""

import json
import logging

from hypothesis import given
from hypothesis import strategies as st

from tidelock.logs import JsonFormatter, TextFormatter

FORGED = "\n2027-01-15T08:00:00.123Z ERROR forged"
texts = st.text(st.characters(codec=None), max_size=30) | st.sampled_from(
    [FORGED, "\x1b[2J", "\u202egpj.exe", "\x85", "\u2028", "\ud800", "\x7f"]
)


def record(field: str, message: str) -> logging.LogRecord:
    made = logging.LogRecord("tidelock.test", logging.WARNING, "file.py", 1, message, (), None)
    made.created = 1_800_000_000.123
    vars(made)["error"] = field
    error = ValueError(field)
    made.exc_info = (type(error), error, None)
    return made


@given(texts, texts)
def test_a_record_is_one_line_and_its_traceback_is_indented(field: str, message: str) -> None:
    """Guard against a pod's annotation with a line break, which once wrote a log line of its own."""
    first, *others = TextFormatter().format(record(field, message)).split("\n")
    assert first.startswith("2027-01-15T08:00:00.123Z WARNING tidelock.test: ")
    assert all(line.startswith("  ") for line in others)
    assert all(line.isprintable() for line in (first, *others))


@given(texts, texts)
def test_json_is_one_line_with_the_texts_as_they_are(field: str, message: str) -> None:
    line = JsonFormatter().format(record(field, message))
    assert line.isprintable()
    told = json.loads(line)
    assert (told["error"], told["message"]) == (field, message)
