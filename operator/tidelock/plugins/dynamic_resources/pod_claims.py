"""The claims of a pod, as far as they exist.

Semantics of Kubernetes 1.37, dynamic-resource-allocation/resourceclaim. A reserve pod has the claims that
would be created for its pod.
"""

from tidelock.cluster.objects import Objects
from tidelock.model.meta import ObjectMeta
from tidelock.model.pod_limits import LIMITS, RESOURCE_CLAIMS, excess, too_large_text
from tidelock.model.pods import Pod
from tidelock.model.reserve_pod import ReservePod
from tidelock.model.resource_claims import PodResourceClaim, ResourceClaim, most_devices
from tidelock.plugins.dynamic_resources.extended_resources import backed_resources, claim_for


def resource_claims_of(pod: Pod, objects: Objects) -> list[ResourceClaim] | str:
    """Return the claims of a pod in the order of its spec, or why it has to wait for one of them.

    A claim that a controller found unnecessary is left out.
    """
    if len(pod.spec.resource_claims) > LIMITS[RESOURCE_CLAIMS]:
        return too_large_text(excess(pod))
    found: dict[str, ResourceClaim] = {}
    for each in pod.spec.resource_claims:
        name, own, problem = _name_of(each, pod)
        if problem:
            return problem
        if name is None:
            continue
        claim = _find(name, each, pod, objects)
        if isinstance(claim, str):
            return claim
        if problem := _problem(claim, pod, own=own):
            return problem
        found[name] = claim
    return list(found.values())


def devices_asked(pod: ReservePod, objects: Objects) -> dict[str, int]:
    """Return how many devices a reservation would hold at most, by the resource of their class.

    Claims that have devices need none, and an unknown claim is not counted. Extended resources count as if
    no node had any itself.
    """
    found = resource_claims_of(pod, objects)
    claims = [] if isinstance(found, str) else [each for each in found if each.allocation is None]
    classes = objects.device_classes.by_resource
    if resources := backed_resources(pod, classes):
        claims.append(claim_for(pod, resources, classes)[0])
    return most_devices(request for claim in claims for request in claim.spec.devices.requests)


def claims_in_spec(pod: Pod) -> dict[str, PodResourceClaim]:
    """Return the claims in the spec of a pod by the names of the ResourceClaims."""
    names = ((_name_of(each, pod)[0], each) for each in pod.spec.resource_claims)
    return {name: in_spec for name, in_spec in names if name is not None}


def _find(name: str, wanted: PodResourceClaim, pod: Pod, objects: Objects) -> ResourceClaim | str:
    """Return a claim, or that it is missing. For a reserve pod, one is made from its template."""
    namespace, template_name = pod.meta.namespace, wanted.resource_claim_template_name
    if not isinstance(pod, ReservePod) or template_name is None:
        claim = objects.resource_claims.get(name, namespace)
        return f'could not find ResourceClaim "{namespace}/{name}"' if claim is None else claim
    template = objects.resource_claim_templates.get(template_name, namespace)
    if template is None:
        return template_not_found(namespace, template_name)
    return template.claim(ObjectMeta(name, namespace, f"{pod.uid}/{wanted.name}"))


def _name_of(wanted: PodResourceClaim, pod: Pod) -> tuple[str | None, bool, str]:
    """Return a claim's name, whether it must belong to the pod, and why there is none yet."""
    if wanted.resource_claim_name is not None:
        return wanted.resource_claim_name, False, ""
    if wanted.resource_claim_template_name is None:
        about = f'pod "{pod.key}", spec.resourceClaim "{wanted.name}"'
        return None, False, f"{about}: none of the supported fields are set"
    if isinstance(pod, ReservePod):
        return f"{pod.meta.name}/{wanted.name}", False, ""  # which no existing claim has
    for status in pod.status.resource_claim_statuses:
        if status.name == wanted.name:
            return status.resource_claim_name, True, ""
    return None, False, f'pod "{pod.key}": ResourceClaim not created yet'


def _problem(claim: ResourceClaim, pod: Pod, *, own: bool) -> str:
    """Return why a claim can't be used, or an empty text."""
    if claim.meta.deletion_timestamp is not None:
        return f'resourceclaim "{claim.meta.name}" is being deleted'
    owner = claim.meta.controller
    if own and (owner is None or owner.uid != pod.uid):
        return f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)"
    if claim.meta.unreadable:
        return f'resourceclaim "{claim.meta.name}" can\'t be read: {claim.meta.unreadable}'
    return ""


def template_not_found(namespace: str, name: str) -> str:
    """Say that the template of a claim is missing."""
    return f'could not find ResourceClaimTemplate "{namespace}/{name}"'
