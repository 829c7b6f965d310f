from hypothesis import given
from hypothesis import strategies as st

from tidelock.kube.lines import LineSplitter


@given(st.lists(st.binary().map(lambda part: part + b"\n" * (len(part) % 3))))
def test_lines_do_not_depend_on_how_the_bytes_arrive(chunks: list[bytes]) -> None:
    splitter = LineSplitter()

    lines = [line for chunk in chunks for line in splitter.split(chunk)]
    assert lines == b"".join(chunks).split(b"\n")[:-1]


def test_an_unfinished_line_waits() -> None:
    splitter = LineSplitter()

    assert splitter.split(b"one\ntw") == [b"one"]
    assert splitter.split(b"") == []
    assert splitter.split(b"o\n\n") == [b"two", b""]
