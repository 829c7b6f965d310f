from pathlib import Path
from types import SimpleNamespace

from evidence import sections


def test_a_report_has_the_end_of_each_log_and_the_load(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    of_operator, of_test = tmp_path / "operator.log", tmp_path / "first" / "operator.log"
    of_operator.write_text("begin\n" + "decided\n" * 40)
    of_test.write_text("ended\n")
    operator = SimpleNamespace(_log=of_operator)

    titles, texts = zip(*sections({"operator": operator, "tmp_path": tmp_path, "number": 1}), strict=True)
    assert titles[:2] == (f"log {of_operator}", f"log {of_test}")
    assert texts[:2] == ("\n".join(["decided"] * 40), "ended")
    assert texts[2].endswith(" processors")


def test_a_test_without_servers_has_no_more_evidence(tmp_path: Path) -> None:
    assert sections({"tmp_path": tmp_path, "operator": SimpleNamespace(_log=tmp_path / "none.log")}) == []
