import json
from pathlib import Path

import pytest

import sbom
from audit import requirements

_LOCK = Path(__file__).parents[3] / "requirements.lock"


def test_the_bill_of_materials_names_all_locked_packages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bill = tmp_path / "build" / "bill.json"
    assert sbom.main([str(bill)]) == 0
    assert capsys.readouterr().out == f"{bill}\n"
    content = json.loads(bill.read_text())
    named = {f"{each['name']}=={each['version']}" for each in content["components"]}
    reserved = dict(requirements(_LOCK.read_text()))
    assert (content["bomFormat"], content["metadata"]["component"]["name"]) == ("CycloneDX", "tidelock")
    assert named == reserved.keys()
    for each in content["components"]:
        hashes = [f"sha256:{known['content']}" for known in each["hashes"]]
        assert sorted(hashes) == sorted(reserved[f"{each['name']}=={each['version']}"])


def test_the_same_lock_file_gives_the_same_bill(tmp_path: Path) -> None:
    bills = [tmp_path / name for name in ("one.json", "two.json")]
    for bill in bills:
        sbom.write(_LOCK, bill)
    assert bills[0].read_text() == bills[1].read_text()
