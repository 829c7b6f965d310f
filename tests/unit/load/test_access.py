import base64
import ssl
from pathlib import Path

import pytest

from devcluster.keys import make_keys
from tidelock.kube.errors import Forbidden
from tidelock.load.access import SecretAccess, folder_access
from tidelock.load.source import FailureReason, SourceError
from tidelock.model.api.water_level import SecretReference
from unit.load.patches import PatchApi

PATH = "/api/v1/namespaces/monitoring/secrets/login"
TOKEN, OTHER_TOKEN, PASSWORD = "abc.def", "ghi.jkl", "pa:ss"
REFERENCE = SecretReference(namespace="monitoring", name="login")


def holding(**data: str) -> PatchApi:
    api = PatchApi()
    encoded = {key.replace("_", "."): base64.b64encode(text.encode()).decode() for key, text in data.items()}
    api.objects[PATH] = [{"data": encoded}]
    return api


async def test_a_token_is_sent_as_a_bearer_token() -> None:
    access = await SecretAccess(holding(token=f"{TOKEN}\n"), REFERENCE)()

    assert access == ({"Authorization": f"Bearer {TOKEN}"}, None)


async def test_a_user_and_a_password_are_sent_as_basic_credentials() -> None:
    access = await SecretAccess(holding(username="me", password=PASSWORD), REFERENCE)()

    assert access.headers == {
        "Authorization": "Basic " + base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    }


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_keys(tmp_path_factory.mktemp("keys")).authority.read_text()


async def test_a_secret_is_read_again_and_its_authorities_are_loaded_when_they_change(
    certificate: str,
) -> None:
    api = holding(token=TOKEN, ca_crt=certificate)
    source = SecretAccess(api, REFERENCE)
    first = await source()
    again = await source()
    api.objects = holding(token=OTHER_TOKEN).objects
    last = await source()

    assert isinstance(first.tls, ssl.SSLContext)
    assert again.tls is first.tls
    assert last == ({"Authorization": f"Bearer {OTHER_TOKEN}"}, None)


async def test_authorities_without_credentials_are_enough(certificate: str) -> None:
    access = await SecretAccess(holding(ca_crt=certificate), REFERENCE)()

    assert access.headers == {}
    assert access.tls is not None


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({}, "expected the key token, or username and password, or ca.crt"),
        ({"username": "me"}, "expected the key token"),
        ({"token": "a", "username": "me", "password": "b"}, "expected one of the two"),
        ({"token": "a\nb"}, "has characters that no header may have"),
        ({"token": "a", "ca_crt": "no certificate"}, "monitoring/login"),
    ],
)
async def test_an_unusable_secret_is_an_error(data: dict[str, str], problem: str) -> None:
    with pytest.raises(SourceError, match=problem) as caught:
        await SecretAccess(holding(**data), REFERENCE)()

    assert caught.value.reason is FailureReason.UNAUTHENTICATED


async def test_a_forbidden_secret_is_an_error_that_names_it() -> None:
    api = PatchApi()
    api.faults.append(Forbidden("no", status=403))
    with pytest.raises(SourceError, match="Secret monitoring/login: 403: no"):
        await SecretAccess(api, REFERENCE)()


def test_a_folder_has_the_credentials_of_a_secret(tmp_path: Path, certificate: str) -> None:
    (tmp_path / "username").write_text("me\n")
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    (tmp_path / "ca.crt").write_text(certificate)

    access = folder_access(tmp_path)

    assert access.headers == {
        "Authorization": "Basic " + base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    }
    assert isinstance(access.tls, ssl.SSLContext)


def test_a_folder_without_credentials_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="expected the key token") as refused:
        folder_access(tmp_path)

    assert refused.value.reason is FailureReason.UNAUTHENTICATED
