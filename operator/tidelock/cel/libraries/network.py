"""IP addresses, networks in CIDR notation, and URLs.

Addresses and networks are read as Go's `netip` reads them. URLs follow Go's `net/url`, as Kubernetes does.
"""

import re
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_interface,
)
from urllib.parse import quote, unquote

from tidelock.cel.errors import EvaluationError, shown
from tidelock.cel.functions import Overload, function, method
from tidelock.cel.libraries.amounts import is_valid
from tidelock.cel.limits import check_text
from tidelock.cel.values import ELEMENT, Url

Address = IPv4Address | IPv6Address
Network = IPv4Interface | IPv6Interface

_LONGEST_ADDRESS = 50
_PREFIX_LENGTH = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ASCII_ESCAPE = re.compile(r"%[0-7]")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
_HOST = re.compile(r"(\[[^\]\[]*\]|[^\[\]:]*)(?::([0-9]*))?", re.ASCII)
_HOST_CHARACTERS = re.compile(r"""[A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>"%\x80-\U0010ffff]*""")
_PATH = re.compile(r"(?:[A-Za-z0-9\-_.~!$&'()*+,;=:@/\[\]]|%[0-9A-Fa-f]{2})*", re.ASCII)
# The cost of a parameter of a URL: a key and a list of its values.
_QUERY_PAIR = 3 * ELEMENT
_LINK_LOCAL_MULTICAST = IPv4Network("224.0.0.0/24")


def _address(text: str) -> Address:
    try:
        address = ip_address(text[:_LONGEST_ADDRESS])
    except ValueError:
        raise EvaluationError(f"IP Address {text[:_LONGEST_ADDRESS]!r} parse error") from None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise EvaluationError(f"IP address {shown(text)!r} with zone value is not allowed")
        if address.ipv4_mapped is not None:
            raise EvaluationError(f"IPv4-mapped IPv6 address {shown(text)!r} is not allowed")
    return address


def _network(text: str) -> Network:
    address, _, length = text[: _LONGEST_ADDRESS + 1].rpartition("/")
    bits = int(length) if _PREFIX_LENGTH.fullmatch(length) else -1
    try:
        return ip_interface((str(_address(address)), bits))
    except (ValueError, EvaluationError):
        raise EvaluationError("network address parse error during conversion from string") from None


def _contains_address(network: Network, address: Address | str) -> bool:
    return (_address(address) if isinstance(address, str) else address) in network.network


def _contains_network(network: Network, other: Network | str) -> bool:
    outer, inner = network.network, (_network(other) if isinstance(other, str) else other).network
    if isinstance(outer, IPv4Network) and isinstance(inner, IPv4Network):
        return inner.subnet_of(outer)
    return isinstance(outer, IPv6Network) and isinstance(inner, IPv6Network) and inner.subnet_of(outer)


def _is_link_local_multicast(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address in _LINK_LOCAL_MULTICAST
    return int(address) >> 112 & 0xFF0F == 0xFF02  # noqa: PLR2004 -- ff02::/16, with any flags


def _is_global_unicast(address: Address) -> bool:
    if address == IPv4Address("255.255.255.255") or address.is_unspecified:
        return False
    return not (address.is_loopback or address.is_multicast or address.is_link_local)


def _bare(network: Network) -> Address:
    return ip_address(int(network)) if isinstance(network, IPv4Interface) else IPv6Address(int(network))


def _text(network: Network) -> str:
    return f"{_bare(network)}/{network.network.prefixlen}"


def _invalid(text: str) -> EvaluationError:
    return EvaluationError(f"URL parse error during conversion from string: {shown(text)!r}")


def is_url(text: str) -> bool:
    """Return whether a text is an absolute URL or an absolute path."""
    try:
        _parse(text, is_request=True)
    except EvaluationError:
        return False
    return True


def _url(text: str) -> Url:
    if not is_url(text):
        raise _invalid(text)
    return _parse(text, is_request=False)


def _parse(text: str, *, is_request: bool) -> Url:
    """Parse a URL. That of a request is absolute, and has no fragment."""
    if _CONTROL.search(text) or not text or text[0] == ":":
        raise _invalid(text)
    rest, _, fragment = (text, "", "") if is_request else text.partition("#")
    if _BAD_ESCAPE.search(fragment):
        raise _invalid(text)
    found = _SCHEME.match(rest)
    scheme = found[1].lower() if found else ""
    rest = rest[found.end() :] if found else rest
    rest, _, query = rest.partition("?")
    host = ""
    if not rest.startswith("/"):
        if is_request and not scheme and text != "*":
            raise _invalid(text)
        if scheme:
            return Url(scheme, "", "", "", "", query, text)
    elif rest.startswith("//") and (scheme or not (is_request or rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _host(authority), slash + path
    if _BAD_ESCAPE.search(rest):
        raise _invalid(text)
    path = (
        rest
        if _PATH.fullmatch(rest)
        else quote(unquote(rest, errors="surrogateescape"), "$&+,/:;=@~", errors="surrogateescape")
    )
    hostname, _, port = host.rpartition(":") if re.search(r":[0-9]*$", host) else (host, "", "")
    return Url(scheme, host, hostname.removeprefix("[").removesuffix("]"), port, path, query, text)


def _host(authority: str) -> str:
    """Return the host and the port of an authority, without a user. Raises EvaluationError."""
    user, _, host = authority.rpartition("@")
    found = _HOST.fullmatch(host)
    valid = found is not None and _USER.fullmatch(user) and _HOST_CHARACTERS.fullmatch(host)
    if not valid or _BAD_ESCAPE.search(user) or _BAD_ESCAPE.search(host):
        raise _invalid(authority)
    if "%" in host:
        if not host.startswith("[") and _ASCII_ESCAPE.search(host):
            raise _invalid(authority)
        return unquote(host)
    return host


def _query(url: Url) -> dict[object, object]:
    """Return the values of each parameter. A pair that can't be decoded is left out."""
    values: dict[object, list[object]] = {}
    for pair in url.query.split("&"):
        key, _, value = pair.partition("=")
        if pair and ";" not in pair and not _BAD_ESCAPE.search(pair):
            values.setdefault(unquote(key.replace("+", " ")), []).append(unquote(value.replace("+", " ")))
    return dict(values)


def _cost(text: str) -> int:
    return 50 + len(text)


def _escaped_path(url: Url) -> str:
    check_text(len(url.escaped_path))
    return url.escaped_path


def _query_cost(url: Url) -> int:
    return _QUERY_PAIR * (1 + url.query.count("&")) + len(url.query)


def _contained_cost(_network: Network, other: str) -> int:
    return _cost(other)


OVERLOADS: tuple[Overload, ...] = (
    function("ip", "string -> IP", _address, _cost),
    function("isIP", "string -> bool", is_valid(_address), _cost),
    function("ip.isCanonical", "string -> bool", lambda text: str(_address(text)) == text, _cost),
    function("string", "IP -> string", str, lambda _address: 50),
    method("family", "IP -> int", lambda address: address.version),
    method("isUnspecified", "IP -> bool", lambda address: address.is_unspecified),
    method("isLoopback", "IP -> bool", lambda address: address.is_loopback),
    method("isLinkLocalMulticast", "IP -> bool", _is_link_local_multicast),
    method("isLinkLocalUnicast", "IP -> bool", lambda address: address.is_link_local),
    method("isGlobalUnicast", "IP -> bool", _is_global_unicast),
    function("cidr", "string -> CIDR", _network, _cost),
    function("isCIDR", "string -> bool", is_valid(_network), _cost),
    function("string", "CIDR -> string", _text, lambda _network: 100),
    method("containsIP", "CIDR, string -> bool", _contains_address, _contained_cost),
    method("containsIP", "CIDR, IP -> bool", _contains_address),
    method("containsCIDR", "CIDR, string -> bool", _contains_network, _contained_cost),
    method("containsCIDR", "CIDR, CIDR -> bool", _contains_network),
    method("ip", "CIDR -> IP", _bare),
    method("masked", "CIDR -> CIDR", lambda network: ip_interface(network.network), lambda _network: 200),
    method("prefixLength", "CIDR -> int", lambda network: network.network.prefixlen),
    function("url", "string -> URL", _url, _cost),
    function("isURL", "string -> bool", is_url, _cost),
    method("getScheme", "URL -> string", lambda url: url.scheme),
    method("getHost", "URL -> string", lambda url: url.host),
    method("getHostname", "URL -> string", lambda url: url.hostname),
    method("getPort", "URL -> string", lambda url: url.port),
    method("getEscapedPath", "URL -> string", _escaped_path),
    method("getQuery", "URL -> map(string, list(string))", _query, _query_cost),
)
