"""The certificate that Tidelock serves with, replaced long before its end by one that is trusted by then.

Each has an authority of its own, whose key is forgotten as soon as it has signed: nobody can steal it to make
certificates that the API server trusts. So the authorities change with the certificates. A successor is made,
and its authority told, long before it serves.
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
# A successor is made, and its authority trusted, when less than this part of the lifetime is left. It serves
# when less than the second part is left: between these, copies of the authorities elsewhere can be replaced.
_SUCCESSION = 1 / 3
_CHANGE = 1 / 6


@dataclass(frozen=True, slots=True)
class Certificates:
    """What is kept, each in PEM.

    Attributes:
        authorities: certificates of those that clients are to trust, that of the serving certificate first.
        certificate: what is served with.
        key: its private key.
        next_certificate: what will be served with; empty until it is made.
        next_key: its private key.

    """

    authorities: bytes
    certificate: bytes
    key: bytes
    next_certificate: bytes = b""
    next_key: bytes = b""


def renewed(known: Certificates | None, names: Sequence[str], now: float) -> Certificates:
    """Return certificates that are good for a while: those that are known, or newer ones in their place.

    Args:
        known: what there is; None, or what can't be read, starts anew.
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
    """Make a certificate of an authority of its own, whose key is forgotten here."""
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
    """Return how long a certificate is good for these names, with its key, by an authority; None if not."""
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        own = certificate.public_key() == serialization.load_pem_private_key(key, None).public_key()
        stated = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        _issuer(authorities, pem)
    except (ValueError, TypeError, x509.ExtensionNotFound):  # a TypeError is what an encrypted key ends in
        return None
    left = certificate.not_valid_after_utc - now
    good = own and list(stated) == _alternatives(names) and left > dt.timedelta()
    return left if good else None


def _issuer(authorities: bytes, pem: bytes) -> x509.Certificate:
    """Find the authority of a certificate; raises ValueError or TypeError if there is none."""
    certificate = x509.load_pem_x509_certificate(pem)
    for each in x509.load_pem_x509_certificates(authorities):
        try:
            certificate.verify_directly_issued_by(each)
        except (InvalidSignature, ValueError):  # a ValueError if its name is another
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
