"""The serving certificate, which is replaced long before its end by one that is already trusted.

Each certificate has a separate authority, and the authority's key is forgotten as soon as it has signed. So
it can't be stolen to make certificates that the API server trusts. The authorities therefore change with the
certificates. A successor is created, and its authority published, long before it serves.
"""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CERTIFICATE_LIFETIME = dt.timedelta(days=365)
_CLOCK_SKEW = dt.timedelta(hours=1)
# A successor is created, and its authority trusted, when less than this part of the lifetime is left. It
# serves when less than the second part is left. In between, copies of the authorities elsewhere can be
# replaced.
_SUCCESSION = 1 / 3
_CHANGE = 1 / 6


@dataclass(frozen=True, slots=True)
class Certificates:
    """The stored certificates and keys, each in PEM.

    Attributes:
        authorities: certificates of the authorities that clients must trust, that of the serving certificate
            first.
        certificate: the serving certificate.
        key: its private key.
        next_certificate: the next serving certificate, or empty until it is created.
        next_key: its private key.

    """

    authorities: bytes
    certificate: bytes
    key: bytes
    next_certificate: bytes = b""
    next_key: bytes = b""


def renewed(known: Certificates | None, names: Sequence[str], now: float) -> Certificates:
    """Return certificates with sufficient validity: the known ones, or new ones in their place.

    Args:
        known: the stored ones, or None or unreadable ones are replaced.
        names: DNS names and addresses under which clients connect.
        now: seconds since the epoch.

    """
    instant = dt.datetime.fromtimestamp(now, dt.UTC)
    left = _left(known.authorities, known.certificate, known.key, names, instant) if known else None
    if known is None or left is None:
        return _issued(names, instant)
    follows = _left(known.authorities, known.next_certificate, known.next_key, names, instant) is not None
    if left < CERTIFICATE_LIFETIME * _CHANGE and follows:
        authority = _issuer(known.authorities, known.next_certificate)
        return Certificates(_certificate_pem(authority), known.next_certificate, known.next_key)
    if left < CERTIFICATE_LIFETIME * _SUCCESSION and not follows:
        made = _issued(names, instant)
        own = _certificate_pem(_issuer(known.authorities, known.certificate))
        return Certificates(own + made.authorities, known.certificate, known.key, made.certificate, made.key)
    return known


def _issued(names: Sequence[str], now: dt.datetime) -> Certificates:
    """Return a certificate of a new authority, without the authority's key."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    name = _name(f"tidelock-ca-{now:%Y%m%d%H%M%S}")
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    authority = (
        _builder(name, name, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    certificate = (
        _builder(_name("tidelock"), name, key.public_key(), now)
        .add_extension(issuer, critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(_alternatives(names)), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return Certificates(_certificate_pem(authority), _certificate_pem(certificate), _key_pem(key))


def _left(
    authorities: bytes, pem: bytes, key: bytes, names: Sequence[str], now: dt.datetime
) -> dt.timedelta | None:
    """Return how long a certificate by an authority is valid for these names with its key, or None."""
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        own = certificate.public_key() == serialization.load_pem_private_key(key, None).public_key()
        stated = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        _issuer(authorities, pem)
    except (ValueError, TypeError, x509.ExtensionNotFound):  # an encrypted key leads to a TypeError
        return None
    left = certificate.not_valid_after_utc - now
    good = own and list(stated) == _alternatives(names) and left > dt.timedelta()
    return left if good else None


def _issuer(authorities: bytes, pem: bytes) -> x509.Certificate:
    """Return the authority of a certificate, or raise ValueError or TypeError if there is none."""
    certificate = x509.load_pem_x509_certificate(pem)
    for each in x509.load_pem_x509_certificates(authorities):
        try:
            certificate.verify_directly_issued_by(each)
        except (InvalidSignature, ValueError):  # a ValueError for another name
            continue
        return each
    raise ValueError("no authority has issued the certificate")


def _alternatives(names: Sequence[str]) -> list[x509.GeneralName]:
    return [_alternative(name) for name in names]


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: dt.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + CERTIFICATE_LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
