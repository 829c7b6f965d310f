"""Errors of a configuration, with the path, the value and the expected value."""

import pytest

from tidelock.framework.config import read_configuration
from tidelock.framework.config_file import ConfigurationError
from unit.framework.configs import TOY, load, profiles, refusal


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("profile: []", "unknown field profile: expected one of apiVersion, clientConnection, "),
        ("profiles: [{plugin: {}}]", "profiles[0]: unknown field plugin: expected one of percentageOfNodes"),
        ("profiles: {}", "profiles: Invalid value: {}: should be a valid list"),
        ("profiles: [4]", "profiles[0]: Invalid value: 4: should be an object"),
        ("profiles: [{plugins: {score: {enabled: [{}]}}}]", "plugins.score.enabled[0].name: Required value"),
        (
            "profiles: [{plugins: {score: {enabled: [{name: Alpha, weight: -1}]}}}]",
            "profiles[0].plugins.score.enabled[0].weight: Invalid value: -1: should be greater than or equal",
        ),
        (
            "profiles: [{plugins: {score: {enabled: [{name: Alpha, weight: 2.0}]}}}]",
            "weight: Invalid value: 2.0",
        ),
        (
            "profiles: [{plugins: {score: {enabled: [{name: Alpha, weight: '2'}]}}}]",
            'weight: Invalid value: "2"',
        ),
        (
            "percentageOfNodesToScore: 101",
            "percentageOfNodesToScore: Invalid value: 101: should be less than or",
        ),
        ("parallelism: 0", "parallelism: Invalid value: 0: should be greater than 0"),
        ("enableProfiling: 'no'", 'enableProfiling: Invalid value: "no": should be a valid boolean'),
        (
            "leaderElection: {leaseDuration: 15}",
            "leaderElection.leaseDuration: Invalid value: 15: should be a",
        ),
        ("leaderElection: {leaseDuration: 15 s}", 'Invalid value: "15 s": should be a duration such as "5s"'),
        (
            "leaderElection: {leaseDuration: 10s}",
            'leaderElection.leaseDuration: Invalid value: "10s": should be longer than the renewDeadline',
        ),
        (
            "leaderElection: {renewDeadline: 15s}",
            'leaderElection.leaseDuration: Invalid value: "0s": should be longer than the renewDeadline',
        ),
        (
            "leaderElection: {resourceLock: configmaps}",
            "leaderElection.resourceLock: Invalid value: \"configmaps\": should be 'leases'",
        ),
        ("clientConnection: {burst: -1}", "clientConnection.burst: Invalid value: -1: should be greater"),
        (
            "extenders: [{urlPrefix: 'http://a', managedResources: [{name: requests.a.io/b}]}]",
            "should be the name of an extended resource",
        ),
        (
            f"extenders: [{{urlPrefix: 'http://a', managedResources: [{{name: {245 * 'a'}/b}}]}}]",
            "should be the name of an extended resource",
        ),
        (
            "podInitialBackoffSeconds: 0",
            "podInitialBackoffSeconds: Invalid value: 0: should be greater than 0",
        ),
        (
            "podInitialBackoffSeconds: 11",
            "podMaxBackoffSeconds: Invalid value: 10: should be greater than or equal to podInitialBackoff",
        ),
        ("kind: KubeSchedulerConfiguration", "is not YAML: key 'kind' is given twice"),
        ("profiles: [", "is not YAML: while parsing"),
        ("profiles: 2026-02-31", "is not YAML: day is out of range"),
        ("2: 3\nyes: no", "unknown field 2, True: expected one of"),
        ("extenders: [{}]", "extenders[0].urlPrefix: Required value"),
        ("extenders: [{urlPrefix: 'extender:80'}]", "should be a URL that begins with http:// or https://"),
        (
            "extenders: [{urlPrefix: 'http://a', httpTimeout: 5}]",
            "extenders[0].httpTimeout: Invalid value: 5: ",
        ),
        (
            "extenders: [{urlPrefix: 'http://a', prioritizeVerb: p}]",
            "extenders[0].weight: Invalid value: 0: should be positive beside a prioritizeVerb",
        ),
        (
            "extenders: [{urlPrefix: 'http://a', bindVerb: b}, {urlPrefix: 'http://b', bindVerb: b}]",
            "extenders: 2 of them have a bindVerb: only one extender can bind",
        ),
        (
            "extenders: [{urlPrefix: 'http://a', managedResources: [{name: cpu}]}]",
            'extenders[0].managedResources[0].name: Invalid value: "cpu": should be the name of an extended',
        ),
        (
            "extenders: [{urlPrefix: 'http://a', managedResources: [{name: a.io/b}, {name: a.io/b}]}]",
            "extenders[0].managedResources[1].name: Duplicate value: 'a.io/b'",
        ),
        (
            "extenders: [{urlPrefix: 'https://a', tlsConfig: {caData: '%%'}}]",
            'extenders[0].tlsConfig.caData: Invalid value: "%%": should be base64',
        ),
        (
            "extenders: [{urlPrefix: 'https://a', tlsConfig: {insecure: true, caFile: /ca}}]",
            "extenders[0].tlsConfig.insecure: Invalid value: true: should not be set beside a CA",
        ),
        (
            "extenders: [{urlPrefix: 'https://a', tlsConfig: {certFile: /cert}}]",
            "extenders[0].tlsConfig: a client certificate and its key should be given together",
        ),
    ],
)
def test_an_error_names_the_path_the_value_and_the_expectation(text: str, told: str) -> None:
    assert told in refusal(text)


@pytest.mark.parametrize("text", ["", "[]", "just a text", "--- a\n--- b", "\x00"])
def test_a_text_that_is_no_configuration_is_an_error(text: str) -> None:
    with pytest.raises(ConfigurationError):
        read_configuration(text, TOY, load)


def test_another_version_and_another_kind_are_errors() -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_configuration("apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: Pod", TOY, load)
    assert str(refused.value) == (
        'apiVersion: Invalid value: "kubescheduler.config.k8s.io/v1beta3": '
        "should be 'kubescheduler.config.k8s.io/v1'; "
        "kind: Invalid value: \"Pod\": should be 'KubeSchedulerConfiguration'"
    )


def test_all_invalid_fields_are_reported_at_once() -> None:
    text = refusal("parallelism: x\nprofiles: [{schedulerName: 3}]")
    assert text == (
        'parallelism: Invalid value: "x": should be a valid integer; '
        "profiles[0].schedulerName: Invalid value: 3: should be a valid string"
    )


def test_a_message_never_contains_a_newline() -> None:
    assert refusal('"two\\nlines": 1').startswith("unknown field two lines: expected one of ")
    assert refusal('profiles: [{schedulerName: "a\\nb", plugins: {bind: {enabled: [{name: Alpha}]}}}]') == (
        "profile a b: plugins.bind: plugin Alpha does not extend Bind"
    )


def test_long_values_are_shortened() -> None:
    assert f'parallelism: Invalid value: "{"x" * 78}…: ' in refusal(f"parallelism: {'x' * 500}")


@pytest.mark.parametrize(
    "text",
    [
        "leaderElection: {leaderElect: false, leaseDuration: 1s, resourceLock: endpoints}",
        "leaderElection: {leaseDuration: 10001ms, resourceLock: leases}",
        f"extenders: [{{urlPrefix: 'http://a', managedResources: [{{name: {244 * 'a'}/b}}]}}]",
        "profiles: [{plugins: {podGroupPostFilter: {disabled: [{name: '*'}]}}}]",
    ],
)
def test_fields_that_kube_scheduler_accepts_are_accepted(text: str) -> None:
    assert profiles(text)
