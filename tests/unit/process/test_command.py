import json
from pathlib import Path

import pytest

from tidelock import __version__
from tidelock.main import main


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])

    assert left.value.code == 0
    assert capsys.readouterr().out.strip() == __version__


def test_a_missing_kubeconfig_is_reported_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["run", "--kubeconfig", str(tmp_path / "none"), "--port", "0"])

    printed = capsys.readouterr().err.strip()
    assert status == 1
    assert printed.startswith("tidelock: ")
    assert str(tmp_path / "none") in printed
    assert "\n" not in printed


def test_an_invalid_kubeconfig_is_reported_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config").write_text("just a text")

    status = main(["run", "--kubeconfig", str(tmp_path / "config"), "--port", "0"])

    printed = capsys.readouterr().err.strip()
    assert status == 1
    assert printed.startswith(f"tidelock: kubeconfig {tmp_path / 'config'}: ")
    assert "\n" not in printed


def test_an_unknown_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["run", "--retries", "3"])

    assert left.value.code == 2
    assert "unrecognized arguments: --retries 3" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--port", "--tls-port"])
@pytest.mark.parametrize("port", ["99999", "-1", "http"])
def test_an_invalid_port_is_refused(option: str, port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["run", f"{option}={port}"])

    assert left.value.code == 2
    expected = f"argument {option}: '{port}' is not a port: should be a whole number from 0 to 65535"
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--move-after-seconds", "-1", "should be a number of seconds from 0"),
        ("--earmark-after-seconds", "nan", "should be a number of seconds from 0"),
        ("--earmark-after-seconds", "soon", "should be a number of seconds from 0"),
        ("--borrower-grace-seconds", "0", "should be a whole number of seconds from 1"),
        ("--lease-duration-seconds", "1", "is not a whole number from 2 to 3600"),
        ("--lease-name", "", "should not be empty"),
        ("--scheduler-name", " ", "should not be empty"),
    ],
)
def test_a_value_out_of_range_is_refused(
    option: str, value: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["run", f"{option}={value}"])

    assert left.value.code == 2
    assert f"argument {option}: " in (printed := capsys.readouterr().err)
    assert expected in printed


def test_the_help_shows_each_default_and_examples(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    with pytest.raises(SystemExit):
        main(["run", "--help"])

    printed = capsys.readouterr().out
    for default in ("tidelock-scheduler", "300.0", "60.0", "8080", "text", "info", "15", "yes"):
        assert f"(default: {default})" in printed
    assert printed.count("(default: )") == printed.count("(default: None)") == 0
    assert "Default: that of the pod, or tidelock-system outside of a pod. A kubeconfig's context" in printed
    assert "tidelock run --kubeconfig ~/.kube/config --no-leader-elect" in printed


def refused(file: Path, text: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Start with an invalid configuration, and return the message after the file's name."""
    file.write_text(text)

    status = main(["run", "--config", str(file), "--port", "0"])

    printed = capsys.readouterr().err.strip()
    assert status == 1
    assert "\n" not in printed
    assert printed.startswith(f"tidelock: configuration {file}: ")
    return printed.removeprefix(f"tidelock: configuration {file}: ")


HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_an_invalid_configuration_is_reported_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused(tmp_path / "config.yaml", HEAD + "profiles: [{schedulerName: 3}]", capsys)
    assert told == "profiles[0].schedulerName: Invalid value: 3: should be a valid string"


@pytest.fixture
def unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a kubeconfig of a cluster that does not answer."""
    cluster = {"server": "http://127.0.0.1:1"}
    context = {"cluster": "c", "user": "u"}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": context}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))


@pytest.mark.usefixtures("unreachable")
def test_a_missing_metrics_token_is_reported_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--metrics-token-file", str(tmp_path / "none"), "--port", "0"]) == 1
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert line == f"tidelock: metrics token file {tmp_path / 'none'}: No such file or directory"


@pytest.mark.usefixtures("unreachable")
def test_an_invalid_profile_is_reported_before_a_cluster_is_reached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = HEAD + "profiles: [{pluginConfig: [{name: NodeName, args: {colour: red}}]}]"

    told = refused(tmp_path / "config.yaml", text, capsys)

    assert told == (
        "profile default-scheduler: plugin NodeName: pluginConfig of NodeName: unknown args ['colour']"
    )


def test_a_missing_configuration_is_reported_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--config", str(tmp_path / "none"), "--port", "0"]) == 1
    told = capsys.readouterr().err.strip()
    assert told == f"tidelock: configuration {tmp_path / 'none'}: No such file or directory"


def test_a_scheduler_name_is_refused_together_with_a_configuration(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["run", "--config", "file", "--scheduler-name", "mine"])

    assert left.value.code == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_a_binary_configuration_is_reported_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config").write_bytes(b"\xff\xfe\xfd")
    assert main(["run", "--config", str(tmp_path / "config"), "--port", "0"]) == 1
    told = capsys.readouterr().err.strip()
    assert told.startswith(f"tidelock: configuration {tmp_path / 'config'}: is not UTF-8: ")
