import pytest

from tidelock.kube.client import PODS, KubeClient
from tidelock.kube.errors import Gone
from tidelock.kube.listing import list_all
from tidelock.kube.wire import parse_identity
from unit.kube.scripted import ScriptedServer, fails, page


def stored(name: str) -> dict[str, object]:
    return {"metadata": {"name": name, "resourceVersion": "1"}}


async def test_all_pages_are_read(server: ScriptedServer, client: KubeClient) -> None:
    server.replays(page(stored("a"), stored("b"), version=7, more="next"), page(stored("c"), version=7))

    found = await list_all(client, PODS, "shop")

    assert [parse_identity(raw).name for raw in found] == ["a", "b", "c"]
    assert [asked.path for asked in server.asked] == ["/api/v1/namespaces/shop/pods"] * 2
    assert [asked.query.get("continue") for asked in server.asked] == [None, "next"]


async def test_an_expired_continue_token_is_an_error(server: ScriptedServer, client: KubeClient) -> None:
    server.replays(page(stored("a"), version=7, more="next"), fails(410, "Expired"))
    with pytest.raises(Gone):
        await list_all(client, PODS)
