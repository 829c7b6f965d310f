"""Certificates are created once, replaced in time, and trusted throughout."""

import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from builders import NOW
from tidelock.binders.certificates import CERTIFICATE_LIFETIME, Certificates, renewed

NAMES = ("tidelock.tidelock-system.svc", "127.0.0.1")
LIFE = CERTIFICATE_LIFETIME.total_seconds()


@pytest.fixture(scope="module")
def made() -> Certificates:
    return renewed(None, NAMES, NOW)


@pytest.fixture(scope="module")
def followed(made: Certificates) -> Certificates:
    return renewed(made, NAMES, NOW + LIFE * 0.67)


def certificate(made: Certificates) -> x509.Certificate:
    return x509.load_pem_x509_certificate(made.certificate)


def authorities(made: Certificates) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(made.authorities)


def test_the_certificate_is_for_the_names_and_signed_by_the_authority(made: Certificates) -> None:
    stated = certificate(made).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert stated.get_values_for_type(x509.DNSName) == ["tidelock.tidelock-system.svc"]
    assert [str(each) for each in stated.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    (authority,) = authorities(made)
    certificate(made).verify_directly_issued_by(authority)


def test_openssl_accepts_key_and_certificate_as_a_pair(made: Certificates, tmp_path: Path) -> None:
    chain = tmp_path / "tls.pem"
    chain.write_bytes(made.key + made.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    context.load_verify_locations(cadata=made.authorities.decode())


def test_the_key_of_the_authority_is_not_stored(made: Certificates) -> None:
    """With that key a stolen token of the operator could create certificates for ten years."""
    (authority,) = authorities(made)
    kept = [load_pem_private_key(made.key, None)]
    assert authority.public_key() not in [key.public_key() for key in kept]


def test_a_certificate_stays_for_two_thirds_of_its_lifetime(made: Certificates) -> None:
    assert renewed(made, NAMES, NOW + LIFE * 0.66) is made


def test_the_successor_is_trusted_long_before_it_serves(made: Certificates, followed: Certificates) -> None:
    assert (followed.certificate, followed.key) == (made.certificate, made.key)
    first, second = authorities(followed)
    assert first == authorities(made)[0]
    x509.load_pem_x509_certificate(followed.next_certificate).verify_directly_issued_by(second)
    assert renewed(followed, NAMES, NOW + LIFE * 0.83) is followed


def test_the_successor_serves_before_the_certificate_ends(followed: Certificates) -> None:
    newer = renewed(followed, NAMES, NOW + LIFE * 0.84)
    assert (newer.certificate, newer.key) == (followed.next_certificate, followed.next_key)
    assert authorities(newer) == authorities(followed)[1:]
    assert (newer.next_certificate, newer.next_key) == (b"", b"")
    assert renewed(newer, NAMES, NOW + LIFE * 0.84) is newer


def test_a_late_successor_is_still_published_before_it_serves(made: Certificates) -> None:
    late = renewed(made, NAMES, NOW + LIFE * 0.99)
    assert late.certificate == made.certificate
    assert renewed(late, NAMES, NOW + LIFE * 0.99).certificate == late.next_certificate


def test_an_expired_certificate_is_replaced_at_once(made: Certificates, followed: Certificates) -> None:
    for each in (made, followed):
        newer = renewed(each, NAMES, NOW + LIFE * 1.01)
        assert len(authorities(newer)) == 1
        certificate(newer).verify_directly_issued_by(authorities(newer)[0])
        assert newer.certificate != made.certificate


def test_other_names_need_another_certificate(made: Certificates) -> None:
    assert renewed(made, ("localhost",), NOW).certificate != made.certificate


@pytest.mark.parametrize("field", ["authorities", "certificate", "key"])
def test_unreadable_stored_certificates_are_replaced(made: Certificates, field: str) -> None:
    newer = renewed(replace(made, **{field: b"garbage"}), NAMES, NOW)
    assert newer.authorities != made.authorities
    certificate(newer).verify_directly_issued_by(authorities(newer)[0])


@pytest.mark.parametrize("field", ["next_certificate", "next_key"])
def test_a_damaged_successor_is_replaced_and_never_serves(followed: Certificates, field: str) -> None:
    damaged = replace(followed, **{field: b"garbage"})
    newer = renewed(damaged, NAMES, NOW + LIFE * 0.9)
    assert newer.certificate == followed.certificate
    assert newer.next_certificate not in (b"", b"garbage", followed.next_certificate)
    assert len(authorities(newer)) == 2


def test_an_encrypted_key_is_replaced(made: Certificates) -> None:
    key = load_pem_private_key(made.key, None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    assert renewed(replace(made, key=encrypted), NAMES, NOW).key not in (made.key, encrypted)


def test_a_certificate_of_another_authority_is_replaced(made: Certificates) -> None:
    other = renewed(None, NAMES, NOW)
    mixed = replace(made, certificate=other.certificate, key=other.key)
    assert renewed(mixed, NAMES, NOW).certificate not in (made.certificate, other.certificate)
