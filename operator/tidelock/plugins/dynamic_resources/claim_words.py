"""Why a claim to devices can't be used at present."""

from tidelock.model.meta import Key


def being_allocated(claim: Key | str) -> str:
    """Say that another pod gets devices for a claim, in kube-scheduler's words as the next."""
    return f"resource claim {claim} is in the process of being allocated"


def being_deallocated(claim: Key | str) -> str:
    """Say that a claim loses its devices."""
    return f"resource claim {claim} is in the process of being deallocated"


def allocated_elsewhere(claim: Key | str) -> str:
    """Say that another scheduler has given devices to a claim."""
    return f"claim {claim} got allocated elsewhere in the meantime"


def deallocated_elsewhere(claim: Key | str) -> str:
    """Say that another scheduler has taken the devices of a claim."""
    return f"claim {claim} got deallocated elsewhere in the meantime"
