"""The errors of the credentials of other binders and of the server for them."""

from tidelock.kube.errors import ApiError


class ClientsError(Exception):
    """The certificates of schedulers can't be used."""


class CertificateError(ApiError):
    """The Secret has no certificate that can be served, and another component must write one."""
