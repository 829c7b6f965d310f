import json
from pathlib import Path

import pytest

from tidelock.main import main

_SMALL = ("--nodes", "4", "--workloads", "6", "--steps", "38", "--fill", "0.4")
_PAST = ("--from-prometheus", "http://127.0.0.1:9")
_PNG = b"\x89PNG"


def test_policies_are_compared_in_a_table_a_file_and_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, pictures = tmp_path / "out.json", tmp_path / "pictures"
    arguments = ["--policies", "default,water-level", "--json", str(file), "--plots", str(pictures)]

    status = main(["simulate", *_SMALL, *arguments])

    assert status == 0
    printed = capsys.readouterr().out
    assert "water-level" in printed
    told = json.loads(file.read_text())
    assert told["world"]["nodes"] == 4
    assert told["world"]["steps"] == 38
    assert set(told["policies"]) == {"default", "water-level"}
    assert f"{told['policies']['default']['spread']:.2f}" in printed
    for name in ("spread.png", "nodes.png"):
        assert (pictures / name).read_bytes().startswith(_PNG)


def test_policies_are_compared_by_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.json"
    days = ["--nodes", "3", "--workloads", "4", "--steps", "620", "--life-hours", "24", "--json", str(file)]

    assert main(["simulate", *days, "--policies", "random,default"]) == 0

    of = json.loads(file.read_text())["by_day"]["random"]
    line = f"random leaves {of['mean']:.2f} ({of['low']:.2f} to {of['high']:.2f}) of the deviation of default"
    assert line in capsys.readouterr().out


def test_the_whole_scheduler_gives_the_same_results(tmp_path: Path) -> None:
    arguments = ["simulate", *_SMALL, "--policies", "shipped", "--interval", "60", "--lag", "60"]
    files = [tmp_path / "quick.json", tmp_path / "whole.json"]

    for file, more in zip(files, ([], ["--whole-scheduler"]), strict=True):
        assert main([*arguments, "--json", str(file), *more]) == 0

    assert files[0].read_text() == files[1].read_text()


def test_requests_replicas_shapes_and_lifetimes_are_set_by_flags(capsys: pytest.CaptureFixture[str]) -> None:
    shapes = ["--sizes", "500", "--request-error", "0.3", "--replica-shape", "1.5", "--lifetimes", "Pareto"]
    load = ["--rows", "Pod", "--load-factor", "3", "--mean", "0.3", "--swing", "0", "--wander", "0.1"]

    assert main(["simulate", *_SMALL, *shapes, *load, "--peaks", "0", "--policies", "least-variance"]) == 0

    assert "least-variance" in capsys.readouterr().out


def test_traces_are_read_by_their_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load, nodes, pods = (tmp_path / name for name in ("load.csv", "nodes.csv", "pods.csv"))
    load.write_text("\n".join([",".join(["20"] * 38)] * 8))
    nodes.write_text("sn,cpu_milli,memory_mib,gpu\na,8000,8192,0\nb,8000,8192,2\n")
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time\np,1000,64,0,0,99999\n")

    status = main(
        [
            "simulate",
            *_SMALL,
            *("--load", str(load), "--openb-nodes", str(nodes), "--openb-pods", str(pods)),
            *("--policies", "default", "--fault", "restart"),
        ]
    )

    assert status == 0
    assert "2 nodes, 1 pods, 38 steps" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--policies", "best"], "--policies: 'best' is not one of random, default"),
        (["--policies", "random,random"], "--policies: 'random,random' names a policy twice"),
        (["--wander", "-1"], "wander: -1.0 should be from 0 to inf"),
        (["--interval", "70"], "interval: 70 should divide 300 seconds"),
        (["--policies", "least-used", "--whole-scheduler"], "least-used: only arrays simulate"),
        (["--nodes", "0"], "nodes: 0 should be more than 0"),
        (["--steps", "5"], "synthetic: 5 steps of 300 s are no longer than the warm-up of 36"),
        (["--openb-pods", "x.csv"], "--openb-nodes and --openb-pods belong together"),
        (["--load", "/nowhere/x.csv"], "/nowhere/x.csv: [Errno 2]"),
        ([*_PAST, "--load", "x.csv"], "--from-prometheus and --load exclude each other"),
        ([*_PAST, "--step", "5"], "--step: '5' should be a duration"),
        ([*_PAST, "--step", "90s"], "interval: 60 should divide 90 seconds"),
        ([*_PAST, "--until", "monday"], "--until: Invalid isoformat string: 'monday'"),
        ([*_PAST, "--days", "0"], "--days: 0 days should have at least a step of 300 s"),
        ([*_PAST, "--login", "/nowhere"], "/nowhere: expected the key token"),
        (_PAST, "Cannot connect to host 127.0.0.1:9"),
    ],
)
def test_invalid_input_is_reported_in_one_line(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["simulate", *_SMALL, "--policies", "random", *arguments])

    printed = capsys.readouterr().err
    assert status == 1
    assert f"tidelock: {problem}" in printed.splitlines()[-1]
