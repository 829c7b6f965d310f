"""The measurement of the first steps, in a checkout with a make and programs that do nothing."""

import subprocess
from pathlib import Path

import pytest

import firststeps
from firststeps import Step, StepError, circumstances, environment, shown, steps, until_first_reservation
from unit.devcluster.machines import Machine

MAKEFILE = """
venv demo:
\t@echo $@ >>"$(LOG)"
up:
\t@echo "  alias kubectl=own-kubectl"
down:
\t@echo $@ >>"$(LOG)"
"""


@pytest.fixture
def log(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the log of the programs' calls, in a clone of a repository that has only a Makefile."""
    machine.link("bash", "git", "grep", "make", "mktemp", "tee", "sleep", "cat")
    log = tmp_path / "log"
    monkeypatch.setenv("LOG", str(log))
    machine.install("own-kubectl", 'echo "kubectl $1 $2 $3 $KUBECONFIG" >>"$LOG"')
    machine.install("tidelock", 'echo "tidelock $1 $2" >>"$LOG"; exec sleep 60')
    # The background process has started by then.
    machine.install("python", 'until grep -q ^tidelock "$LOG"; do sleep 0.1; done; echo look >>"$LOG"')
    source = tmp_path / "source"
    source.mkdir()
    (source / "Makefile").write_text(MAKEFILE)
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "first"]):
        subprocess.run(["git", "-C", source, *command], check=True)
    monkeypatch.setattr(firststeps, "ROOT", source)
    return log


def test_the_steps_are_the_steps_of_the_tutorial(log: Path, tmp_path: Path) -> None:
    reached = list(steps(tmp_path, environment(tmp_path, empty_caches=True)))
    assert [step.name for step in reached] == [
        "the clone is there",
        "the virtual environment is there",
        "the demo has ended",
        "a lock of one's own holds",
        "the web view shows it",
    ]
    assert reached == sorted(reached, key=lambda step: step.at)
    done = log.read_text().splitlines()
    kubeconfig = tmp_path / "state" / "tidelock" / "devcluster" / "kubeconfig"
    in_background = "tidelock run --web-view"
    assert in_background in done
    done.remove(in_background)  # it may start at any time before the page is read
    assert done[:3] == ["venv", "demo", f"kubectl apply -f nodes.yaml {kubeconfig}"]
    assert done[-3:] == [
        f"kubectl wait reservation/web-0 --for=condition=Active {kubeconfig}",
        "look",
        "down",
    ]
    assert "allocatable" in (tmp_path / "tidelock" / "nodes.yaml").read_text()


def test_a_failed_step_ends_the_measurement_and_takes_the_cluster_down(
    machine: Machine, log: Path, tmp_path: Path
) -> None:
    machine.install("own-kubectl", "exit 3")
    played = steps(tmp_path, environment(tmp_path, empty_caches=True))
    with pytest.raises(StepError, match="exit status 3"):
        list(played)
    assert log.read_text().splitlines()[-1] == "down"


def test_a_page_without_a_reservation_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\nmake up\n```\n")
    with pytest.raises(ValueError, match="has no command that begins with"):
        until_first_reservation(page)


def test_each_step_is_shown_with_its_own_duration() -> None:
    told = shown([Step("first", 2.0), Step("second", 5.5)]).splitlines()
    assert [line.split() for line in told[1:]] == [
        ["first", "2.0", "s", "2.0", "s"],
        ["second", "5.5", "s", "3.5", "s"],
    ]


def test_the_report_says_whether_the_control_plane_was_built_before(machine: Machine) -> None:
    assert "control plane not built yet, pip's cache as it was" in circumstances(empty_caches=False)
    assert "control plane not built yet, pip's cache empty" in circumstances(empty_caches=True)
