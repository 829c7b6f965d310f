"""The certificate that Tidelock serves with: made by an authority of its own, renewed long before its end.

The authority's key is kept beside, so that renewing the certificate changes nothing for those who trust it.
When the authority itself grows old, its successor is trusted beside it until its end.
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

AUTHORITY_LIFETIME = dt.timedelta(days=3650)
LIFETIME = dt.timedelta(days=90)
_CLOCK_SKEW = dt.timedelta(hours=1)
# Renewed when less than this part of the lifetime is left.
_RENEWAL = 1 / 3


@dataclass(frozen=True, slots=True)
class Certificates:
    """What is kept, each in PEM.

    Attributes:
        authorities: certificates of those that clients are to trust, the one that signs first.
        authority_key: its private key.
        certificate: what is served with.
        key: its private key.

    """

    authorities: bytes
    authority_key: bytes
    certificate: bytes
    key: bytes


def renewed(known: Certificates | None, names: Sequence[str], now: float) -> Certificates:
    """Give certificates that are good for a while: those that are known, or newer ones in their place.

    Args:
        known: what there is; None, or what can't be read, starts anew.
        names: DNS names and addresses under which clients connect.
        now: seconds since the epoch.

    """
    instant = dt.datetime.fromtimestamp(now, dt.UTC)
    try:
        authority = _Authority.read(known, instant) if known is not None else None
    except ValueError:
        authority = known = None
    if authority is None or _old(authority.certificate, AUTHORITY_LIFETIME, instant):
        authority = _Authority.make(instant, authority.trusted if authority is not None else ())
        known = None
    if known is not None and _serves(known, names, instant):
        return known
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = authority.sign(key, names, instant)
    return Certificates(
        b"".join(map(_certificate_pem, authority.trusted)),
        _key_pem(authority.key),
        _certificate_pem(certificate),
        _key_pem(key),
    )


@dataclass(frozen=True, slots=True)
class _Authority:
    """An authority and, behind it, those that it succeeds."""

    key: ec.EllipticCurvePrivateKey
    trusted: tuple[x509.Certificate, ...]

    @property
    def certificate(self) -> x509.Certificate:
        return self.trusted[0]

    @classmethod
    def read(cls, known: Certificates, now: dt.datetime) -> "_Authority":
        """Read an authority; raises ValueError if that can't be done."""
        key = serialization.load_pem_private_key(known.authority_key, None)
        first, *others = x509.load_pem_x509_certificates(known.authorities)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != first.public_key():
            raise ValueError("the key is not the authority's")
        return cls(key, (first, *(each for each in others if each.not_valid_after_utc > now)))

    @classmethod
    def make(cls, now: dt.datetime, trusted: tuple[x509.Certificate, ...]) -> "_Authority":
        """Make an authority; those before it stay trusted."""
        key = ec.generate_private_key(ec.SECP256R1())
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
        certificate = (
            _builder(name, name, key.public_key(), now, AUTHORITY_LIFETIME)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(key, (certificate, *trusted))

    def sign(
        self, key: ec.EllipticCurvePrivateKey, names: Sequence[str], now: dt.datetime
    ) -> x509.Certificate:
        """Make the certificate of a server with these names."""
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        return (
            _builder(_name("tidelock"), self.certificate.subject, key.public_key(), now, LIFETIME)
            .add_extension(issuer, critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName(_alternatives(names)), critical=False)
            .sign(self.key, hashes.SHA256())
        )


def _serves(known: Certificates, names: Sequence[str], now: dt.datetime) -> bool:
    """Whether a certificate is for these names, belongs to its key and is not old."""
    try:
        certificate = x509.load_pem_x509_certificate(known.certificate)
        key = serialization.load_pem_private_key(known.key, None)
        stated = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificates(known.authorities)[0])
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    own = certificate.public_key() == key.public_key()
    return own and list(stated) == _alternatives(names) and not _old(certificate, LIFETIME, now)


def _old(certificate: x509.Certificate, lifetime: dt.timedelta, now: dt.datetime) -> bool:
    return certificate.not_valid_after_utc - now < lifetime * _RENEWAL


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
    lifetime: dt.timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lifetime)
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
