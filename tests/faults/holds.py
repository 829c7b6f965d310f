"""Rules of reservations in two phases, and of sets of alternatives."""

from collections import defaultdict

from faults.history import Change, Json
from faults.reading import SETTLED, phase_of, reason_of, says
from faults.world import SLACK, World
from tidelock.model.instants import parse_instant


class Holds:
    """The rules of commits and choices."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._commits: dict[tuple[str, str], Change] = {}
        self._set_of: dict[str, dict[str, str]] = defaultdict(dict)  # names of a set's reservations, by uid
        self._chosen: set[str] = set()  # uids of reservations that a status has reported as chosen
        self._outdone: list[tuple[Change, str]] = []

    def see(self, each: Change, before: Json | None) -> None:
        """Check a version of a reservation in two phases, or of a set."""
        if each.kind != "reservations" or each.gone:
            return
        if "commit" in each.state["spec"]:
            self._check_hold(each, before)
        if "anyOf" in each.state["spec"]:
            self._check_choice(each, before)

    # Two phases.

    def _check_hold(self, each: Change, before: Json | None) -> None:
        token, told = each.state["spec"]["commit"].get("token"), _commit(each.state)
        if token is not None and token == told.get("token"):
            self._commits.setdefault((each.uid, token), each)
        if says(each.state, "Committed"):
            in_time = token == told["token"] if "token" in told else "committedAt" in told
            in_time = in_time and parse_instant(told["committedAt"]) < parse_instant(told["dueAt"])
            self._world.expect(in_time, f"I2: {each}: it was not committed in time")
        if before is None:
            return
        earlier = _commit(before)
        grows = earlier.get("holds", 0) <= told.get("holds", 0)
        same = (
            "token" not in earlier
            or earlier.get("token") != told.get("token")
            or earlier.items() <= told.items()
        )
        self._world.expect(grows and same, f"I2: {each}: its hold was {earlier} before")
        if says(before, "Committed") and not says(each.state, "Committed") and says(each.state, "Active"):
            lost = self._lost_room(before)
            self._world.expect(lost, f"I2: {each}: it was committed, and is so no more")
        if reason_of(each.state) == "NotCommitted" and phase_of(before) != "Expired":
            self._check_abort(each, before)

    def _check_abort(self, each: Change, before: Json) -> None:
        """Check that a reservation ended as uncommitted only if it was due, and was not committed in time."""
        told, finished = _commit(each.state), parse_instant(each.state["status"]["finishedAt"])
        due = parse_instant(told["dueAt"])
        self._world.expect(finished >= due, f"I2: {each}: over at {finished}, due at {due}")
        self._world.expect(not says(before, "Committed"), f"I2: {each}: it was told to be committed")
        commit = self._commits.get((each.uid, told["token"]))
        heard_at = self._world.delivered_at(commit) if commit is not None else None
        if commit is not None and heard_at is not None and self._world.went_on(commit.at, each.at):
            heard = self._world.clock_at(heard_at, each)
            self._world.expect(
                heard + SLACK >= due, f"I2: {each}: committed {due - heard:g} s before it was due"
            )

    def _lost_room(self, before: Json) -> bool:
        return before["status"].get("nodeName") in self._world.disturbed

    # Sets.

    def _check_choice(self, each: Change, before: Json | None) -> None:
        """Check that at most one of a set is chosen, and note a reservation that ended because of another."""
        names, name = self._set_of[each.state["spec"]["anyOf"]], each.state["spec"]["anyOf"]
        names[each.uid] = each.name
        if _is_chosen(each.state):
            self._chosen.add(each.uid)
        reservations = [
            reservation
            for reservation in self._world.reservations.values()
            if reservation["spec"].get("anyOf") == name
        ]
        chosen = [
            reservation["metadata"]["name"]
            for reservation in reservations
            if self._is_surely_chosen(reservation, each)
        ]
        self._world.expect(len(chosen) <= 1, f"I2: {each}: {sorted(chosen)} of one set are chosen")
        if reason_of(each.state) == "AnotherChosen" and (before is None or phase_of(before) != "Expired"):
            self._outdone.append((each, name))

    def _is_surely_chosen(self, reservation: Json, each: Change) -> bool:
        if not _is_chosen(reservation) or self._world.is_due(reservation, each):
            return False
        disturbed = reservation["status"].get("nodeName") in self._world.disturbed
        return not disturbed and not any(self._world.bound_owners(reservation))

    def _may_have_been_chosen(self, uid: str) -> bool:
        """Return whether a reservation was chosen, or may have been before a status could report it."""
        known = self._world.owners.get(uid) or uid in self._world.circumstances.deleted
        return uid in self._chosen or bool(known) or bool(self._world.circumstances.crashes)

    def see_rest(self, now: float) -> None:
        """Check that commits were processed in time, and that a chosen reservation is the only open one."""
        sets: defaultdict[str, list[Json]] = defaultdict(list)
        for name, reservation in self._world.reservations.items():
            if "anyOf" in reservation["spec"]:
                sets[reservation["spec"]["anyOf"]].append(reservation)
            if "commit" in reservation["spec"]:
                self._check_told(name, reservation, now)
        for name, reservations in sets.items():
            phases = {reservation["metadata"]["name"]: phase_of(reservation) for reservation in reservations}
            open_ = [reservation for reservation in reservations if phase_of(reservation) not in SETTLED]
            chosen = [reservation for reservation in open_ if _is_chosen(reservation)]
            decided = bool(chosen) or "Consumed" in phases.values()
            # An alternative with an owner that was being bound at that moment is consumed beside the choice.
            alone = len(open_) == len(chosen) <= 1
            self._world.expect(not decided or alone, f"I5: of the set {name} one is chosen: {phases}")
        for each, name in self._outdone:
            others = self._set_of[name].keys() - {each.uid}
            known = any(self._may_have_been_chosen(uid) for uid in others)
            self._world.expect(known, f"I2: {each}: no other of its set was chosen")

    def _check_told(self, name: str, reservation: Json, now: float) -> None:
        told, token = _commit(reservation), reservation["spec"]["commit"].get("token")
        if "dueAt" not in told or says(reservation, "Committed") or phase_of(reservation) in SETTLED:
            return
        self._world.expect(parse_instant(told["dueAt"]) > now, f"I3: {name} was not committed in time")
        self._world.expect(token != told["token"], f"I5: the commit of {name} is not heard")

    def explains(self, reason: str, before: Json, each: Change) -> bool:
        """Return whether a reservation ended without a commit in time, or because another was chosen."""
        if reason == "NotCommitted":
            return not says(before, "Committed") and self._world.is_due(each.state, each)
        return reason == "AnotherChosen" and "anyOf" in each.state["spec"]


def _commit(reservation: Json) -> Json:
    found: Json = reservation.get("status", {}).get("commit", {})
    return found


def _is_chosen(reservation: Json) -> bool:
    return says(reservation, "Active") and (
        "commit" not in reservation["spec"] or says(reservation, "Committed")
    )
