"""`kubectl tidelock check` reviews the rights of the operator's account."""

from typing import Any

import msgspec

from builders import Json
from tidelock.cli.finding import Severity
from tidelock.cli.installation import Installation
from tidelock.cli.installation_checks import check_rights
from tidelock.cli.session import Session
from tidelock.kube.client import KubeClient

PLACE = Installation("tidelock-system", "tidelock", "tidelock")


class Reviewer(KubeClient):
    """An API server that allows everything except some resources."""

    def __init__(self, *refused: str) -> None:
        self.reviewed: list[Json] = []
        self._refused = refused

    async def create(self, path: str, body: Any) -> bytes:
        assert path.endswith("/subjectaccessreviews")
        spec = body["spec"]
        assert spec["user"] == "system:serviceaccount:tidelock-system:tidelock"
        self.reviewed.append(spec["resourceAttributes"])
        allowed = spec["resourceAttributes"]["resource"] not in self._refused
        return msgspec.json.encode({"status": {"allowed": allowed}})


async def test_all_rights_are_in_order() -> None:
    server = Reviewer()
    found = await check_rights(Session(server, None), PLACE)
    assert found.level is Severity.OK
    assert f"may do all {len(server.reviewed)} things" in found.found


async def test_the_right_to_list_leases_is_reviewed_for_those_of_the_installations_name() -> None:
    """Regression: without it no operator looks for another leader, and the check was in order."""
    server = Reviewer("leases")
    found = await check_rights(Session(server, None), PLACE)
    assert found.level is Severity.WRONG
    assert "may not list leases of name tidelock in all namespaces" in found.found
    (review,) = (each for each in server.reviewed if each["resource"] == "leases")
    assert review["group"] == "coordination.k8s.io"
    assert (review["verb"], review["name"]) == ("list", "tidelock")
