"""The file format: a KubeSchedulerConfiguration, decoded strictly.

The types are those of k8s.io/kube-scheduler/config/v1 of Kubernetes 1.37. Unknown or repeated fields and
wrong types are refused with path and value. Null counts as missing, as in kube-scheduler.
"""

import json
import re
from base64 import b64decode
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from tidelock.model.printable import shortened

CONFIG_API_VERSION = "kubescheduler.config.k8s.io/v1"
DEFAULT_NAME = "default-scheduler"

_LONGEST_VALUE = 80
_MERGE = "tag:yaml.org,2002:merge"
_AMOUNT = r"(\d+\.?\d*|\.\d+)"
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(f"{_AMOUNT}({'|'.join(_SECONDS)})")
_DURATION = re.compile(f"0|({_PART.pattern})+")


class ConfigurationError(ValueError):
    """The configuration is invalid. The message names the fields, in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


def invalid(path: str, value: object, expected: str) -> str:
    """Return the message for an invalid value of a field, in the words of Kubernetes."""
    return f"{path}: Invalid value: {_shown(value)}: {expected}"


def refuse(problems: Iterable[str]) -> None:
    """Raise a ConfigurationError with all problems, if there are any."""
    text = "; ".join(problems)
    if text:
        raise ConfigurationError(text)


class _Part(BaseModel):
    """An immutable part of the file, camelCase, with nothing unknown and nothing converted."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        defer_build=True,  # until a file is read: a start without one does not need the parts
    )

    @model_validator(mode="before")
    @classmethod
    def _name_the_unknown(cls, given: object) -> object:
        """Refuse unknown fields all at once, with a list of those that there are."""
        if not isinstance(given, dict):
            return given
        known = sorted(field.alias or name for name, field in cls.model_fields.items())
        unknown = sorted(str(name) for name in given if name not in known)
        if unknown:
            raise PydanticCustomError(
                "unknown_fields",
                "unknown field {unknown}: expected one of {known}",
                {"unknown": ", ".join(unknown), "known": ", ".join(known)},
            )
        return given


def parse_duration(text: str) -> float:
    """Read a duration of Go, such as 1m30s, as seconds. Raises ValueError if it is invalid or negative."""
    if not _DURATION.fullmatch(text):
        raise ValueError('should be a duration such as "5s" or "1m30s"')
    return sum(float(amount) * _SECONDS[unit] for amount, unit in _PART.findall(text))


def _duration(text: str) -> str:
    parse_duration(text)
    return text


def _url(text: str) -> str:
    if not re.match("https?://[^/?#]", text):
        raise ValueError("should be a URL that begins with http:// or https://")
    return text


def _base64(text: object) -> bytes:
    try:
        return b64decode(text, validate=True)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise ValueError("should be base64") from error


Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Weight = Annotated[int, Field(ge=0, lt=2**31)]
Percentage = Annotated[int, Field(ge=0, le=100)]
Duration = Annotated[str, AfterValidator(_duration)]
Url = Annotated[str, AfterValidator(_url)]
Base64 = Annotated[bytes, BeforeValidator(_base64)]


class PluginEntry(_Part):
    """A plugin by its name."""

    name: str
    weight: Weight | None = None


class PluginSetFile(_Part):
    """The plugins that are enabled and disabled at an extension point."""

    enabled: list[PluginEntry] = []
    disabled: list[PluginEntry] = []


_EMPTY: Any = Field(default_factory=PluginSetFile)


class PluginsFile(_Part):
    """The enabled and disabled plugins by extension point."""

    pre_enqueue: PluginSetFile = _EMPTY
    queue_sort: PluginSetFile = _EMPTY
    pre_filter: PluginSetFile = _EMPTY
    filter: PluginSetFile = _EMPTY
    post_filter: PluginSetFile = _EMPTY
    pre_score: PluginSetFile = _EMPTY
    score: PluginSetFile = _EMPTY
    reserve: PluginSetFile = _EMPTY
    permit: PluginSetFile = _EMPTY
    pre_bind: PluginSetFile = _EMPTY
    bind: PluginSetFile = _EMPTY
    post_bind: PluginSetFile = _EMPTY
    multi_point: PluginSetFile = _EMPTY
    placement_generate: PluginSetFile = _EMPTY
    placement_score: PluginSetFile = _EMPTY
    pod_group_post_filter: PluginSetFile = _EMPTY


class PluginConfig(_Part):
    """The args of a plugin."""

    name: str
    args: dict[str, Any] = {}


class ProfileFile(_Part):
    """A profile: the plugins for the pods of a schedulerName."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Percentage | None = None
    plugins: PluginsFile = Field(default_factory=PluginsFile)
    plugin_config: list[PluginConfig] = []


class ExtenderTls(_Part):
    """TLS settings of an extender. Data takes precedence over files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: Base64 = b""
    key_data: Base64 = b""
    ca_data: Base64 = b""


class ManagedResource(_Part):
    """An extended resource that an extender manages."""

    name: str
    ignored_by_scheduler: bool = False


class Extender(_Part):
    """How to call an extender. An empty verb is not called."""

    url_prefix: Url
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = Field(default=False, alias="enableHTTPS")
    tls_config: ExtenderTls | None = None
    http_timeout: Duration = "0s"
    node_cache_capable: bool = False
    managed_resources: list[ManagedResource] = []
    ignorable: bool = False


class LeaderElection(_Part):
    """Settings of kube-scheduler's leader election. Zero and an empty text stand for the default."""

    leader_elect: bool = True
    lease_duration: Duration = "0s"
    renew_deadline: Duration = "0s"
    retry_period: Duration = "0s"
    resource_lock: str = ""
    resource_name: str = ""
    resource_namespace: str = ""


class ClientConnection(_Part):
    """Settings of kube-scheduler's client."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0.0
    burst: Weight = 0


class ConfigurationFile(_Part):
    """A KubeSchedulerConfiguration."""

    api_version: Literal["kubescheduler.config.k8s.io/v1"]
    kind: Literal["KubeSchedulerConfiguration"]
    parallelism: Annotated[int, Field(gt=0, lt=2**31)] | None = None
    leader_election: LeaderElection | None = None
    client_connection: ClientConnection | None = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Percentage | None = None
    pod_initial_backoff_seconds: Annotated[int, Field(gt=0, lt=2**63)] | None = None
    pod_max_backoff_seconds: Annotated[int, Field(gt=0, lt=2**63)] | None = None
    profiles: list[ProfileFile] = []
    extenders: list[Extender] = []
    delay_cache_until_active: bool | None = None


def decode_file(text: str) -> ConfigurationFile:
    """Decode a file of YAML or JSON.

    Raises:
        ConfigurationError: it is none, or not one of these.

    """
    try:
        given = _without_nulls(yaml.load(text, StrictLoader))  # noqa: S506 -- a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: such as the 31st of June
        raise ConfigurationError(f"is not YAML: {error}") from error
    try:
        return ConfigurationFile.model_validate(given)
    except ValidationError as error:
        raise ConfigurationError("; ".join(map(problem_text, error.errors()))) from error


class StrictLoader(yaml.SafeLoader):
    """YAML as Kubernetes reads it strictly: a key that is given twice is an error."""

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        """Put halves of characters together, as JSON escapes them."""
        value = super().construct_scalar(node)
        if not isinstance(value, str) or value.isascii():
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that is given twice."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.value in seen:
                    text = f"key {key.value!r} is given twice"
                    raise yaml.constructor.ConstructorError(None, None, text, key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _without_nulls(value: Any) -> Any:
    """Return a mapping without its null values."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def problem_text(problem: Any) -> str:
    """Return the message of a ValidationError's error: the field, its value, the expectation."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]).lstrip(
        "."
    )
    if problem["type"] == "missing":
        return f"{path}: Required value"
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if problem["type"] == "unknown_fields":
        return f"{path}: {message}" if path else message
    expected = "should be an object" if problem["type"] == "model_type" else message
    return invalid(path, problem["input"], expected) if path else expected


def _shown(value: object) -> str:
    return shortened(json.dumps(value, default=str, ensure_ascii=False), _LONGEST_VALUE)
