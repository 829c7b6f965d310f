"""The CustomResourceDefinitions of the group `tidelock.dev`."""

from dataclasses import dataclass
from typing import Any

from tidelock.model.api import reservation_group, reservation_schedule
from tidelock.model.api.reservation import ReservationSpec, ReservationStatus
from tidelock.model.api.reservation_group import ReservationGroupSpec, ReservationGroupStatus
from tidelock.model.api.reservation_quota import ReservationQuotaSpec, ReservationQuotaStatus
from tidelock.model.api.reservation_quote import UNCHANGING, ReservationQuoteSpec, ReservationQuoteStatus
from tidelock.model.api.reservation_schedule import ReservationScheduleSpec, ReservationScheduleStatus
from tidelock.model.api.schema import structural_schema
from tidelock.model.api.water_level import WaterLevelSpec, WaterLevelStatus
from tidelock.model.api.wire import VALIDATIONS, Rule, Wire

GROUP = "tidelock.dev"
VERSION = "v1alpha1"
CATEGORY = "tidelock"


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`. Wide columns need `-o wide`."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return an entry of additionalPrinterColumns."""
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return column | ({"priority": 1} if self.wide else {})


@dataclass(frozen=True)
class CustomResource:
    """A kind: its names, the types of its spec and status, its columns, selectable fields and rules."""

    kind: str
    plural: str
    short_name: str
    scope: str
    description: str
    spec: type[Wire]
    status: type[Wire]
    columns: tuple[Column, ...]
    selectable: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()

    def definition(self) -> dict[str, Any]:
        """Return the CustomResourceDefinition."""
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.plural}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "names": {
                    "kind": self.kind,
                    "listKind": f"{self.kind}List",
                    "plural": self.plural,
                    "singular": self.kind.lower(),
                    "shortNames": [self.short_name],
                    "categories": [CATEGORY],
                },
                "scope": self.scope,
                "versions": [self._version()],
            },
        }

    def _version(self) -> dict[str, Any]:
        version = {
            "name": VERSION,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "additionalPrinterColumns": [column.to_dict() for column in self.columns],
            "schema": {"openAPIV3Schema": self._schema()},
        }
        return version | (
            {"selectableFields": [{"jsonPath": path} for path in self.selectable]} if self.selectable else {}
        )

    def _schema(self) -> dict[str, Any]:
        # Tools that follow kstatus would read an object without a status as finished.
        status = structural_schema(self.status) | {"default": {"observedGeneration": -1}}
        schema = {
            "type": "object",
            "description": self.description,
            "required": ["spec"],
            "properties": {"spec": structural_schema(self.spec), "status": status},
        }
        return schema | ({VALIDATIONS: [rule.to_schema() for rule in self.rules]} if self.rules else {})


def _condition(type_: str, field: str) -> str:
    return f'.status.conditions[?(@.type=="{type_}")].{field}'


_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_PHASE = "oldSelf.?status.?phase.orValue('')"


def _same(field: str) -> str:
    """Return the CEL expression that an optional field of the spec is unchanged.

    The rules are evaluated at each write, even of a status. Most of their cost is the access to fields of the
    spec: each one builds a map of all its properties. An absent field takes two.
    """
    return _unless_absent(field, f"self.spec.{field} == oldSelf.spec.{field}")


def _unless_absent(field: str, unchanged: str) -> str:
    present = f"has(oldSelf.spec.{field})"
    return f"(has(self.spec.{field}) ? {present} && {unchanged} : !{present})"


def _fixed_while_held(field: str, unchanged: str) -> Rule:
    # The rule is on the root, because a rule on the field itself is skipped when the field is added or
    # removed.
    return Rule(
        f"!({_PHASE} in ['Active', 'Bound']) || {unchanged}",
        f"{field} is immutable while the reservation is Active or Bound",
        field=f".spec.{field}",
        reason="FieldValueForbidden",
    )


def _fixed(field: str, unchanged: str, but: str = "") -> Rule:
    """Return the rule that a field of the spec is immutable, except for the part that `but` names."""
    return Rule(
        unchanged,
        f"{field} is immutable{but}: delete the reservation and create it again",
        field=f".spec.{field}",
        reason="FieldValueForbidden",
    )


def _same_answer(field: str, question: str = "") -> str:
    """Return the CEL expression that an optional field's truth is unchanged. An absent field is false."""
    now, before = (
        f"has({each}.spec.{field}) && {each}.spec.{field}{question}" for each in ("self", "oldSelf")
    )
    return f"({now}) == ({before})"


RESERVATION = CustomResource(
    kind="Reservation",
    plural="reservations",
    short_name="rsv",
    scope="Namespaced",
    description="An expiring lock on node capacity for a pod that has not arrived yet.",
    spec=ReservationSpec,
    status=ReservationStatus,
    columns=(
        Column("Ready", _condition("Ready", "status")),
        Column("Phase", ".status.phase"),
        Column("Node", ".status.nodeName"),
        Column("Owner", ".status.owner"),
        Column("CPU", ".status.resources.cpu"),
        Column("Memory", ".status.resources.memory"),
        # A column of type date prints the time elapsed since then, which makes no sense for a future time.
        Column("Expires", ".status.expiresAt"),
        _AGE,
        Column("Active", _condition("Active", "status"), wide=True),
        Column("Reason", _condition("Active", "reason"), wide=True),
        Column("Line", ".status.queue.place", wide=True),
        Column("Pod", ".status.boundPod.name", wide=True),
        Column("Borrowers", ".status.borrowers", "integer", wide=True),
        Column("Starts", ".spec.startAt", wide=True),
        Column("Priority", ".spec.priority", "integer", wide=True),
        Column("Retention", ".spec.retention", wide=True),
        Column("Renew-By", ".status.lease.renewBy", wide=True),
        Column("Commit-By", ".status.commit.dueAt", wide=True),
        Column("Plan", ".status.plan.token", wide=True),
        Column("Message", _condition("Active", "message"), wide=True),
    ),
    selectable=(".spec.nodeName", ".status.phase", ".status.nodeName"),
    rules=(
        _fixed_while_held("owners", "self.spec.owners == oldSelf.spec.owners"),
        _fixed_while_held(
            "nodeName",
            _same("nodeName"),
        ),
        _fixed("reuse", _same_answer("reuse", " == 'Always'")),
        # Clients rely on when a hold is due and on its alternatives.
        _fixed(
            "commit",
            _unless_absent("commit", "self.spec.commit.withinSeconds == oldSelf.spec.commit.withinSeconds"),
            but=" except for its token",
        ),
        Rule(
            "!has(oldSelf.spec.commit) || !has(oldSelf.spec.commit.token) || !has(oldSelf.status)"
            " || !has(oldSelf.status.commit) || !has(oldSelf.status.commit.token)"
            " || oldSelf.spec.commit.token != oldSelf.status.commit.token"
            " || has(self.spec.commit) && has(self.spec.commit.token)"
            " && self.spec.commit.token == oldSelf.spec.commit.token",
            "token is immutable while it is the one of the hold: a commit is final",
            field=".spec.commit.token",
            reason="FieldValueForbidden",
        ),
        _fixed("anyOf", _same("anyOf")),
        _fixed("borrowable", _same_answer("borrowable")),
        _fixed("borrowerNamespaces", _same("borrowerNamespaces")),
        _fixed("startAt", _same("startAt")),
        # Other reservations may already be planned for the time after this one.
        _fixed("runSeconds", _same("runSeconds")),
        *(
            _fixed(field, f"!has(self.spec.runSeconds) || {_same(field)}", but=" beside runSeconds")
            for field in ("ttlSeconds", "expireAt")
        ),
        # The spec of a member comes from its group, and the ledger relies on that.
        Rule(
            _unless_absent("group", "self.spec == oldSelf.spec"),
            "spec of a group's member is immutable, and a reservation neither joins a group nor leaves one",
            field=".spec.group",
            reason="FieldValueForbidden",
        ),
        Rule(
            f"!({_PHASE} in ['Consumed', 'Expired', 'Lost']) || self.spec == oldSelf.spec",
            "spec of a reservation that is final is immutable: delete it and create it again",
            field=".spec",
            reason="FieldValueForbidden",
        ),
    ),
)

RESERVATION_GROUP = CustomResource(
    kind="ReservationGroup",
    plural="reservationgroups",
    short_name="rsvg",
    scope="Namespaced",
    description="A set of reservations on node capacity that are granted all together or not at all.",
    spec=ReservationGroupSpec,
    status=ReservationGroupStatus,
    columns=(
        Column("Ready", _condition("Ready", "status")),
        Column("Phase", ".status.phase"),
        Column("Members", ".status.members", "integer"),
        Column("Held", ".status.ready", "integer"),
        Column("Consumed", ".status.consumed", "integer"),
        Column("Expires", ".status.expiresAt"),
        _AGE,
        Column("Active", _condition("Active", "status"), wide=True),
        Column("Reason", _condition("Active", "reason"), wide=True),
        Column("Min", ".spec.minMembers", "integer", wide=True),
        Column("Priority", ".spec.priority", "integer", wide=True),
        Column("Message", _condition("Active", "message"), wide=True),
    ),
    rules=reservation_group.GROUP_RULES,
)

RESERVATION_SCHEDULE = CustomResource(
    kind="ReservationSchedule",
    plural="reservationschedules",
    short_name="rsvs",
    scope="Namespaced",
    description="Reservations for windows of time that recur by a cron expression.",
    spec=ReservationScheduleSpec,
    status=ReservationScheduleStatus,
    columns=(
        Column("Schedule", ".spec.schedule"),
        Column("Timezone", ".spec.timeZone"),
        Column("Suspend", ".spec.suspend", "boolean"),
        Column("Next", ".status.nextStart"),
        Column("Planned", ".status.planned", "integer"),
        _AGE,
        Column("Active", ".status.active", "integer", wide=True),
        Column("Last", ".status.lastStart", wide=True),
        Column("Seconds", ".spec.durationSeconds", "integer", wide=True),
        Column("Ready", _condition("Ready", "status"), wide=True),
        Column("Reason", _condition("Ready", "reason"), wide=True),
        Column("Message", _condition("Ready", "message"), wide=True),
    ),
    rules=reservation_schedule.SCHEDULE_RULES,
)

RESERVATION_QUOTA = CustomResource(
    kind="ReservationQuota",
    plural="reservationquotas",
    short_name="rsvq",
    scope="Namespaced",
    description="A limit on the capacity that the reservations of a namespace hold.",
    spec=ReservationQuotaSpec,
    status=ReservationQuotaStatus,
    columns=(
        Column("CPU", ".status.used.cpu"),
        Column("CPU-Hard", ".status.hard.cpu"),
        Column("Memory", ".status.used.memory"),
        Column("Memory-Hard", ".status.hard.memory"),
        Column("Locks", ".status.used.pods"),
        Column("Locks-Hard", ".status.hard.pods"),
        _AGE,
        Column("CPU-Seconds", ".status.usedSeconds.cpu", wide=True),
        Column("CPU-Seconds-Hard", ".status.hardSeconds.cpu", wide=True),
        Column("Max-Life", ".spec.maxLifeSeconds", "integer", wide=True),
        Column("Max-Priority", ".spec.maxPriority", "integer", wide=True),
        Column("Ready", _condition("Ready", "status"), wide=True),
        Column("Message", _condition("Ready", "message"), wide=True),
    ),
)

RESERVATION_QUOTE = CustomResource(
    kind="ReservationQuote",
    plural="reservationquotes",
    short_name="rsvqt",
    scope="Namespaced",
    description="A dry run of a reservation: whether, where and when it would be granted, answered once.",
    spec=ReservationQuoteSpec,
    status=ReservationQuoteStatus,
    columns=(
        Column("Feasible", _condition("Feasible", "status")),
        Column("Node", ".status.nodeName"),
        Column("Count", ".status.count", "integer"),
        Column("Fits", ".status.fitsAt"),
        Column("Valid-Until", ".status.validUntil"),
        _AGE,
        Column("Earliest", ".status.earliestStart", wide=True),
        Column("Reason", _condition("Feasible", "reason"), wide=True),
        Column("Message", _condition("Feasible", "message"), wide=True),
    ),
    rules=(UNCHANGING,),
)

WATER_LEVEL = CustomResource(
    kind="WaterLevel",
    plural="waterlevels",
    short_name="wlv",
    scope="Cluster",
    description="A group of nodes on which new pods are placed by measured use.",
    spec=WaterLevelSpec,
    status=WaterLevelStatus,
    columns=(
        Column("Target", ".status.cpu.target", "integer"),
        Column("Mean", ".status.cpu.mean", "integer"),
        Column("Max", ".status.cpu.max", "integer"),
        Column("StdDev", ".status.cpu.standardDeviation", "integer"),
        Column("Nodes", ".status.nodesMeasured", "integer"),
        Column("Stale", ".status.nodesStale", "integer"),
        Column("Tide", ".status.tide"),
        _AGE,
        Column("Ready", _condition("Ready", "status"), wide=True),
        Column("Next-Tide", ".status.nextTideChange", wide=True),
        Column("Weight", ".status.weightPercent", "integer", wide=True),
        Column("Limit", ".status.cpu.limit", "integer", wide=True),
        Column("Missing", ".status.nodesMissing", "integer", wide=True),
        Column("Invalid", ".status.nodesInvalid", "integer", wide=True),
        Column("Memory-Target", ".status.memory.target", "integer", wide=True),
        Column("Memory-Mean", ".status.memory.mean", "integer", wide=True),
        Column("Memory-Max", ".status.memory.max", "integer", wide=True),
        Column("Memory-StdDev", ".status.memory.standardDeviation", "integer", wide=True),
        Column("Memory-Limit", ".status.memory.limit", "integer", wide=True),
        Column("Sampled", ".status.sampledAt", wide=True),
        Column("Reason", _condition("Ready", "reason"), wide=True),
        Column("Message", _condition("Ready", "message"), wide=True),
    ),
)

CUSTOM_RESOURCES = (
    RESERVATION,
    RESERVATION_GROUP,
    RESERVATION_SCHEDULE,
    RESERVATION_QUOTA,
    RESERVATION_QUOTE,
    WATER_LEVEL,
)
