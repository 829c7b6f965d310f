from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from balancing import LongestFirst, measured, seconds, share

DURATIONS = {
    "tests/cluster/test_long.py": 60.0,
    "tests/cluster/test_short.py": 10.0,
    "tests/kubelet/test_nodes.py": 30.0,
    "tests/kubelet/test_resize.py": 40.0,
}


class Worker:
    """A worker that lists the files that it is given."""

    shutting_down = False

    def __init__(self, collection: list[str]) -> None:
        self.gateway = SimpleNamespace(id="gw")
        self.collection, self.given = collection, list[str]()

    def send_runtest_some(self, indexes: list[int]) -> None:
        self.given += [self.collection[index].partition("::")[0] for index in indexes]

    def shutdown(self) -> None:
        self.shutting_down = True


def test_the_longest_file_or_folder_is_given_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LongestFirst, "durations", DURATIONS)
    collection = [f"{file}::test_{n}" for file in sorted(DURATIONS) for n in range(4)]
    workers = [Worker(collection) for _ in range(2)]
    options = {"loadscopereorder": False}
    config: Any = SimpleNamespace(getvalue=lambda _: ["popen"] * 2, option=SimpleNamespace(**options))
    scheduling = LongestFirst(config)
    for worker in workers:
        scheduling.add_node(worker)
        scheduling.add_node_collection(worker, collection)
    scheduling.schedule()
    assert [set(each.given) for each in workers] == [
        {"tests/kubelet/test_nodes.py", "tests/kubelet/test_resize.py"},
        {"tests/cluster/test_long.py"},
    ]

    for index in range(4):  # the second worker has nothing left to do
        scheduling.mark_test_complete(workers[1], index)
    assert workers[1].given[4:] == ["tests/cluster/test_short.py"] * 4


@pytest.mark.parametrize(
    ("nodeid", "expected"),
    [
        ("tests/cluster/test_cli.py::TestA::test_b", "tests/cluster/test_cli.py"),
        ("tests/kubelet/test_nodes.py::test_b[1::2]", "kubelet"),
    ],
)
def test_a_worker_runs_a_whole_file_or_a_folder_with_a_cluster(nodeid: str, expected: str) -> None:
    assert share(nodeid) == expected


def test_a_new_file_counts_as_the_average_of_the_others() -> None:
    new = ["tests/cluster/test_new.py::test_a", "tests/cluster/test_new.py::test_b"]
    assert seconds(new, DURATIONS) == 35.0
    assert seconds([*new, "tests/cluster/test_long.py::test_a"], DURATIONS) == 95.0


def test_durations_are_those_of_a_report(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        """<testsuites><testsuite>
        <testcase classname="tests.unit.test_balancing" name="a" time="1.4" />
        <testcase classname="tests.unit.test_balancing.TestB" name="b" time="1.4" />
        <testcase classname="tests.unit.test_gone" name="c" time="9" />
        </testsuite></testsuites>"""
    )
    assert measured(report) == {"tests/unit/test_balancing.py": 3}
