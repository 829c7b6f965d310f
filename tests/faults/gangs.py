"""Rules of groups: no member is reported active before as many as its group needs are stored."""

from collections import Counter, defaultdict

from faults.history import Change, Json
from faults.reading import SETTLED, phase_of, says
from faults.world import ROOMLESS, SLACK, World

_OF_GROUPS = {"GroupIncomplete", "GroupFailed"}


class Gangs:
    """The rules of groups."""

    def __init__(self, world: World) -> None:
        self._world = world
        # Nodes of each member, by uid. A member that has lost its capacity does not report its node any more.
        self._members: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._whole_at: dict[str, float] = {}
        self._whole: set[str] = set()
        self._least: dict[str, int] = {}
        self._given_up: set[str] = set()  # groups that never had capacity, and were rejected

    def see(self, each: Change, before: Json | None) -> None:
        """Check a version of a group, or of a member."""
        newly = (
            not each.gone and says(each.state, "Active") and (before is None or not says(before, "Active"))
        )
        if each.kind == "reservationgroups" and newly:
            self._note_whole(each.uid, each.at)
            self._check_whole(each, each.uid, "group status")
        if each.kind == "reservationgroups":
            status = each.state.get("status", {})
            if status.get("phase") == "Rejected" and "activatedAt" not in status:
                self._given_up.add(each.uid)
        if each.kind != "reservations" or "group" not in each.state["spec"]:
            return
        asked = each.state["spec"]["group"]
        self._members[asked["uid"]][each.uid].add(each.state.get("status", {}).get("nodeName", ""))
        self._least[asked["uid"]] = asked["minMembers"]
        members = self._world.members(asked["uid"])
        self._note_whole(asked["uid"], each.at)
        took = Counter(
            reservation["status"]["boundPod"]["uid"]
            for reservation in members
            if "boundPod" in reservation.get("status", {})
        )
        twice = [uid for uid, count in took.items() if count > 1]
        self._world.expect(not twice, f"I2: {each}: {twice} took two of its group")
        if newly:
            self._check_whole(each, asked["uid"], "status")

    def _note_whole(self, group_uid: str, at: float) -> None:
        """Note the time if a group has enough members, or had enough until this change."""
        served = sum(map(_has_room, self._world.members(group_uid)))
        enough = group_uid in self._least and served >= self._least[group_uid]
        if enough or group_uid in self._whole:
            self._whole_at[group_uid] = at
        (self._whole.add if enough else self._whole.discard)(group_uid)

    def _check_whole(self, each: Change, group_uid: str, point: str) -> None:
        """Check that as many members as a group needs were stored before one is reported active."""
        whole_at = self._whole_at.get(group_uid, float("-inf"))
        whole = whole_at >= self._world.sent_at(point, each) - SLACK
        self._world.expect(whole, f"I1: {each}: it is active, and too few of its group are stored")

    def see_rest(self, now: float) -> None:
        """Check that each group has enough members or none, and that its own status agrees."""
        del now
        groups = {
            state["metadata"]["uid"]: state for state in self._world.objects["reservationgroups"].values()
        }
        for uid in self._members:
            members = self._world.members(uid)
            told = {reservation["metadata"]["name"]: phase_of(reservation) for reservation in members}
            active = [reservation for reservation in members if says(reservation, "Active")]
            served = len(active) + sum(phase_of(reservation) == "Consumed" for reservation in members)
            enough = served >= self._least[uid] or not active
            self._world.expect(enough, f"I5: too few of a group are left: {told}")
            self._world.expect(uid in groups or not members, f"I5: the group of {told} is gone")
            if uid in groups:
                given, goes_on = says(groups[uid], "Active"), set(told.values()) - SETTLED
                due = bool(active) or (served >= self._least[uid] and bool(goes_on))
                self._world.expect(given == due, f"I5: the group of {told} says Active={given}")
            for reservation in active:
                idle = [
                    pod
                    for pod in self._world.bound_owners(reservation)
                    if not self._has_taken(pod, uid, members)
                ]
                names = [pod["metadata"]["name"] for pod in idle]
                self._world.expect(not names, f"I3: {reservation['metadata']['name']} is held beside {names}")

    def explains(self, reason: str, before: Json, each: Change) -> bool:
        """Return whether a member gave its capacity back because another member lost its own.

        Others may take that capacity at once. A member is deleted if it got capacity after its group was
        rejected.
        """
        del each
        group = before["spec"].get("group")
        if reason == "Deleted":
            return group is not None and group["uid"] in self._given_up
        known = reason in ROOMLESS | _OF_GROUPS | {"Overcommitted"}
        return group is not None and known and self._is_troubled(group["uid"])

    def _is_troubled(self, uid: str) -> bool:
        """Return whether an event is known by which a member may have lost its capacity."""
        disturbed, deleted = self._world.disturbed, self._world.circumstances.deleted
        return any(nodes & disturbed or member in deleted for member, nodes in self._members[uid].items())

    @staticmethod
    def _has_taken(pod: Json, group_uid: str, members: list[Json]) -> bool:
        took = any(
            reservation["status"].get("boundPod", {}).get("uid") == pod["metadata"]["uid"]
            for reservation in members
        )
        said = pod["metadata"].get("annotations", {}).get("tidelock.dev/claimed-locks", "")
        return took or group_uid in said


def _has_room(reservation: Json) -> bool:
    status = reservation.get("status", {})
    return phase_of(reservation) == "Consumed" or (
        phase_of(reservation) not in SETTLED and bool(status.get("nodeName"))
    )
