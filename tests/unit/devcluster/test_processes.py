import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devcluster import processes
from devcluster.polling import wait_for
from devcluster.processes import Process, record, recorded, spawn, stop_recorded

Spawn = Callable[[str], Process]


@pytest.fixture
def bash(tmp_path: Path) -> Iterator[Spawn]:
    """Spawn bash scripts that print `ready` once they run, and kill them after the test."""
    spawned: list[Process] = []

    def run(script: str) -> Process:
        log = tmp_path / f"log-{len(spawned)}"
        spawned.append(
            spawn([shutil.which("bash") or "bash", "-c", f"{script}\necho ready; sleep 60 & wait"], log)
        )
        wait_for(lambda: "ready" in log.read_text(), what="the script to run", interval=0.005)
        return spawned[-1]

    yield run
    for process in spawned:
        process.kill()


def test_process_is_alive_until_it_is_stopped(bash: Spawn) -> None:
    process = bash("")
    assert process.alive
    process.stop()
    assert not process.alive
    assert not Path(f"/proc/{process.pid}").exists()


def test_recycled_pid_is_neither_alive_nor_signalled(bash: Spawn) -> None:
    process = bash("")
    earlier = Process(process.pid, process.started - 1)

    assert not earlier.alive
    earlier.stop()
    earlier.kill()

    assert process.alive


def test_pid_recycled_as_a_thread_is_not_alive() -> None:
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    thread.start()
    assert thread.native_id is not None
    try:
        assert not Process(thread.native_id, started=0).alive
    finally:
        release.set()
        thread.join()


def test_zombie_of_another_program_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        process = Process(child.pid, processes._start_time(child.pid))
        assert process.wait(10)


def test_frozen_process_stops(bash: Spawn) -> None:
    process = bash("")
    process.send(signal.SIGSTOP)
    assert process.alive
    process.stop()
    assert not process.alive


def test_process_that_ignores_sigterm_is_killed_after_a_grace_period(
    bash: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_GRACE", 0.05)
    process = bash("trap '' TERM")
    process.stop()
    assert not process.alive


def test_records_are_read_back(tmp_path: Path) -> None:
    record(tmp_path, "etcd", Process(7, 70))
    record(tmp_path, "kwok", Process(8, 80))
    record(tmp_path, "etcd", Process(9, 90))
    assert recorded(tmp_path) == {"etcd": Process(9, 90), "kwok": Process(8, 80)}


def test_recorded_processes_are_stopped_the_youngest_first(bash: Spawn, tmp_path: Path) -> None:
    order = tmp_path / "order"
    for name in ("store", "server", "client"):
        record(tmp_path, name, bash(f"trap 'echo {name} >>{order}; exit' TERM"))
    started = recorded(tmp_path)

    stop_recorded(tmp_path)

    assert order.read_text().split() == ["client", "server", "store"]
    assert not any(process.alive for process in started.values())
    assert not recorded(tmp_path)


def test_program_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        spawn([str(tmp_path / "missing")], tmp_path / "log")
