"""Commands as the console script runs them, and a cluster that answers them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from builders import Json, reservation_json
from tidelock.cli.main import main
from tidelock.kube.client import NODES, PODS, RESERVATIONS, WATERLEVELS
from unit.cli.scenes import LOCKS
from unit.cli.scenes import NODES as NODE_OBJECTS
from unit.cli.scenes import PODS as POD_OBJECTS
from unit.cli.server import Answers, listed

CLUSTER: Answers = {
    f"GET {NODES.collection()}": listed(*NODE_OBJECTS),
    f"GET {PODS.collection()}": listed(*POD_OBJECTS),
    f"GET {RESERVATIONS.collection()}": listed(*LOCKS),
    f"GET {RESERVATIONS.collection('shop')}": listed(*LOCKS),
    f"GET {WATERLEVELS.collection()}": listed(),
}


RESERVATION: Json = {"apiVersion": RESERVATIONS.api_version, "kind": "Reservation"}


def run(*arguments: str) -> int:
    """Run the command as the console script does, and return its exit status."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["kubectl-tidelock", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
    code = left.value.code
    return code if isinstance(code, int) else 0


def sentence(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the error message, which is one line."""
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert told.err.count("\n") == 1, told.err
    return told.err


def reservation_file(folder: Path, **spec: Any) -> str:
    file = folder / "file.yaml"
    body = RESERVATION | reservation_json(**spec)
    file.write_text(yaml.safe_dump(body))
    return str(file)
