"""Where the serving certificate is kept, and who is told to trust it."""

import base64

import pytest

from tidelock.binders.certificates import LIFETIME
from tidelock.binders.keeper import WEBHOOK_NAMES, Keeper
from tidelock.kube.errors import Conflict, NotFound, ServerError
from tidelock.model.meta import Key
from unit.binders.cluster_store import SECRET, ClusterStore, HandClock


class Scene:
    def __init__(self) -> None:
        self.api, self.clock = ClusterStore(), HandClock()
        self.keeper = self.another()

    def another(self) -> Keeper:
        return Keeper(self.api, Key("system", "tls"), ("localhost",), self.clock)

    @property
    def data(self) -> dict[str, str]:
        data: dict[str, str] = self.api.objects[SECRET]["data"]
        return data


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_a_first_start_makes_the_secret(scene: Scene) -> None:
    await scene.keeper.renew()
    assert scene.data.keys() == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
    assert b"BEGIN CERTIFICATE" in base64.b64decode(scene.data["tls.crt"])


async def test_a_second_process_serves_with_the_same(scene: Scene) -> None:
    await scene.keeper.renew()
    before = scene.data
    await scene.another().renew()
    assert scene.data == before


async def test_an_old_certificate_is_renewed_and_its_authority_stays(scene: Scene) -> None:
    await scene.keeper.renew()
    before = scene.data
    scene.clock.time += LIFETIME.total_seconds() * 0.7
    await scene.keeper.renew()
    assert scene.data["tls.crt"] != before["tls.crt"]
    assert scene.data["ca.crt"] == before["ca.crt"]


async def test_what_another_replica_wrote_first_is_taken(scene: Scene) -> None:
    await scene.another().renew()
    before = scene.data
    scene.api.errors = [NotFound("not yet", status=404)]
    await scene.keeper.renew()
    assert scene.data == before


async def test_a_conflict_is_looked_at_again(scene: Scene) -> None:
    await scene.keeper.renew()
    scene.api.objects[SECRET]["data"] = {"tls.crt": "garbage"}
    read = scene.api.request

    async def busy(method: str, *args: object, **options: object) -> bytes:
        if method == "PUT":
            scene.api.request = read  # type: ignore[method-assign]
            raise Conflict("it was modified", status=409)
        return await read(method, *args, **options)  # type: ignore[arg-type]

    scene.api.request = busy  # type: ignore[method-assign]
    await scene.keeper.renew()
    assert scene.data.keys() == {"ca.crt", "ca.key", "tls.crt", "tls.key"}


async def test_the_webhooks_are_given_the_authority(scene: Scene) -> None:
    await scene.keeper.renew()
    await scene.keeper.introduce()
    ((path, patch),) = scene.api.patches
    assert path.endswith("/validatingwebhookconfigurations/tidelock")
    assert [each["name"] for each in patch["webhooks"]] == list(WEBHOOK_NAMES)
    assert {each["clientConfig"]["caBundle"] for each in patch["webhooks"]} == {scene.data["ca.crt"]}


async def test_nobody_is_told_of_a_certificate_that_is_not_there(scene: Scene) -> None:
    scene.api.errors = [ServerError("out of order", status=500)]
    with pytest.raises(ServerError):
        await scene.keeper.renew()
    await scene.keeper.introduce()
    assert scene.api.patches == []
