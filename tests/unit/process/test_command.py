from pathlib import Path

import pytest

from tidelock import __version__
from tidelock.main import main


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])

    assert left.value.code == 0
    assert capsys.readouterr().out.strip() == __version__


def test_a_kubeconfig_that_is_not_there_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["run", "--kubeconfig", str(tmp_path / "none"), "--port", "0"])

    printed = capsys.readouterr().err.strip()
    assert status == 1
    assert printed.startswith("tidelock: ")
    assert str(tmp_path / "none") in printed
    assert "\n" not in printed


def test_a_kubeconfig_that_is_none_is_told_in_one_line(
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
