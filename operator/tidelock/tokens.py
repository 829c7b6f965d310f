"""Bearer tokens in files, such as those of a mounted Secret."""

from pathlib import Path

from tidelock.tcp_server import ServingError


class TokenError(ServingError):
    """The token for scrapes can't be read from its file."""


def read_token(path: Path) -> bytes:
    """Read the token of scrapes. Raises TokenError if the file holds none."""
    try:
        token = path.read_bytes().strip()
    except OSError as error:
        raise TokenError(f"metrics token file {path}: {error.strerror or error}") from error
    if not token:
        raise TokenError(f"metrics token file {path}: is empty, expected a token")
    return token
