"""Certificates: made once, renewed in time, and trusted throughout."""

import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509

from builders import NOW
from tidelock.binders.certificates import AUTHORITY_LIFETIME, LIFETIME, Certificates, renewed

NAMES = ("tidelock.tidelock-system.svc", "127.0.0.1")
LIFE, AGE = LIFETIME.total_seconds(), AUTHORITY_LIFETIME.total_seconds()


@pytest.fixture(scope="module")
def made() -> Certificates:
    return renewed(None, NAMES, NOW)


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


def test_openssl_takes_key_and_certificate_for_a_pair(made: Certificates, tmp_path: Path) -> None:
    chain = tmp_path / "tls.pem"
    chain.write_bytes(made.key + made.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    context.load_verify_locations(cadata=made.authorities.decode())


def test_it_stays_for_two_thirds_of_its_life(made: Certificates) -> None:
    assert renewed(made, NAMES, NOW + LIFE * 0.66) is made


def test_it_is_renewed_in_the_last_third_by_the_same_authority(made: Certificates) -> None:
    newer = renewed(made, NAMES, NOW + LIFE * 0.67)
    assert newer.certificate != made.certificate
    assert (newer.authorities, newer.authority_key) == (made.authorities, made.authority_key)
    certificate(newer).verify_directly_issued_by(authorities(made)[0])


def test_other_names_need_another_certificate(made: Certificates) -> None:
    newer = renewed(made, ("localhost",), NOW)
    assert newer.certificate != made.certificate
    assert newer.authorities == made.authorities


def test_an_old_authority_is_succeeded_and_trusted_until_its_end(made: Certificates) -> None:
    late = NOW + AGE * 0.67
    newer = renewed(made, NAMES, late)
    first, second = authorities(newer)
    assert second == authorities(made)[0]
    certificate(newer).verify_directly_issued_by(first)
    assert newer.authority_key != made.authority_key
    after = renewed(newer, NAMES, NOW + AGE + 1)
    assert authorities(after) == [first]


@pytest.mark.parametrize("field", ["authorities", "authority_key"])
def test_what_is_kept_and_can_not_be_read_is_made_anew(made: Certificates, field: str) -> None:
    assert renewed(replace(made, **{field: b"garbage"}), NAMES, NOW).authorities != made.authorities


@pytest.mark.parametrize("field", ["certificate", "key"])
def test_a_damaged_certificate_is_signed_anew(made: Certificates, field: str) -> None:
    newer = renewed(replace(made, **{field: b"garbage"}), NAMES, NOW)
    assert newer.authorities == made.authorities
    assert newer.certificate != made.certificate


def test_a_certificate_of_another_pair_is_signed_anew(made: Certificates) -> None:
    other = renewed(None, NAMES, NOW)
    mixed = replace(made, certificate=other.certificate, key=other.key)
    assert renewed(mixed, NAMES, NOW).certificate not in (made.certificate, other.certificate)


def test_the_key_of_another_authority_is_no_use(made: Certificates) -> None:
    other = renewed(None, NAMES, NOW)
    assert (
        renewed(replace(made, authority_key=other.authority_key), NAMES, NOW).authorities != made.authorities
    )
