"""The named formats of strings, `format.dns1123Label()` and others."""

import re
from collections.abc import Callable
from datetime import date

from tidelock.cel.functions import Overload, function, method
from tidelock.cel.libraries.network import is_url
from tidelock.cel.values import MAX_COST, NONE, NamedFormat, Optional, footprint
from tidelock.model.api.wire import LABEL_VALUE, QUALIFIED_NAME

_LABEL, _SUBDOMAIN = 63, 253
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_UUID = r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
_BASE64 = r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
_TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(.\d+)?(z|[+-]\d\d:\d\d)"
Test = Callable[[str], bool]


def _pattern(pattern: str, longest: int) -> Test:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: len(text) <= longest and compiled.fullmatch(text) is not None


def _prefix(test: Test) -> Test:
    """Return a test of a prefix of generated names, which may end with a dash."""
    return lambda text: test(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)


def _is_qualified_name(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    short = len(name) <= _LABEL and len(prefix) <= _SUBDOMAIN and (bool(prefix) or not slash)
    return short and re.fullmatch(QUALIFIED_NAME, text) is not None


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _is_datetime(text: str) -> bool:
    day, _, clock = text.lower().partition("t")
    return _is_date(day) and re.fullmatch(_TIME, clock, re.ASCII) is not None


_label, _subdomain = _pattern(_DNS_LABEL, _LABEL), _pattern(rf"{_DNS_LABEL}(\.{_DNS_LABEL})*", _SUBDOMAIN)
_base64 = _pattern(_BASE64, MAX_COST)
_dns1035 = _pattern(r"[a-z]([-a-z0-9]*[a-z0-9])?", _LABEL)
_TESTS: dict[str, Test] = {
    "dns1123Label": _label,
    "dns1123Subdomain": _subdomain,
    "dns1035Label": _dns1035,
    "qualifiedName": _is_qualified_name,
    "dns1123LabelPrefix": _prefix(_label),
    "dns1123SubdomainPrefix": _prefix(_subdomain),
    "dns1035LabelPrefix": _prefix(_dns1035),
    "labelValue": _pattern(LABEL_VALUE, _LABEL),
    "uri": is_url,
    "uuid": _pattern(_UUID, _LABEL),
    "byte": _base64,
    "date": _is_date,
    "datetime": _is_datetime,
}


def _named(name: str) -> Optional:
    return Optional(NamedFormat(name)) if name in _TESTS else NONE


def _validate(named: NamedFormat, text: str) -> Optional:
    return NONE if _TESTS[named.name](text) else Optional([f"does not match the format {named.name}"])


def _constant(name: str) -> Callable[[], NamedFormat]:
    return lambda: NamedFormat(name)


OVERLOADS: tuple[Overload, ...] = (
    *(function(f"format.{name}", "-> Format", _constant(name)) for name in _TESTS),
    function("format.named", "string -> optional(Format)", _named),
    method(
        "validate",
        "Format, string -> optional(list(string))",
        _validate,
        lambda _named, text: 10 * footprint(text),
    ),
)
