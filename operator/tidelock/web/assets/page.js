// The web view: requests a stream of server-sent events, and shows each page of it.
// Everything is written as text, never as markup.
"use strict";

const SILENCE = 30_000; // ms without news after which a connection counts as lost; usually there is news each second
const RETRY = 2_000; // ms
const TYPING = 300; // ms
const ROWS = 50;

const query = { text: "", sort: "name", nodes: 0, locks: 0 };
const byId = (id) => document.getElementById(id);

let page = null; // the last page of the stream
let standing = null;
let operatorTime = null; // the operator's clock, in seconds, at its last news
let receivedAt = 0; // this machine's monotonic clock, in ms, at that moment
let aliveAt = 0; // the same for the last event, or the last request
let pausedAt = 0; // the same for the news on the page while it is paused
let connected = false;
let failure = "";
let paused = false;
let connection = new AbortController();

// Connection.

async function follow() {
  for (;;) {
    await visible();
    try {
      await listen();
    } catch (error) {
      failure = error instanceof Refused ? error.message : "";
    }
    if (!connection.signal.aborted || connection.signal.reason === "silence") {
      connected = false;
      tick();
      await new Promise((resolve) => setTimeout(resolve, RETRY));
    }
  }
}

class Refused extends Error {}

async function listen() {
  connection = new AbortController();
  const token = sessionStorage.getItem("token");
  const headers = token === null ? {} : { Authorization: `Bearer ${token}` };
  aliveAt = performance.now();
  const answer = await fetch(`events?${new URLSearchParams(query)}`, {
    headers,
    cache: "no-store",
    signal: connection.signal,
  });
  if (answer.status === 401) {
    await ask(token !== null);
    connection.abort("token");
    return;
  }
  if (!answer.ok) throw new Refused(`${answer.status}: ${await answer.text()}`);
  let rest = "";
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) hear(JSON.parse(event.slice("data: ".length)));
  }
}

function hear(news) {
  connected = true;
  failure = "";
  operatorTime = news.now;
  receivedAt = aliveAt = performance.now();
  if (news.standing !== undefined) {
    standing = news.standing;
    page = news.page;
    if (!paused) show();
  }
  tick();
}

/** Request the stream again, because the query changed. */
function again() {
  connection.abort("again");
}

async function ask(refused) {
  const dialog = byId("ask");
  byId("refused").hidden = !refused;
  byId("token").value = "";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  sessionStorage.setItem("token", byId("token").value);
}

/** Wait until the page is visible: a hidden page costs the operator nothing. */
async function visible() {
  while (document.hidden) {
    await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
  }
}

// Content of the page.

const LEADS = {
  leading: () => `${standing.instance} leads${standing.epoch ? `, leadership ${standing.epoch}` : ""}`,
  standby: () => `${standing.instance} stands by, ${podOf(standing.leader)} leads`,
  starting: () => `${standing.instance} is reading the cluster`,
};

/** An identity in the Lease is a pod's name and, after an underscore, a number of its own. */
function podOf(identity) {
  return identity.split("_")[0];
}

function show() {
  byId("main").hidden = page === null;
  const notes = [];
  if (standing.state === "standby") {
    notes.push(`This replica has no data of the cluster while it stands by. Open the page of ${podOf(standing.leader)}.`);
  }
  if (standing.silence) {
    notes.push(`The API server has sent nothing for ${span(standing.silence)}: this page is as old as that.`);
  }
  byId("notice").hidden = notes.length === 0;
  put(byId("notice"), notes.join(" "));
  if (page === null) return;
  showTotals();
  showNodes();
  showReservations();
  showDecisions();
  tick();
}

function showTotals() {
  const items = page.resources.map((resource, index) => [
    resource,
    (place) => fillBar(place, resource, page.totals[index], page.water[index]?.mean ?? null),
  ]);
  items.push(["water level", (place) => put(kid(place, "div", 0), waterText())]);
  const list = byId("totals");
  items.forEach(([name, fill], index) => {
    const group = kid(list, "div", index);
    put(kid(group, "dt", 0), name);
    fill(kid(group, "dd", 1));
  });
  trim(list, items.length);
}

function waterText() {
  const levels = ["cpu", "memory"].flatMap((name, index) => {
    const water = page.water[index];
    return water ? [`${name} ${percent(water.mean)} on average, ${percent(water.least)} to ${percent(water.most)}`] : [];
  });
  const measured = `${count(page.measured)} of ${count(page.nodesPart.total)} nodes measured`;
  return [measured, ...levels].join("; ");
}

function showNodes() {
  const heads = [["name", "Node"], ...page.resources.map((name) => [name, name]), ["water", "Water level"]];
  const row = byId("nodes").tHead.rows[0];
  heads.forEach(([sort, title], index) => {
    const cell = kid(row, "th", index);
    cell.scope = "col";
    const sorted = query.sort.replace(/^-/, "") === sort;
    // By name the first node is the least one, by an amount the fullest one.
    const falling = (sort === "name") === query.sort.startsWith("-");
    cell.setAttribute("aria-sort", sorted ? (falling ? "descending" : "ascending") : "none");
    const button = kid(cell, "button", 0);
    button.type = "button";
    button.onclick = () => sortBy(sort);
    put(button, title);
  });
  trim(row, heads.length);
  fillRows(byId("nodes"), page.nodes, (cells, node) => {
    const name = cells("th");
    name.scope = "row";
    put(kid(name, "span", 0), node.name);
    put(badge(kid(name, "span", 1), node.state === "" ? "" : "bad"), node.state);
    node.amounts.forEach((amounts, index) => {
      const water = node.quality === "fresh" ? (node.water[index] ?? null) : null;
      fillBar(cells("td"), page.resources[index], amounts, water);
    });
    const cell = cells("td");
    const uses = ["cpu", "memory"].flatMap((kind, index) =>
      node.water[index] === null ? [] : [`${kind} ${percent(node.water[index])}`],
    );
    put(kid(cell, "div", 0), uses.join(", ") || "not measured");
    const worth = kid(cell, "div", 1);
    worth.className = node.quality === "fresh" || node.quality === "missing" ? "quiet" : "quiet bad";
    put(kid(worth, "span", 0), node.quality === "fresh" || node.quality === "missing" ? "" : `${node.quality} `);
    moment(kid(worth, "time", 1), node.measuredAt, ago);
  });
  showPart("nodes", page.nodesPart);
}

function sortBy(sort) {
  query.sort = query.sort === sort ? `-${sort}` : sort;
  query.nodes = 0;
  again();
}

function showReservations() {
  const phases = Object.entries(page.phases).map(([phase, number]) => `${count(number)} ${phase}`);
  put(byId("phases"), phases.join(", ") || "There are none.");
  fillRows(byId("locks"), page.reservations, (cells, reservation) => {
    const name = cells("th");
    name.scope = "row";
    put(name, reservation.name);
    put(badge(kid(cells("td"), "span", 0), reservation.phase.toLowerCase()), reservation.phase);
    put(cells("td"), reservation.node);
    put(cells("td"), reservation.owner);
    const capacity = cells("td");
    capacity.className = "room";
    put(capacity, reservation.room);
    const time = kid(cells("td"), "time", 0);
    if (reservation.endedAt !== null) moment(time, reservation.endedAt, (left) => `ended ${ago(left)}`);
    else moment(time, reservation.until, (left) => (reservation.phase === "Pending" ? `waits ${span(left)} more` : span(left)));
    const why = cells("td");
    why.className = reservation.trouble ? "why bad" : "why";
    put(why, reservation.why);
  });
  showPart("locks", page.reservationsPart);
}

function showDecisions() {
  fillRows(byId("decisions"), page.decisions, (cells, decision) => {
    moment(kid(cells("td"), "time", 0), decision.at, ago);
    const name = cells("th");
    name.scope = "row";
    put(kid(name, "span", 0), decision.name);
    const kind = kid(name, "span", 1);
    kind.className = "quiet";
    put(kind, ` ${decision.kind.toLowerCase()}`);
    put(badge(kid(cells("td"), "span", 0), decision.verdict.toLowerCase()), decision.verdict);
    put(cells("td"), decision.node);
    const why = cells("td");
    why.className = "why";
    put(why, decision.why);
  });
}

function showPart(name, part) {
  const nav = byId(`${name}-pages`);
  const last = Math.min(part.first + ROWS, part.matching);
  const shown = part.matching ? `${count(part.first + 1)} to ${count(last)} of ${count(part.matching)}` : "none";
  const all = part.matching === part.total ? "" : ` that match, of ${count(part.total)}`;
  turner(kid(nav, "button", 0), "Previous", part.first > 0, () => part.first - ROWS);
  put(kid(nav, "span", 1), shown + all);
  turner(kid(nav, "button", 2), "Next", last < part.matching, () => part.first + ROWS);

  function turner(button, title, possible, target) {
    button.type = "button";
    button.disabled = !possible;
    button.onclick = () => {
      query[name] = Math.max(target(), 0);
      again();
    };
    put(button, title);
  }
}

// Parts of the page: existing elements are kept, so a reader's position and selection stay.

/** The child of this tag at this index, created if it is missing. */
function kid(parent, tag, index) {
  const known = parent.children[index];
  if (known?.localName === tag) return known;
  const made = document.createElement(tag);
  if (known) known.replaceWith(made);
  else parent.append(made);
  return made;
}

function trim(parent, length) {
  while (parent.children.length > length) parent.lastElementChild.remove();
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function badge(element, kind) {
  element.className = kind ? `badge ${kind}` : "";
  return element;
}

function fillRows(table, items, fill) {
  const body = table.tBodies[0];
  items.forEach((item, index) => {
    const row = kid(body, "tr", index);
    let next = 0;
    fill((tag) => kid(row, tag, next++), item);
    trim(row, next);
  });
  trim(body, items.length);
}

/** Draw the requested, reserved and free parts of the capacity with the water level, and write the same in figures. */
function fillBar(place, resource, [allocatable, requested, locked], water) {
  const bar = kid(place, "div", 0);
  bar.setAttribute("aria-hidden", "true");
  bar.className = requested + locked > allocatable ? "bar over" : "bar";
  const share = (amount) => `${allocatable ? Math.min(100, (100 * amount) / allocatable) : 0}%`;
  const [taken, held, line] = ["requested", "locked", "water"].map((name, index) => {
    const part = kid(bar, "span", index);
    part.className = name;
    return part;
  });
  taken.style.width = share(requested);
  held.style.left = share(requested);
  held.style.width = share(Math.min(locked, Math.max(allocatable - requested, 0)));
  line.hidden = water === null;
  line.style.left = `${water ?? 0}%`;
  const free = allocatable - requested - locked;
  const [used, kept, all, rest] = [requested, locked, allocatable, Math.abs(free)].map((each) => amount(resource, each));
  const figures = kid(place, "div", 1);
  figures.className = "figures";
  put(kid(figures, "span", 0), allocatable || requested || locked ? `${used} + ${kept} of ${all}` : "none");
  const left = kid(figures, "span", 1);
  left.className = free < 0 ? "bad" : "quiet";
  put(left, !allocatable && free === 0 ? "" : free < 0 ? `${rest} too much` : `${rest} free`);
}

/** A time relative to now that goes on. */
function moment(element, at, write) {
  element.at = at;
  element.write = write;
  if (at === null) {
    element.removeAttribute("datetime");
    element.removeAttribute("title");
    put(element, "");
    return;
  }
  const instant = new Date(at * 1000).toISOString();
  if (element.dateTime !== instant) {
    element.dateTime = instant;
    element.title = instant;
  }
}

// Words.

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const numbers = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, useGrouping: true });
const wholes = new Intl.NumberFormat("en");

function amount(resource, units) {
  if (resource === "cpu") return figure(units / 1000);
  if (resource !== "memory") return count(units);
  const power = units > 0 ? Math.min(Math.floor(Math.log2(units) / 10), BINARY.length - 1) : 0;
  return figure(units / 1024 ** power) + BINARY[power];
}

function figure(value) {
  return value >= 1000 ? wholes.format(Math.round(value)) : numbers.format(value);
}

function count(number) {
  return wholes.format(number);
}

function percent(value) {
  return `${Math.round(value)}%`;
}

/** A duration by its two largest units, as kubectl writes it. */
function span(seconds) {
  let left = Math.max(Math.floor(seconds), 0);
  if (left < 120) return `${left}s`;
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    const number = Math.floor(left / size);
    left %= size;
    if (number || parts.length) parts.push(number ? `${number}${unit}` : "");
  }
  return parts.slice(0, 2).join("");
}

function ago(left) {
  return left > -1 ? "just now" : `${span(-left)} ago`;
}

/** Update the parts of the page that change with time. */
function tick() {
  if (performance.now() - aliveAt > SILENCE) connection.abort("silence");
  const lost = operatorTime !== null && !connected;
  document.body.classList.toggle("lost", lost);
  const doing = failure || "trying again";
  put(
    byId("standing"),
    operatorTime === null
      ? failure || (connected ? "" : "Connecting…")
      : lost
        ? `Connection lost, ${doing}`
        : `${paused ? "Paused" : "Live"}: ${LEADS[standing.state]()}`,
  );
  byId("standing").className = operatorTime === null ? "" : lost ? "bad" : paused ? "paused" : "good";
  if (operatorTime === null) return;
  const shownAt = paused ? pausedAt : receivedAt;
  const age = Math.floor((performance.now() - shownAt) / 1000);
  const shownTime = operatorTime - (receivedAt - shownAt) / 1000;
  put(byId("age"), `as of ${new Date(shownTime * 1000).toLocaleTimeString()}${age > 2 ? `, ${span(age)} old` : ""}`);
  // Without new data, or while the page is paused, its time stands still with its content.
  const now = paused || lost ? shownTime : operatorTime + (performance.now() - receivedAt) / 1000;
  for (const element of document.querySelectorAll("time")) {
    if (element.at !== null && element.at !== undefined) put(element, element.write(element.at - now));
  }
}

byId("pause").addEventListener("click", () => {
  paused = !paused;
  pausedAt = receivedAt;
  byId("pause").setAttribute("aria-pressed", String(paused));
  if (!paused && standing !== null) show();
  tick();
});

let typing = 0;

byId("text").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    Object.assign(query, { text: byId("text").value, nodes: 0, locks: 0 });
    again();
  }, TYPING);
});

byId("search").addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("visibilitychange", () => document.hidden && again());
setInterval(tick, 1000);
follow();
