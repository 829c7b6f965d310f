"""The storage of the serving certificate, and the webhooks that trust it."""

import base64
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from devcluster.keys import make_keys
from tidelock.binders.certificate_rotator import ANSWER_KEY, FORMER_ANSWER_KEY, CertificateRotator
from tidelock.binders.certificates import CERTIFICATE_LIFETIME, renewed
from tidelock.binders.errors import CertificateError, ClientsError
from tidelock.binders.tokens import OVERLAP, TOKEN_PATH
from tidelock.binders.tokens import TOKEN_LIFETIME as LIFETIME_OF_TOKENS
from tidelock.binders.webhooks import BINDINGS, CREATIONS, WEBHOOK_NAMES
from tidelock.kube.errors import Conflict, NotFound, ServerError
from tidelock.model.answer import Answer, AnswerKeys
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key, ObjectMeta
from unit.binders.cluster_store import SECRET, WEBHOOKS, ClusterStore
from unit.scheduler.machinery import FakeClock

_NO_CHECK_TIME = 0x200000  # OpenSSL's X509_V_FLAG_NO_CHECK_TIME: the clock of the scene is not this machine's
FIELDS = {"ca.crt", "tls.crt", "tls.key", "next.crt", "next.key"}


class Scene:
    def __init__(self) -> None:
        self.api, self.clock = ClusterStore(), FakeClock()
        self.rotator = self.another()

    def another(self) -> CertificateRotator:
        return CertificateRotator(self.api, Key("system", "tls"), ("localhost",), self.clock)

    def token(self) -> str:
        """Return the token in the path that the API server calls."""
        (path,) = self.api.paths
        assert path.startswith("/admission/")
        return path.rpartition("/")[2]

    def bundle(self) -> str:
        """Return the authorities that the API server trusts."""
        (bundle,) = {each["clientConfig"]["caBundle"] for each in self.api.objects[WEBHOOKS]["webhooks"]}
        return str(bundle)

    @property
    def data(self) -> dict[str, str]:
        data: dict[str, str] = self.api.objects[SECRET]["data"]
        return data


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_a_first_start_fills_the_secret(scene: Scene) -> None:
    await scene.rotator.renew()
    assert scene.data.keys() == FIELDS
    assert b"BEGIN CERTIFICATE" in base64.b64decode(scene.data["tls.crt"])


async def test_a_missing_secret_is_not_created(scene: Scene) -> None:
    """With the right to create Secrets, a stolen token could create any Secret in the namespace."""
    del scene.api.objects[SECRET]
    with pytest.raises(NotFound):
        await scene.rotator.renew()


async def test_a_second_process_serves_with_the_same_certificate(scene: Scene) -> None:
    await scene.rotator.renew()
    before = scene.data
    await scene.another().renew()
    assert scene.data == before


async def test_a_successor_is_trusted_by_the_webhooks_before_it_serves(scene: Scene) -> None:
    await scene.rotator.renew()
    first = scene.data
    scene.clock.time += CERTIFICATE_LIFETIME.total_seconds() * 0.7
    await scene.rotator.renew()
    await scene.rotator.introduce()
    assert (scene.data["tls.crt"], scene.data["tls.key"]) == (first["tls.crt"], first["tls.key"])
    assert base64.b64decode(scene.bundle()).startswith(base64.b64decode(first["ca.crt"]))
    second = scene.data["next.crt"]
    scene.clock.time += CERTIFICATE_LIFETIME.total_seconds() * 0.15
    await scene.rotator.renew()
    await scene.rotator.introduce()
    assert scene.data["tls.crt"] == second
    assert scene.data["next.crt"] == ""
    assert scene.bundle() == scene.data["ca.crt"]


async def test_a_stored_key_of_an_authority_is_removed_with_all_it_has_signed(scene: Scene) -> None:
    """An earlier version stored it. It may have been stolen, so its certificates are replaced, too."""
    await scene.rotator.renew()
    before = scene.data
    scene.api.objects[SECRET]["data"] = before | {"ca.key": before["tls.key"]}
    await scene.another().renew()
    assert scene.data.keys() == FIELDS
    assert not set(before.values()) & set(filter(None, scene.data.values()))


async def test_a_certificate_that_another_replica_wrote_first_is_used(scene: Scene) -> None:
    read, written = scene.api.request, []

    async def late(method: str, *args: object, **options: object) -> bytes:
        answer = await read(method, *args, **options)  # type: ignore[arg-type]
        if method == "GET":
            scene.api.request = read  # type: ignore[method-assign]
            await scene.another().renew()
            written.append(scene.data)
        return answer

    scene.api.request = late  # type: ignore[method-assign]
    await scene.rotator.renew()
    assert [scene.data] == written


@pytest.mark.parametrize("data", [None, {}, {"tls.crt": None}, {"ca.key": 7, "ca.crt": []}, "text"])
async def test_an_emptied_secret_is_filled_again(scene: Scene, data: object) -> None:
    """The API server returns null for a value that was never set, which once stopped all renewals."""
    await scene.rotator.renew()
    before = scene.data
    scene.api.objects[SECRET]["data"] = before | data if isinstance(data, dict) and data else data
    await scene.rotator.renew()
    assert scene.data.keys() == FIELDS
    assert {name for name, value in scene.data.items() if not value} <= {"next.crt", "next.key"}


async def test_the_webhooks_get_the_authority_and_a_token(scene: Scene) -> None:
    await scene.rotator.renew()
    await scene.rotator.introduce()
    ((path, patch),) = scene.api.patches
    assert path.endswith("/validatingwebhookconfigurations/tidelock")
    assert [each["name"] for each in patch["webhooks"]] == list(WEBHOOK_NAMES)
    assert {each["clientConfig"]["caBundle"] for each in patch["webhooks"]} == {scene.data["ca.crt"]}
    assert scene.rotator.tokens.count(scene.token())


async def test_a_webhook_that_an_earlier_version_has_not_installed_is_left_out(scene: Scene) -> None:
    hooks = scene.api.objects[WEBHOOKS]["webhooks"]
    hooks[:] = [each for each in hooks if each["name"] != "allocations.tidelock.dev"]
    await scene.rotator.renew()
    await scene.rotator.introduce()
    ((_, patch),) = scene.api.patches
    assert [each["name"] for each in patch["webhooks"]] == ["bindings.tidelock.dev", "pods.tidelock.dev"]


async def test_webhooks_that_are_up_to_date_are_not_written_again(scene: Scene) -> None:
    await scene.rotator.renew()
    await scene.rotator.introduce()
    await scene.rotator.introduce()
    assert len(scene.api.patches) == 1


@pytest.mark.parametrize("path", ["", "/admission", "/somewhere/else", "/admission/short"])
async def test_a_reverted_path_of_the_webhooks_is_restored(scene: Scene, path: str) -> None:
    await scene.rotator.renew()
    await scene.rotator.introduce()
    written = scene.api.paths
    scene.api.call_at(path)
    await scene.rotator.introduce()
    assert scene.api.paths == written


async def test_webhooks_with_an_address_keep_it(scene: Scene) -> None:
    webhooks = scene.api.objects[WEBHOOKS]["webhooks"]
    assert webhooks
    for each in webhooks:
        each["clientConfig"] = {"url": "https://127.0.0.1:8443"}
    await scene.rotator.renew()
    await scene.rotator.introduce()
    for each in scene.api.objects[WEBHOOKS]["webhooks"]:
        url, _, token = each["clientConfig"]["url"].rpartition("/")
        assert url == "https://127.0.0.1:8443/admission"
        assert scene.rotator.tokens.count(token)


async def test_a_token_stays_valid_until_each_api_server_has_its_successor(scene: Scene) -> None:
    await scene.rotator.renew()
    await scene.rotator.introduce()
    old = scene.token()
    scene.clock.time += LIFETIME_OF_TOKENS
    await scene.rotator.introduce()
    new = scene.token()
    assert new != old
    scene.clock.time += OVERLAP - 1
    assert [scene.rotator.tokens.count(each) for each in (old, new)] == [True, True]
    scene.clock.time += 1
    assert [scene.rotator.tokens.count(each) for each in (old, new)] == [False, True]


async def test_a_token_stays_valid_if_its_successor_was_not_written(scene: Scene) -> None:
    await scene.rotator.renew()
    await scene.rotator.introduce()
    old = scene.token()
    scene.clock.time += LIFETIME_OF_TOKENS
    scene.api.errors = [ServerError("out of order", status=500)]
    with pytest.raises(ServerError):
        await scene.rotator.introduce()
    scene.clock.time += 10 * OVERLAP
    assert scene.rotator.tokens.count(old)


async def test_a_new_leader_accepts_the_token_of_the_former_leader_for_a_while(scene: Scene) -> None:
    await scene.rotator.renew()
    await scene.rotator.introduce()
    old, second = scene.token(), scene.another()
    await second.renew()
    assert not second.tokens.count(old)
    await second.introduce()
    assert scene.token() != old
    assert [second.tokens.count(each) for each in (old, scene.token())] == [True, True]
    scene.clock.time += OVERLAP
    assert not second.tokens.count(old)
    # An expired token stays invalid, even if a client writes it back.
    scene.api.call_at(f"/admission/{old}")
    await second.introduce()
    assert scene.token() != old


async def test_a_late_write_of_a_former_leader_is_refused(scene: Scene) -> None:
    """With a late path the API server would call with a token that is no longer valid."""
    await scene.rotator.renew()
    read = scene.api.request

    async def slow(method: str, *args: object, **options: object) -> bytes:
        if method == "PATCH":
            scene.api.request = read  # type: ignore[method-assign]
            next_one = scene.another()
            await next_one.renew()
            await next_one.introduce()
        return await read(method, *args, **options)  # type: ignore[arg-type]

    scene.api.request = slow  # type: ignore[method-assign]
    with pytest.raises(Conflict):
        await scene.rotator.introduce()


async def test_without_a_certificate_the_webhooks_are_not_written(scene: Scene) -> None:
    scene.api.errors = [ServerError("out of order", status=500)]
    with pytest.raises(ServerError):
        await scene.rotator.renew()
    await scene.rotator.introduce()
    assert scene.api.patches == []


def test_client_certificates_are_requested_only_if_authorities_are_known(
    scene: Scene, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = []
    for file in (tmp_path / "none.crt", make_keys(tmp_path).authority):
        scene.rotator.trust(file)
        asked.append(scene.rotator.context.verify_mode)
    assert asked == [ssl.CERT_NONE, ssl.CERT_OPTIONAL]
    assert "no scheduler is known" in caplog.text


@pytest.mark.parametrize("content", ["", "no certificate", "é"])
def test_a_file_without_certificates_is_an_error(scene: Scene, tmp_path: Path, content: str) -> None:
    file = tmp_path / "clients.crt"
    file.write_text(content)
    with pytest.raises(ClientsError, match=f"certificates of schedulers {file}: .*, expected PEM"):
        scene.rotator.trust(file)


class Foreign(Scene):
    """A rotator that leaves the certificate to another component, which has written one."""

    def __init__(self) -> None:
        super().__init__()
        self.api.objects[SECRET]["data"] = self.certificate(90)

    def another(self) -> CertificateRotator:
        secret, names, keys = Key("system", "tls"), ("localhost",), AnswerKeys()
        return CertificateRotator(self.api, secret, names, self.clock, (BINDINGS,), keys, rotate=False)

    def certificate(self, days: float) -> dict[str, str]:
        """Return the fields that cert-manager writes, for a certificate with so many days left."""
        now = self.clock.now() + days * 86400 - CERTIFICATE_LIFETIME.total_seconds()
        made = renewed(None, ("localhost",), now)
        fields = {"ca.crt": made.authorities, "tls.crt": made.certificate, "tls.key": made.key}
        return {name: base64.b64encode(value).decode() for name, value in fields.items()}


async def test_a_certificate_of_another_component_is_served_and_not_changed() -> None:
    """With 90 days left, a certificate of the operator would already have a successor."""
    scene = Foreign()
    before = dict(scene.data)
    await scene.rotator.renew()
    assert scene.data == before | {name: scene.data[name] for name in (ANSWER_KEY, FORMER_ANSWER_KEY)}


async def test_the_webhooks_keep_the_authority_of_another_component() -> None:
    scene = Foreign()
    for each in scene.api.objects[WEBHOOKS]["webhooks"]:
        each["clientConfig"]["caBundle"] = "theirs"
    await scene.rotator.renew()
    await scene.rotator.introduce()
    assert scene.rotator.tokens.count(scene.token())
    assert scene.bundle() == "theirs"


async def test_a_renewed_certificate_of_another_component_is_served(caplog: pytest.LogCaptureFixture) -> None:
    scene = Foreign()
    caplog.set_level("INFO")
    await scene.rotator.renew()
    await scene.rotator.renew()
    scene.data.update(scene.certificate(180))
    await scene.rotator.renew()
    assert caplog.text.count("serving with a new certificate") == 2


@pytest.mark.parametrize("change", [{"tls.crt": ""}, {"tls.key": ""}, {"tls.crt": "AAAA"}])
async def test_a_missing_certificate_of_another_component_is_awaited(change: dict[str, str]) -> None:
    scene = Foreign()
    before = dict(scene.data)
    scene.data.update(change)
    with pytest.raises(CertificateError, match=r"tls\.crt and tls\.key"):
        await scene.rotator.renew()
    await scene.rotator.introduce()
    assert scene.api.patches == []
    scene.data.update(before)
    await scene.rotator.renew()


async def test_a_key_of_another_certificate_does_not_replace_the_served_pair() -> None:
    scene = Foreign()
    await scene.rotator.renew()
    good = dict(scene.data)
    scene.data["tls.key"] = scene.certificate(180)["tls.key"]
    with pytest.raises(CertificateError, match="can't be served"):
        await scene.rotator.renew()
    assert handshake(scene.rotator.context, base64.b64decode(good["ca.crt"]).decode())


def handshake(server: ssl.SSLContext, authority: str) -> bool:
    """Return whether a client that trusts an authority accepts the certificate of a server."""
    client = ssl.create_default_context(cadata=authority)
    client.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(back, there, server_hostname="localhost"),
        server.wrap_bio(there, back, server_side=True),
    )
    for _ in range(4):
        for end in ends:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ends[0].version() is not None


class Signing(Scene):
    """Rotators that keep the keys of answers too."""

    def __init__(self) -> None:
        self.keys: list[AnswerKeys] = []
        super().__init__()

    def another(self) -> CertificateRotator:
        self.keys.append(AnswerKeys())
        secret, names = Key("system", "tls"), ("localhost",)
        return CertificateRotator(self.api, secret, names, self.clock, (), self.keys[-1])

    def signed(self, number: int = 0) -> ObjectMeta:
        """Return an object whose creation one of the rotators has answered."""
        at, status = format_instant(self.clock.now()), {"phase": "Active"}
        annotations = self.keys[number].sign(Answer("n", 1, at, status, "shop", "web-0"))
        created = datetime.fromtimestamp(self.clock.now(), UTC)
        return ObjectMeta("web-0", "shop", annotations=annotations, creation_timestamp=created)


async def test_replicas_share_the_key_of_answers() -> None:
    scene = Signing()
    await scene.rotator.renew()
    await scene.another().renew()
    assert len(base64.b64decode(scene.data[ANSWER_KEY])) == 32
    assert scene.keys[1].read(scene.signed()) is not None


async def test_a_key_is_replaced_with_the_certificate_and_the_former_one_is_accepted() -> None:
    scene = Signing()
    await scene.rotator.renew()
    before, first = scene.signed(), scene.data[ANSWER_KEY]
    scene.clock.time += CERTIFICATE_LIFETIME.total_seconds() * 0.7
    await scene.rotator.renew()
    assert scene.data[FORMER_ANSWER_KEY] == first != scene.data[ANSWER_KEY]
    next_one = scene.another()
    await next_one.renew()
    assert [keys.read(before) is not None for keys in scene.keys] == [True, True]


async def test_a_key_that_was_removed_from_the_secret_is_replaced_and_still_accepted() -> None:
    scene = Signing()
    await scene.rotator.renew()
    before, first = scene.signed(), scene.data.pop(ANSWER_KEY)
    await scene.rotator.renew()
    assert scene.data[FORMER_ANSWER_KEY] == first != scene.data[ANSWER_KEY]
    await scene.another().renew()
    assert [keys.read(before) is not None for keys in scene.keys] == [True, True]


@pytest.mark.parametrize("stored", ["short", "%", ""])
async def test_a_bad_key_is_replaced(stored: str) -> None:
    scene = Signing()
    await scene.rotator.renew()
    scene.data[ANSWER_KEY] = stored
    next_one = scene.another()
    await next_one.renew()
    assert len(base64.b64decode(scene.data[ANSWER_KEY])) == 32
    assert scene.keys[1].read(scene.signed(1)) is not None


async def test_without_answers_the_secret_has_no_key(scene: Scene) -> None:
    await scene.rotator.renew()
    assert ANSWER_KEY not in scene.data


async def test_the_webhook_of_creations_gets_its_own_path() -> None:
    api, clock = ClusterStore(), FakeClock()
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/tidelock"
    service = {"service": {"name": "tidelock-binders"}}
    hooks = [{"name": name, "clientConfig": service} for name in CREATIONS.webhooks]
    api.objects[path] = {"metadata": {"name": "tidelock", "resourceVersion": "1"}, "webhooks": hooks}
    rotator = CertificateRotator(api, Key("system", "tls"), ("localhost",), clock, (BINDINGS, CREATIONS))
    await rotator.renew()
    await rotator.introduce()
    (bindings, _), (creations, patch) = api.patches
    assert "/validatingwebhookconfigurations/" in bindings
    assert creations == path
    assert {each["name"] for each in patch["webhooks"]} == set(CREATIONS.webhooks)
    (called,) = {each["clientConfig"]["service"]["path"] for each in patch["webhooks"]}
    token = TOKEN_PATH.search(called)
    assert called.endswith("/creations")
    assert token is not None
    assert rotator.tokens.count(token[1])
    assert api.paths == {called.removesuffix("/creations")}
