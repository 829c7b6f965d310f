import cProfile
import json
from pathlib import Path

import pytest

from bench.stages import WAITING, Entry, Function, report, stage_of, stages

_WATCH: Function = ("/src/tidelock/kube/watch.py", 1, "_handle")
_CYCLE: Function = ("/src/tidelock/scheduler/cycle.py", 1, "_find")


@pytest.mark.parametrize(
    ("file", "stage"),
    [
        ("/src/tidelock/kube/events.py", "events"),
        ("/src/tidelock/kube/client.py", "HTTP"),
        ("/src/tidelock/plugins/node_name.py", "decisions"),
        ("/lib/site-packages/numpy/_core/numeric.py", "decisions"),
        ("/lib/asyncio/sslproto.py", "sockets and TLS"),
        ("/lib/asyncio/events.py", "event loop"),
        ("/lib/dataclasses.py", "start, and all else"),
    ],
)
def test_the_narrowest_stage_of_a_file_counts(file: str, stage: str) -> None:
    assert stage_of(file) == stage


def test_time_of_a_built_in_function_counts_for_its_callers() -> None:
    functions: dict[Function, Entry] = {
        _WATCH: (1, 1, 1.0, 9.0, {}),
        _CYCLE: (1, 1, 4.0, 9.0, {}),
        ("~", 0, "<built-in method len>"): (
            2,
            2,
            5.0,
            5.0,
            {_WATCH: (1, 1, 3.0, 3.0), _CYCLE: (1, 1, 2.0, 2.0)},
        ),
    }
    assert stages(functions) == {"decisions": 6.0, "watch": 4.0}


def test_waiting_is_a_stage_of_its_own() -> None:
    poll: Function = ("~", 0, "<method 'poll' of 'select.epoll' objects>")
    assert stages({poll: (1, 1, 7.0, 7.0, {_WATCH: (1, 1, 7.0, 7.0)})}) == {WAITING: 7.0}


def test_a_profile_is_read_from_its_file(tmp_path: Path) -> None:
    profile = cProfile.Profile()
    profile.runcall(json.dumps, list(range(1_000)))
    profile.dump_stats(tmp_path / "profile")
    assert report(tmp_path / "profile").split()[-2:] == ["100.0", "%"]
