"""Reads a configuration file: its profiles beside the default plugins, its extenders, its backoff.

Sources: kube-scheduler 1.37, apis/config/v1/defaults.go and default_plugins.go (mergePlugins),
apis/config/validation/validation.go, profile/profile.go and scheduler.go (buildExtenders).
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from tidelock.framework.config_file import (
    CONFIG_API_VERSION,
    DEFAULT_NAME,
    ConfigurationFile,
    Extender,
    LeaderElection,
    PluginConfig,
    PluginEntry,
    PluginSetFile,
    ProfileFile,
    decode_file,
    invalid,
    parse_duration,
    refuse,
)
from tidelock.framework.plugin_args import is_extended
from tidelock.framework.profile import (
    ALL,
    EXTENSION_POINTS,
    Enabled,
    PluginFactory,
    PluginSet,
    ProfileSettings,
)
from tidelock.model.selectors import is_qualified_name

INITIAL_BACKOFF = 1
MAX_BACKOFF = 10

# Plugins of kube-scheduler 1.37 which a file may switch off or configure, whether they are here or not.
_UPSTREAM = frozenset(
    {
        "DefaultBinder",
        "DefaultPreemption",
        "DeferredPodScheduling",
        "DynamicResources",
        "GangScheduling",
        "ImageLocality",
        "InterPodAffinity",
        "NodeAffinity",
        "NodeDeclaredFeatures",
        "NodeName",
        "NodePorts",
        "NodeResourcesBalancedAllocation",
        "NodeResourcesFit",
        "NodeUnschedulable",
        "NodeVolumeLimits",
        "PodGroupPodsCount",
        "PodTopologySpread",
        "PrioritySort",
        "SchedulingGates",
        "TaintToleration",
        "TopologyPlacementGenerator",
        "VolumeBinding",
        "VolumeRestrictions",
        "VolumeZone",
    }
)

_UNUSED = (
    "parallelism",
    "leader_election",
    "client_connection",
    "enable_profiling",
    "enable_contention_profiling",
    "percentage_of_nodes_to_score",
    "delay_cache_until_active",
)
_UNUSED_POINTS = ("placement_generate", "placement_score", "pod_group_post_filter")
# Seconds of kube-scheduler's leader election by default.
_LEASE_DURATION, _RENEW_DEADLINE = 15.0, 10.0
_TYPE_FIELDS = frozenset({"apiVersion", "kind"})
_IGNORED = frozenset({"ignoredResources", "ignoredResourceGroups"})


@dataclass(frozen=True, slots=True)
class Builtins:
    """The plugins that come with the scheduler.

    Attributes:
        registry: all of them, by name.
        defaults: the default profile.
        kept: plugins that `*` does not disable, as files for kube-scheduler do not know them.
        needed: plugins that can't be disabled, with the extension points where they are needed.
        counting: plugins that count resources. All of them ignore the resources that the first one ignores.

    """

    registry: Mapping[str, PluginFactory]
    defaults: tuple[Enabled, ...]
    kept: frozenset[str] = frozenset()
    needed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    counting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """How to schedule.

    Attributes:
        profiles: one for each schedulerName. The first one places reservations.
        registry: every plugin that they enable, by name.
        initial_backoff: seconds of the first backoff, which doubles with each further one.
        max_backoff: longest backoff in seconds.
        extenders: the extenders, in the order in which they are asked.
        ignored: valid fields of the file without an effect here.

    """

    profiles: tuple[ProfileSettings, ...]
    registry: Mapping[str, PluginFactory]
    initial_backoff: float = INITIAL_BACKOFF
    max_backoff: float = MAX_BACKOFF
    extenders: tuple[Extender, ...] = ()
    ignored: tuple[str, ...] = ()


LoadPlugins = Callable[[Collection[str]], Mapping[str, PluginFactory]]
"""Loads plugins that do not come with the scheduler. It leaves out names that are not installed."""


def default_configuration(scheduler_name: str, builtins: Builtins) -> Configuration:
    """Return the default profile under a name."""
    profile = ProfileSettings(scheduler_name, builtins.defaults, kept=builtins.kept)
    return Configuration(profiles=(profile,), registry=builtins.registry)


def read_configuration(text: str, builtins: Builtins, load: LoadPlugins) -> Configuration:
    """Read a KubeSchedulerConfiguration.

    Raises:
        ConfigurationError: it is invalid. The message names the fields.

    """
    file = decode_file(text)
    profiles = file.profiles or [ProfileFile()]
    refuse(
        [
            *_leader_election_problems(file.leader_election),
            *_profile_problems(profiles),
            *_backoff_problems(file),
            *_extender_problems(file.extenders),
        ]
    )
    foreign = _named(profiles) - builtins.registry.keys()
    registry = {**builtins.registry, **load(foreign)}
    refuse(problem for path, profile in _numbered(profiles) for problem in _unknown(path, profile, registry))
    extenders = tuple(sorted(file.extenders, key=lambda extender: extender.ignorable))
    ignored_resources = [
        resource.name
        for extender in extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    ]
    settings = tuple(_settings(profile, builtins, registry, ignored_resources) for profile in profiles)
    refuse(_needed_problems(settings, builtins))
    return Configuration(
        profiles=settings,
        registry=registry,
        initial_backoff=_or(file.pod_initial_backoff_seconds, INITIAL_BACKOFF),
        max_backoff=_or(file.pod_max_backoff_seconds, MAX_BACKOFF),
        extenders=extenders,
        ignored=tuple(_ignored(file, registry)),
    )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _numbered(profiles: list[ProfileFile]) -> Iterator[tuple[str, ProfileFile]]:
    for index, profile in enumerate(profiles):
        yield f"profiles[{index}]", profile


def _sets(profile: ProfileFile) -> Iterator[tuple[str, PluginSetFile]]:
    """Return the plugin sets of a profile by extension point, multiPoint first."""
    yield "multiPoint", profile.plugins.multi_point
    for point in EXTENSION_POINTS:
        yield point, getattr(profile.plugins, _snake(point))


def _snake(camel: str) -> str:
    return re.sub("([A-Z])", r"_\1", camel).lower()


def _camel(snake: str) -> str:
    first, *others = snake.split("_")
    return first + "".join(part.title() for part in others)


def _named(profiles: list[ProfileFile]) -> set[str]:
    """Return the names of the plugins that a file enables."""
    return {entry.name for profile in profiles for _, plugins in _sets(profile) for entry in plugins.enabled}


def _profile_problems(profiles: list[ProfileFile]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for path, profile in _numbered(profiles):
        name = _scheduler_name(profile, alone=len(profiles) == 1)
        if not name:
            yield f"{path}.schedulerName: Required value"
        elif name in seen:
            yield f"{path}.schedulerName: Duplicate value: {name!r}: {seen[name]} has it too"
        seen.setdefault(name, path)
        configured = Counter(config.name for config in profile.plugin_config)
        for index, config in enumerate(profile.plugin_config):
            where = f"{path}.pluginConfig[{index}]"
            if configured[config.name] > 1:
                yield f"{where}.name: Duplicate value: {config.name!r}"
            yield from _args_problems(where, config)


def _scheduler_name(profile: ProfileFile, *, alone: bool) -> str:
    """Return the profile's name. Only a single profile can leave it out."""
    if profile.scheduler_name is None:
        return DEFAULT_NAME if alone else ""
    return profile.scheduler_name


def _args_problems(path: str, config: PluginConfig) -> Iterator[str]:
    """Check the type that args may carry against the plugin."""
    kind = f"{config.name}Args"
    if config.args.get("kind", kind) != kind:
        yield invalid(f"{path}.args.kind", config.args["kind"], f"should be '{kind}'")
    version = config.args.get("apiVersion", CONFIG_API_VERSION)
    if config.name in _UPSTREAM and version != CONFIG_API_VERSION:
        yield invalid(f"{path}.args.apiVersion", version, f"should be '{CONFIG_API_VERSION}'")


def _leader_election_problems(given: LeaderElection | None) -> Iterator[str]:
    if given is None or not given.leader_elect:
        return
    lease = parse_duration(given.lease_duration) or _LEASE_DURATION
    renew = parse_duration(given.renew_deadline) or _RENEW_DEADLINE
    if lease <= renew:
        expected = "should be longer than the renewDeadline"
        yield invalid("leaderElection.leaseDuration", given.lease_duration, expected)
    if given.resource_lock not in ("", "leases"):
        yield invalid("leaderElection.resourceLock", given.resource_lock, "should be 'leases'")


def _backoff_problems(file: ConfigurationFile) -> Iterator[str]:
    initial = _or(file.pod_initial_backoff_seconds, INITIAL_BACKOFF)
    most = _or(file.pod_max_backoff_seconds, MAX_BACKOFF)
    if most < initial:
        expected = f"should be greater than or equal to podInitialBackoffSeconds, {initial}"
        yield invalid("podMaxBackoffSeconds", most, expected)


def _extender_problems(extenders: list[Extender]) -> Iterator[str]:
    managed: set[str] = set()
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        if extender.prioritize_verb and extender.weight <= 0:
            yield invalid(f"{path}.weight", extender.weight, "should be positive beside a prioritizeVerb")
        tls = extender.tls_config
        if tls and tls.insecure and (tls.ca_file or tls.ca_data):
            yield invalid(f"{path}.tlsConfig.insecure", value=True, expected="should not be set beside a CA")
        if tls and bool(tls.cert_file or tls.cert_data) != bool(tls.key_file or tls.key_data):
            yield f"{path}.tlsConfig: a client certificate and its key should be given together"
        for number, resource in enumerate(extender.managed_resources):
            where = f"{path}.managedResources[{number}].name"
            if not _is_extended(resource.name):
                yield invalid(where, resource.name, "should be the name of an extended resource")
            elif resource.name in managed:
                yield f"{where}: Duplicate value: {resource.name!r}: only one extender can manage it"
            managed.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        yield f"extenders: {binders} of them have a bindVerb: only one extender can bind"


def _is_extended(name: str) -> bool:
    """Return whether a resource is an extended one, of which a quota can limit the requests."""
    return is_extended(name) and is_qualified_name(f"requests.{name}")


def _unknown(path: str, profile: ProfileFile, registry: Mapping[str, PluginFactory]) -> Iterator[str]:
    """Refuse names that mean nothing: a plugin that was misspelt would be missed in silence."""
    expected = f"should be one of {', '.join(sorted(registry))}"
    for point, plugins in _sets(profile):
        for index, entry in enumerate(plugins.enabled):
            if entry.name not in registry:
                yield invalid(f"{path}.plugins.{point}.enabled[{index}].name", entry.name, expected)
        for index, entry in enumerate(plugins.disabled):
            if entry.name not in registry and entry.name not in _UPSTREAM and entry.name != ALL:
                yield invalid(f"{path}.plugins.{point}.disabled[{index}].name", entry.name, expected)
    for index, config in enumerate(profile.plugin_config):
        if config.name not in registry and config.name not in _UPSTREAM:
            yield invalid(f"{path}.pluginConfig[{index}].name", config.name, expected)


def _settings(
    profile: ProfileFile,
    builtins: Builtins,
    registry: Mapping[str, PluginFactory],
    ignored_resources: list[str],
) -> ProfileSettings:
    args = {
        config.name: {name: value for name, value in config.args.items() if name not in _TYPE_FIELDS}
        for config in profile.plugin_config
        if config.name in registry
    }
    for name in builtins.counting:
        ignored = {key: value for key, value in args.get(builtins.counting[0], {}).items() if key in _IGNORED}
        if ignored_resources:
            ignored["ignoredResources"] = ignored_resources
        if ignored:
            args[name] = {**args.get(name, {}), **ignored}
    return ProfileSettings(
        scheduler_name=_scheduler_name(profile, alone=True),
        enabled=_merged(builtins, profile.plugins.multi_point),
        points={
            point: PluginSet(
                tuple(map(_enabled, plugins.enabled)), frozenset(entry.name for entry in plugins.disabled)
            )
            for point, plugins in _sets(profile)
            if point != "multiPoint" and (plugins.enabled or plugins.disabled)
        },
        args=args,
        kept=builtins.kept,
    )


def _enabled(entry: PluginEntry) -> Enabled:
    return Enabled(entry.name, entry.weight or 1)


def _merged(builtins: Builtins, custom: PluginSetFile) -> tuple[Enabled, ...]:
    """Merge multiPoint with the default plugins.

    A default plugin that is enabled again takes its new weight and keeps its place. Others follow in their
    order. After `*` only the file's plugins are left, and then those that it does not reach.
    """
    enabled = list(map(_enabled, custom.enabled))
    disabled = {entry.name for entry in custom.disabled}
    place = {plugin.name: index for index, plugin in enumerate(enabled)}
    left = [plugin for plugin in builtins.defaults if plugin.name not in disabled]
    if ALL in disabled:
        kept = [plugin for plugin in left if plugin.name in builtins.kept and plugin.name not in place]
        return (*enabled, *kept)
    replacing = {place[plugin.name] for plugin in left if plugin.name in place}
    return (
        *(enabled[place[plugin.name]] if plugin.name in place else plugin for plugin in left),
        *(plugin for index, plugin in enumerate(enabled) if index not in replacing),
    )


def _needed_problems(settings: tuple[ProfileSettings, ...], builtins: Builtins) -> Iterator[str]:
    for index, profile in enumerate(settings):
        general = {plugin.name for plugin in profile.enabled}
        for name, points in builtins.needed.items():
            for point in points:
                own = profile.points.get(point, PluginSet())
                listed = {plugin.name for plugin in own.enabled}
                if name not in listed and (name not in general or name in own.disabled):
                    where = f"profiles[{index}].plugins.{point}"
                    yield f"{where}: {name} can't be disabled: reservations would not be kept"


def _ignored(file: ConfigurationFile, registry: Mapping[str, PluginFactory]) -> Iterator[str]:
    """Yield the paths of valid fields without an effect."""
    yield from (_camel(unused) for unused in _UNUSED if getattr(file, unused) is not None)
    for path, profile in _numbered(file.profiles):
        if profile.percentage_of_nodes_to_score is not None:
            yield f"{path}.percentageOfNodesToScore"
        for point in _UNUSED_POINTS:
            if point in profile.plugins.model_fields_set:
                yield f"{path}.plugins.{_camel(point)}"
        named = [
            (f"plugins.{point}.disabled[{index}]", entry.name)
            for point, plugins in _sets(profile)
            for index, entry in enumerate(plugins.disabled)
        ]
        named += [(f"pluginConfig[{index}]", each.name) for index, each in enumerate(profile.plugin_config)]
        for where, name in named:
            if name not in registry and name != ALL:
                yield f"{path}.{where} ({name} is not here)"
