"""The keys of a throwaway control plane, from a new certificate authority per cluster that is not stored."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = dt.timedelta(days=365)
_CLOCK_SKEW = dt.timedelta(hours=1)


@dataclass(frozen=True)
class Keys:
    """The paths of the PEM files of one control plane."""

    authority: Path
    server_certificate: Path
    server_key: Path
    admin_certificate: Path
    admin_key: Path
    service_account_key: Path

    @classmethod
    def under(cls, directory: Path) -> "Keys":
        """Return the paths below a directory."""
        return cls(
            authority=directory / "ca.crt",
            server_certificate=directory / "server.crt",
            server_key=directory / "server.key",
            admin_certificate=directory / "admin.crt",
            admin_key=directory / "admin.key",
            service_account_key=directory / "service-account.key",
        )


def make_keys(directory: Path) -> Keys:
    """Write an authority's certificate, and the signed ones of a loopback server and a cluster admin."""
    directory.mkdir(parents=True, exist_ok=True)
    keys = Keys.under(directory)
    authority = _Authority()
    keys.authority.write_bytes(_certificate_pem(authority.certificate))

    server_key = _new_key(keys.server_key)
    addresses = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    server = authority.sign(
        server_key,
        _name("tidelock-dev"),
        ExtendedKeyUsageOID.SERVER_AUTH,
        x509.SubjectAlternativeName(addresses),
    )
    keys.server_certificate.write_bytes(_certificate_pem(server))

    admin_key = _new_key(keys.admin_key)
    admin = authority.sign(admin_key, _name("admin", "system:masters"), ExtendedKeyUsageOID.CLIENT_AUTH)
    keys.admin_certificate.write_bytes(_certificate_pem(admin))

    _new_key(keys.service_account_key)
    return keys


class _Authority:
    """A certificate authority that exists as long as this object, as its key is never written."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("tidelock-dev-ca")
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
        self.certificate = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def sign(
        self,
        key: ec.EllipticCurvePrivateKey,
        subject: x509.Name,
        purpose: x509.ObjectIdentifier,
        *extensions: x509.ExtensionType,
    ) -> x509.Certificate:
        builder = _builder(subject, self._name, key)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        for extension in (issuer, x509.ExtendedKeyUsage([purpose]), *extensions):
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    public_key = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _name(common_name: str, organization: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization is not None:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _new_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Create a private key and write it in the one encoding that every Kubernetes program reads (SEC 1)."""
    key = ec.generate_private_key(ec.SECP256R1())
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return key


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
