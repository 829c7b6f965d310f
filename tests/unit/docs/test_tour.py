"""The comparison of the screens of docs/kubectl.md with those of a run."""

import pytest

from demo.tour import differences

HEAD = "# Title\n\n<!-- commit -->\n```console\n"
TAIL = "\n```\n\nMore.\n"
PAGE = """\
$ kubectl tidelock reserve hold-0 --ttl 30m
hold-0   Active   node-a   2.00   29m27s   32s
holds until 2026-11-26T20:01:43.263Z with the token 3d0c9be1-2f0e-4c36-8d4e-6a2f7c1b9f55.1
vm_85116c05-dad4-41e2-8cad-93460e66709c leads, in leadership 217884690
19:02   █|░░░░   ends in 28m56s, idle 63s
cpu 3 needed, 1900m free"""
LATER = """\
$ kubectl tidelock reserve hold-0 --ttl 30m
hold-0     Active   node-a   2.00      29m4s   8s
holds until 2026-11-27T08:00:00.001Z with the token 11111111-2f0e-4c36-8d4e-6a2f7c1b9f55.2
host_11111111-dad4-41e2-8cad-93460e66709c leads, in leadership 1
08:02  ███|░░   ends in 29m, idle 5s
cpu 3 needed, 1900m free"""


def test_times_names_and_widths_are_no_differences() -> None:
    assert differences(HEAD + PAGE + TAIL, {"commit": [LATER]}) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [("Active", "Pending"), ("1900m free", "1800m free"), ("2.00", "3.00"), ("--ttl 30m", "--until 30m")],
)
def test_other_words_and_amounts_are_differences(old: str, new: str) -> None:
    found = differences(HEAD + PAGE + TAIL, {"commit": [LATER.replace(old, new)]})
    assert any(line.startswith("+") and new in line.replace("…", "30m") for line in found[2:])


def test_a_screen_without_a_place_on_the_page_is_an_error() -> None:
    with pytest.raises(ValueError, match="there is no code block after <!-- top -->"):
        differences(HEAD + PAGE + TAIL, {"top": [LATER]})
