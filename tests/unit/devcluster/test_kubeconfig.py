import base64
import stat
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from devcluster.errors import DevClusterError
from devcluster.keys import Keys, make_keys
from devcluster.kubeconfig import server_url, write_kubeconfig

URL = "https://127.0.0.1:20001"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return make_keys(tmp_path_factory.mktemp("keys"))


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_authority_signs_an_admin_and_a_loopback_server(keys: Keys) -> None:
    authority, server, admin = map(
        certificate, (keys.authority, keys.server_certificate, keys.admin_certificate)
    )

    server.verify_directly_issued_by(authority)
    admin.verify_directly_issued_by(authority)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert [each.value for each in admin.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == [
        "system:masters"
    ]


def test_private_keys_are_readable_only_by_their_owner(keys: Keys) -> None:
    for path in (keys.server_key, keys.admin_key, keys.service_account_key):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_kubeconfig_has_all_credentials_of_an_admin(keys: Keys, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, URL, keys)

    content = yaml.safe_load(path.read_text())
    [cluster], [user], [context] = content["clusters"], content["users"], content["contexts"]
    assert cluster["cluster"]["server"] == URL
    assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == keys.authority.read_bytes()
    assert base64.b64decode(user["user"]["client-certificate-data"]) == keys.admin_certificate.read_bytes()
    assert base64.b64decode(user["user"]["client-key-data"]) == keys.admin_key.read_bytes()
    assert context["context"] == {"cluster": cluster["name"], "user": user["name"]}
    assert content["current-context"] == context["name"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_server_is_taken_from_the_current_context(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(
        """
        current-context: b
        contexts:
        - {name: a, context: {cluster: one}}
        - {name: b, context: {cluster: two}}
        clusters:
        - {name: one, cluster: {server: "https://one"}}
        - {name: two, cluster: {server: "https://two"}}
        """
    )
    assert server_url(path) == "https://two"


@pytest.mark.parametrize("content", ["", "current-context: a\ncontexts: []\n", "a: [", "text"])
def test_invalid_kubeconfig_is_an_error_that_names_the_file(tmp_path: Path, content: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(DevClusterError, match=r"kubeconfig is not a usable kubeconfig"):
        server_url(path)
