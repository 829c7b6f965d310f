"""Label keys of affinity terms, merged into the terms' selectors as the API server does it for a pod.

A pod template has not been through the API server as a pod, so its terms still have separate label keys.
Source: Kubernetes 1.36, pkg/registry/core/pod, applyMatchLabelKeysAndMismatchLabelKeys. The label keys of
spread constraints are read where pods are counted.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from tidelock.model.pod_placement import PodAffinity, PodAffinityTerm
from tidelock.model.pods import PodSpec
from tidelock.model.selectors import Labels, Requirement


def with_label_keys(spec: PodSpec, labels: Labels) -> PodSpec:
    """Return the spec of a pod with these labels as the API server would store it."""
    affinity = spec.affinity
    if affinity is None or not (affinity.pod_affinity or affinity.pod_anti_affinity):
        return spec
    near, far = (
        None if each is None else _merged(each, labels)
        for each in (affinity.pod_affinity, affinity.pod_anti_affinity)
    )
    return replace(spec, affinity=replace(affinity, pod_affinity=near, pod_anti_affinity=far))


def _merged(affinity: PodAffinity, labels: Labels) -> PodAffinity:
    return PodAffinity(
        tuple(_term(term, labels) for term in affinity.required),
        tuple(
            replace(wish, pod_affinity_term=_term(wish.pod_affinity_term, labels))
            for wish in affinity.preferred
        ),
    )


def _term(term: PodAffinityTerm, labels: Labels) -> PodAffinityTerm:
    """Merge the label keys of a term. A term without a selector selects nothing, and stays unchanged."""
    more = tuple(_requirements(term, labels))
    if term.label_selector is None or not more:
        return term
    expressions = (*term.label_selector.match_expressions, *more)
    return replace(term, label_selector=replace(term.label_selector, match_expressions=expressions))


def _requirements(term: PodAffinityTerm, labels: Labels) -> Iterator[Requirement]:
    for operator, keys in (("In", term.match_label_keys), ("NotIn", term.mismatch_label_keys)):
        for key in keys:
            if key in labels:
                yield Requirement(key, operator, (labels[key],))
