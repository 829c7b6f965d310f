import gzip
from pathlib import Path

import numpy as np
import pytest

from tidelock.simulation.traces import (
    MEBIBYTE,
    TracedPod,
    TraceError,
    planetlab_days,
    read_openb_nodes,
    read_openb_pods,
    read_planetlab,
    read_task_usage,
)
from tidelock.simulation.world import Machine

_PODS = "name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time\n"


def written(folder: Path, text: str, name: str = "planetlab-20110303.csv") -> Path:
    file = folder / name
    if name.endswith(".gz"):
        file.write_bytes(gzip.compress(text.encode()))
    else:
        file.write_text(text)
    return file


@pytest.mark.parametrize("name", ["planetlab-20110303.csv", "planetlab-20110303.csv.gz"])
def test_a_planetlab_day_is_read_as_shares(tmp_path: Path, name: str) -> None:
    load = read_planetlab(written(tmp_path, "0,50,100\n25,5,1\n", name))

    assert np.allclose(load, [[0, 0.5, 1], [0.25, 0.05, 0.01]])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1,2\n1\n", "line 2: 1 values, where the first line has 2"),
        ("1,x\n", "line 1: could not convert string to float: 'x'"),
        ("1,101\n", "line 1: every value should be a percentage from 0 to 100"),
        ("1,nan\n", "line 1: every value should be a percentage from 0 to 100"),
        ("", "has no line"),
    ],
)
def test_an_invalid_planetlab_day_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    file = written(tmp_path, text)

    with pytest.raises(TraceError) as refused:
        read_planetlab(file)

    assert str(refused.value) == f"{file}: {problem}"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=str(tmp_path / "none.csv")):
        read_planetlab(tmp_path / "none.csv")


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "planetlab-1.csv.gz"
    file.write_bytes(gzip.compress(b"1,2\n" * 1000)[:-10])

    with pytest.raises(TraceError, match=r"planetlab-1\.csv\.gz"):
        read_planetlab(file)


def test_days_are_found_by_their_names(tmp_path: Path) -> None:
    second = written(tmp_path, "1\n", "planetlab-20110306.csv.gz")
    first = written(tmp_path, "1\n", "planetlab-20110303.csv")
    written(tmp_path, "", "README.md")

    assert list(planetlab_days(tmp_path).items()) == [("20110303", first), ("20110306", second)]


def test_a_folder_without_days_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"no planetlab-DAY\.csv"):
        planetlab_days(tmp_path)


def test_openb_nodes_are_read_by_their_header(tmp_path: Path) -> None:
    file = written(tmp_path, "sn,model,cpu_milli,memory_mib,gpu\nnode-1,G2,32000,1024,8\n", "nodes.csv")

    assert read_openb_nodes(file) == (Machine("node-1", 32_000, 1024 * MEBIBYTE, gpus=8),)


def test_openb_pods_come_in_the_order_of_their_creation(tmp_path: Path) -> None:
    file = written(tmp_path, f"{_PODS}late,1000,2,0,90,100\nearly,500,1,1,10,95.0\n", "pods.csv")

    assert read_openb_pods(file) == (
        TracedPod("early", 500, MEBIBYTE, 10.0, 95.0, gpus=1),
        TracedPod("late", 1000, 2 * MEBIBYTE, 90.0, 100.0),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name,cpu_milli\n", "line 1: the header lacks memory_mib, num_gpu, creation_time, deletion_time"),
        (f"{_PODS}a,1\n", "line 2: 2 values for 6 columns"),
        (f"{_PODS}a,x,1,0,1,2\n", "line 2: cpu_milli: 'x' is not a number"),
        (f"{_PODS}a,-1,1,0,1,2\n", "line 2: cpu_milli: '-1' is negative"),
        (f"{_PODS}a,inf,1,0,1,2\n", "line 2: cpu_milli: 'inf' is not a number"),
    ],
)
def test_an_invalid_list_of_pods_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    file = written(tmp_path, text, "pods.csv")

    with pytest.raises(TraceError) as refused:
        read_openb_pods(file)

    assert str(refused.value) == f"{file}: {problem}"


def usage(start: int, job: str, task: int, rate: float, *, seconds: int = 300) -> str:
    """Return a line of task_usage, with times in seconds."""
    cells = [str(start * 10**6), str((start + seconds) * 10**6), job, str(task), "7", str(rate)]
    return ",".join([*cells, *["0"] * 14]) + "\n"


def test_the_tasks_of_a_job_are_one_row_of_its_highest_use(tmp_path: Path) -> None:
    first = usage(600, "a", 0, 0.1) + usage(600, "a", 1, 0.3) + usage(600, "b", 0, 0.5)
    second = usage(900, "a", 0, 0.4) + usage(900, "a", 1, 0.4) + usage(900, "b", 0, 0.05)
    files = [written(tmp_path, first, "part-0.csv.gz"), written(tmp_path, second, "part-1.csv")]

    assert np.allclose(read_task_usage(files), [[0.5, 1], [1, 0.1]])


def test_tasks_count_by_the_time_for_which_they_were_measured(tmp_path: Path) -> None:
    text = (
        usage(600, "a", 0, 0.1, seconds=100) + usage(600, "a", 1, 0.4, seconds=200) + usage(900, "a", 0, 0.6)
    )

    assert np.allclose(read_task_usage([written(tmp_path, text, "part-0.csv")]), [[0.5, 1]])


def test_jobs_that_were_seldom_measured_are_left_out_and_gaps_are_filled(tmp_path: Path) -> None:
    text = "".join(usage(300 * step, "a", 0, 0.01 * (step + 1)) for step in range(20) if step != 7)
    text += "".join(usage(300 * step, "b", 0, 0.5) for step in range(10))

    (row,) = read_task_usage([written(tmp_path, text, "part-0.csv")])

    assert row[6:9] == pytest.approx([0.35, 0.35, 0.45])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1,2,3\n", "line 1: list index out of range"),
        (
            usage(600, "a", 0, 0.1) + usage(900, "a", 0, -1),
            "line 2: expected a time, a later one, and a rate",
        ),
        (usage(600, "a", 0, 0.1).replace("600", "x", 1), "line 1: invalid literal"),
        ("", "no job was measured for long enough"),
        (usage(600, "a", 0, 0.0), "no job was measured for long enough"),
    ],
)
def test_other_files_are_no_task_usage(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(TraceError, match=problem):
        read_task_usage([written(tmp_path, text, "part-0.csv")])
