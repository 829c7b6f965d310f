// The screens: each writes one kind of page.

import {
  badge, byId, count, distance, fillBar, fillHeads, fillPart, fillRows, fillSpan, fillUse, kid, moment, nodeLink, percent, put,
  putLink, putName, putNext, putState, reservationLink, span, trim, utc, ago, inTime,
} from "./parts.js";

/** Write a page. `route` is its address, and `go` opens the page with some parts of the address changed. */
export function show(page, route, go) {
  SCREENS[page.view](page, route, go);
}

/** The title of a page, for the tab and for its heading. */
export function titleOf(route) {
  const name = { node: route.name, reservation: `${route.namespace}/${route.name}` }[route.view];
  return name ?? route.view[0].toUpperCase() + route.view.slice(1);
}

const SCREENS = {
  overview(page, route, go) {
    fillBars(byId("totals"), page.resources, page.totals, page.water.map((each) => each?.mean ?? null), waterText(page));
    showNodes(page, route, go);
    const phases = Object.entries(page.phases).map(([phase, number]) => `${count(number)} ${phase}`);
    put(byId("phases"), phases.join(", ") || "There are none.");
    showReservations(page.reservations);
    fillPart(byId("reservations-pages"), page.reservationsPart, (reservations) => go({ reservations }));
    showDecisions(page.decisions);
  },

  node(page, route, go) {
    putName(byId("node-title"), page.name);
    byId("node-missing").hidden = page.node !== null;
    const node = page.node ?? { amounts: [], water: [], quality: "missing", state: "" };
    const fresh = node.quality === "fresh";
    // The first two resources of a measurement are cpu and memory.
    const water = page.resources.map((name) => (fresh ? (node.water[["cpu", "memory"].indexOf(name)] ?? null) : null));
    const measured = [node.state, ...usesOf(node), fresh ? "" : node.quality].filter(Boolean).join(", ");
    fillBars(byId("node-bars"), page.resources, node.amounts, water, page.node && measured);
    showTimeline(page.reservations);
    fillPart(byId("timeline-pages"), page.reservationsPart, (first) => go({ first }));
  },

  reservation(page) {
    putName(byId("reservation-title"), page.name);
    const { reservation } = page;
    byId("reservation-missing").hidden = reservation !== null;
    const state = byId("reservation-state");
    state.hidden = reservation === null;
    if (reservation !== null) {
      putState(kid(state, "span", 0), reservation.phase, reservation.marks, reservation.trouble);
      putNext(kid(state, "time", 1), reservation.upcoming, reservation.endedAt);
    }
    put(byId("reservation-why"), reservation?.why ?? "");
    byId("reservation-why").classList.toggle("bad", Boolean(reservation?.trouble));
    const [namespace, name] = page.name.split("/", 2);
    put(byId("hint"), reservation?.phase === "Pending" ? `kubectl tidelock why reservation/${name} -n ${namespace} shows each node's answer.` : "");
    showFacts(page, namespace);
    showLife(page.life);
    showConditions(page.conditions);
    showDecisions(page.decisions);
  },

  groups(page, route, go) {
    const heads = ["Group", "Phase", "Next", "Members"];
    fillHeads(byId("groups"), heads);
    fillRows(byId("groups"), heads, page.rows, (cells, group) => {
      membersLink(cells("th"), group.name);
      putState(cells(), group.phase, [], false);
      putNext(kid(cells(), "time", 0), group.upcoming, group.endedAt);
      const taken = group.consumed ? `, ${count(group.consumed)} taken by pods` : "";
      const needed = group.needed < group.members ? `, ${count(group.needed)} needed` : "";
      put(cells(), `${count(group.ready)} of ${count(group.members)} held${taken}${needed}`);
      return [group.why, group.trouble];
    });
    fillPart(byId("groups-pages"), page.part, (first) => go({ first }));
  },

  schedules(page, route, go) {
    const heads = ["Schedule", "Timetable", "Next window", "Last window", "Windows"];
    fillHeads(byId("schedules"), heads);
    fillRows(byId("schedules"), heads, page.rows, (cells, schedule) => {
      membersLink(cells("th"), schedule.name);
      put(cells(), schedule.timetable ? `${schedule.timetable}, ${span(schedule.seconds)} each` : "");
      moment(kid(cells(), "time", 0), schedule.nextStart, (left) => `begins ${inTime(left)}`);
      moment(kid(cells(), "time", 0), schedule.lastStart, (left) => `began ${ago(left)}`);
      showWindows(cells(), schedule);
      return [schedule.why, schedule.trouble];
    });
    fillPart(byId("schedules-pages"), page.part, (first) => go({ first }));
  },

  quotas(page, route, go) {
    const heads = ["Quota", "Use", "Other rules"];
    fillHeads(byId("quotas"), heads);
    fillRows(byId("quotas"), heads, page.rows, (cells, quota) => {
      putLink(cells("th"), quota.name, { namespace: quota.name.split("/")[0] });
      const use = kid(cells(), "div", 0);
      use.className = "uses";
      quota.lines.forEach((line, index) => fillUse(kid(use, "div", index), line));
      trim(use, quota.lines.length);
      const rules = cells();
      quota.rules.forEach((rule, index) => put(kid(rules, "div", index), rule));
      trim(rules, quota.rules.length);
      return [quota.why, quota.trouble];
    });
    fillPart(byId("quotas-pages"), page.part, (first) => go({ first }));
  },
};

// Nodes.

function fillBars(list, resources, amounts, water, note) {
  resources.forEach((resource, index) => {
    const group = kid(list, "div", index);
    put(kid(group, "dt", 0), resource);
    fillBar(kid(group, "dd", 1), resource, amounts[index], water[index] ?? null);
  });
  let length = resources.length;
  if (note) {
    const group = kid(list, "div", length++);
    put(kid(group, "dt", 0), "water level");
    const text = kid(group, "dd", 1);
    put(kid(text, "div", 0), note);
    trim(text, 1);
  }
  trim(list, length);
}

function waterText(page) {
  const levels = ["cpu", "memory"].flatMap((name, index) => {
    const water = page.water[index];
    return water ? [`${name} ${percent(water.mean)} on average, ${percent(water.least)} to ${percent(water.most)}`] : [];
  });
  return [`${count(page.measured)} of ${count(page.nodesPart.total)} nodes measured`, ...levels].join("; ");
}

function usesOf(node) {
  const uses = ["cpu", "memory"].flatMap((kind, index) =>
    (node.water[index] ?? null) === null ? [] : [`${kind} ${percent(node.water[index])}`],
  );
  return uses.length ? uses : ["not measured"];
}

function showNodes(page, route, go) {
  const heads = [["name", "Node"], ...page.resources.map((name) => [name, name]), ["water", "Water level"]];
  fillHeads(byId("nodes"), heads.map(([sort, title]) => (cell) => {
    const sorted = route.sort.replace(/^-/, "") === sort;
    // By name the first node is the least one, by an amount the fullest one.
    const falling = (sort === "name") === route.sort.startsWith("-");
    cell.setAttribute("aria-sort", sorted ? (falling ? "descending" : "ascending") : "none");
    const button = kid(cell, "button", 0);
    button.type = "button";
    button.onclick = () => go({ sort: route.sort === sort ? `-${sort}` : sort, nodes: 0 });
    put(button, title);
  }));
  fillRows(byId("nodes"), heads.map(([, title]) => title), page.nodes, (cells, node) => {
    const name = cells("th");
    nodeLink(kid(name, "span", 0), node.name);
    put(badge(kid(name, "span", 1), "bad"), node.state);
    node.amounts.forEach((amounts, index) => {
      const water = node.quality === "fresh" ? (node.water[index] ?? null) : null;
      fillBar(cells(), page.resources[index], amounts, index < 2 ? water : null);
    });
    const cell = cells();
    const known = node.quality === "fresh" || node.quality === "missing";
    put(kid(cell, "div", 0), usesOf(node).join(", "));
    const worth = kid(cell, "div", 1);
    worth.className = known ? "quiet" : "quiet bad";
    put(kid(worth, "span", 0), known ? "" : `${node.quality} `);
    moment(kid(worth, "time", 1), node.measuredAt, ago);
  });
  fillPart(byId("nodes-pages"), page.nodesPart, (nodes) => go({ nodes }));
}

function showTimeline(spans) {
  const labels = ["Reservation", "State", "Next", "Capacity", "Time"];
  fillHeads(byId("timeline"), [...labels.slice(0, 4), (cell) => {
    kid(cell, "div", 0).className = "scale";
  }]);
  fillRows(byId("timeline"), labels, spans, (cells, { reservation, begins, ends }) => {
    reservationLink(cells("th"), reservation.name);
    putState(cells(), reservation.phase, reservation.marks, reservation.trouble);
    putNext(kid(cells(), "time", 0), reservation.upcoming, reservation.endedAt);
    put(cells(), listed(reservation.capacity));
    const time = cells();
    time.className = "time";
    fillSpan(time, begins, ends, reservation.endedAt !== null);
    const text = kid(time, "div", 1);
    text.className = "figures quiet";
    put(kid(text, "span", 0), begins === null ? "waits for this node" : utc(begins));
    put(kid(text, "span", 1), ends === null ? "" : utc(ends));
    return [reservation.why, reservation.trouble];
  });
}

// Reservations.

function showReservations(reservations) {
  const heads = ["Name", "State", "Next", "Node", "Owner", "Capacity"];
  fillHeads(byId("reservations"), heads);
  fillRows(byId("reservations"), heads, reservations, (cells, reservation) => {
    reservationLink(cells("th"), reservation.name);
    putState(cells(), reservation.phase, reservation.marks, reservation.trouble);
    putNext(kid(cells(), "time", 0), reservation.upcoming, reservation.endedAt);
    nodeLink(cells(), reservation.node);
    put(cells(), reservation.owner);
    put(cells(), listed(reservation.capacity));
    return [reservation.why, reservation.trouble];
  });
}

function showFacts({ reservation, group, schedule, facts }, namespace) {
  const list = byId("facts");
  const named = [
    ["Node", reservation?.node, (place) => nodeLink(place, reservation.node)],
    ["Owner", reservation?.owner, (place) => put(place, reservation.owner)],
    ["Capacity", reservation?.capacity, (place) => put(place, reservation.capacity)],
    ["Group", group, (place) => putLink(place, group, { view: "groups", namespace, text: group })],
    ["Schedule", schedule, (place) => putLink(place, schedule, { view: "schedules", namespace, text: schedule })],
    ...facts.map(([name, value]) => [name, value, (place) => put(place, value)]),
  ].filter(([, value]) => value);
  named.forEach(([name, , fill], index) => {
    const item = kid(list, "div", index);
    put(kid(item, "dt", 0), name);
    fill(kid(kid(item, "dd", 1), "span", 0));
  });
  trim(list, named.length);
}

function showLife(life) {
  const heads = ["Event", "When", "Time"];
  fillHeads(byId("life"), heads);
  fillRows(byId("life"), heads, life, (cells, { at, event }) => {
    put(cells("th"), event);
    moment(kid(cells(), "time", 0), at, distance);
    put(cells(), utc(at));
  });
}

function showConditions(conditions) {
  const heads = ["Condition", "Status", "Reason", "Since"];
  fillHeads(byId("conditions"), heads);
  fillRows(byId("conditions"), heads, conditions, (cells, condition) => {
    put(cells("th"), condition.type);
    put(cells(), condition.status);
    put(cells(), condition.reason);
    moment(kid(cells(), "time", 0), condition.since, ago);
    return [condition.message, false];
  }, "Message");
}

function showDecisions(decisions) {
  const heads = ["Object", "Verdict", "When", "Node"];
  fillHeads(byId("decisions"), heads);
  fillRows(byId("decisions"), heads, decisions, (cells, decision) => {
    const name = cells("th");
    if (decision.kind === "Reservation") reservationLink(kid(name, "span", 0), decision.name);
    else putName(kid(name, "span", 0), decision.name);
    const kind = kid(name, "span", 1);
    kind.className = "quiet";
    put(kind, ` ${decision.kind.toLowerCase()}`);
    putState(cells(), decision.verdict, [], false);
    moment(kid(cells(), "time", 0), decision.at, ago);
    nodeLink(cells(), decision.node);
    return [decision.why, false];
  });
}

/** Amounts that are broken between resources only. */
function listed(amounts) {
  return amounts.split(", ").map((each) => each.replace(" ", "\u00a0")).join(", ");
}

// Groups and schedules.

/** A link to the reservations of a group or schedule. */
function membersLink(place, key) {
  const [namespace, name] = key.split("/", 2);
  putLink(place, key, { namespace, text: name });
}

function showWindows(place, schedule) {
  const namespace = schedule.name.split("/")[0];
  schedule.windows.forEach(({ name, begins, phase }, index) => {
    const line = kid(place, "div", index);
    putLink(kid(line, "span", 0), name, { view: "reservation", namespace, name });
    put(badge(kid(line, "span", 1), phase.toLowerCase()), phase);
    moment(kid(line, "time", 2), begins, distance);
  });
  trim(place, schedule.windows.length);
}
