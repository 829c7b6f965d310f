from pathlib import Path

import pytest

from tidelock.main import main


def shadow(*arguments: str) -> int:
    return main(["shadow", *arguments])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--for", "soon"], "argument --for: 'soon' should be a duration"),
        (["--for", "0s"], "argument --for: '0s' should be longer than no time"),
        (["--lead", "-1m"], "argument --lead: "),
        (["--prometheus", "http://p:9090", "--metrics-server"], "not allowed with argument --prometheus"),
        (["--seed", "x"], "argument --seed: invalid int value"),
    ],
)
def test_bad_options_are_refused(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        shadow(*arguments)
    assert ended.value.code == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--config", "--kubeconfig"])
def test_a_missing_file_is_named_in_one_line(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = tmp_path / "absent"
    assert shadow(option, str(absent), "--output", str(tmp_path / "report")) == 1
    told = capsys.readouterr().err
    assert str(absent) in told
    assert told.startswith("tidelock: ")
    assert told.count("\n") == 1
    assert not (tmp_path / "report").exists()
