// Parts of a page: elements, bars, times and words. Everything is written as text, never as markup.
// Existing elements are kept, so a reader's position and selection stay.

export const ROWS = 50;
const WHOLE = 64; // letters of a name that stays on one line where there is room, as those of cloud nodes do

export const byId = (id) => document.getElementById(id);

// Addresses: #/nodes/NAME, #/reservations/NAMESPACE/NAME, and a list with its filter as parameters.

const PATHS = { node: "nodes", reservation: "reservations", groups: "groups", schedules: "schedules", quotas: "quotas" };
const BLANK = { view: "overview", namespace: "", name: "", text: "", sort: "name", nodes: 0, reservations: 0, first: 0 };

export function readRoute(hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [head, ...names] = path.split("/").map(decoded);
  const parameters = new URLSearchParams(search);
  const route = { ...BLANK };
  for (const name of ["namespace", "text", "sort"]) route[name] = parameters.get(name)?.slice(0, 253) || BLANK[name];
  for (const name of ["nodes", "reservations", "first"]) route[name] = wholeNumber(parameters.get(name));
  if (head === "nodes" && names.length === 1) return { ...route, view: "node", namespace: "", name: names[0] };
  if (head === "reservations" && names.length === 2) return { ...route, view: "reservation", namespace: names[0], name: names[1] };
  if (["groups", "schedules", "quotas"].includes(head)) return { ...route, view: head };
  return route;
}

export function address(route) {
  const full = { ...BLANK, ...route };
  const names = { node: [full.name], reservation: [full.namespace, full.name] }[full.view] ?? [];
  const path = [PATHS[full.view], ...names.map(encodeURIComponent)].filter((each) => each !== undefined).join("/");
  const left = names.length ? ["first"] : ["namespace", "text", "sort", "nodes", "reservations", "first"];
  const parameters = left.filter((name) => full[name] !== BLANK[name]).map((name) => [name, full[name]]);
  return `#/${path}${parameters.length ? `?${new URLSearchParams(parameters)}` : ""}`;
}

/** The parameters of a request for the route's page. */
export function parametersOf(route) {
  return new URLSearchParams(Object.entries(route).filter(([name, value]) => value !== BLANK[name]));
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function wholeNumber(text) {
  return /^\d{1,9}$/.test(text ?? "") ? Number(text) : 0;
}

// Elements.

/** The child of this tag at this index, created if it is missing. */
export function kid(parent, tag, index) {
  const known = parent.children[index];
  if (known?.localName === tag) return known;
  const made = document.createElement(tag);
  if (known) known.replaceWith(made);
  else parent.append(made);
  return made;
}

export function trim(parent, length) {
  while (parent.children.length > length) parent.lastElementChild.remove();
}

export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Write a name that can be broken after each dot, slash and hyphen, and nowhere else unless it must. */
export function putName(element, name) {
  if (element.textContent === name) return;
  const parts = name.split(/(?<=[./-])/);
  element.replaceChildren(...parts.flatMap((part, index) => (index ? [document.createElement("wbr"), part] : [part])));
}

/** A link with a name, or nothing without a name. */
export function putLink(place, name, route) {
  if (!name) {
    trim(place, 0);
    return;
  }
  const link = kid(place, "a", 0);
  link.className = name.length <= WHOLE ? "name whole" : "name";
  link.href = address(route);
  link.setAttribute("aria-label", name); // which is read as one word, wherever it may be broken
  putName(link, name);
}

export function nodeLink(place, name) {
  putLink(place, name, { view: "node", name });
}

export function reservationLink(place, key) {
  const [namespace, name] = key.split("/", 2);
  putLink(place, key, { view: "reservation", namespace, name });
}

export function badge(element, kind) {
  element.className = kind ? `badge ${kind}` : "badge";
  return element;
}

/** Write a phase, and a badge for each mark. */
export function putState(place, phase, marks, trouble) {
  put(badge(kid(place, "span", 0), phase.toLowerCase()), phase);
  marks.forEach((mark, index) => put(badge(kid(place, "span", index + 1), trouble ? "mark bad" : "mark"), mark));
  trim(place, marks.length + 1);
}

// Tables.

/** Write the headings of a table. A heading is a text, or a function that fills its cell. */
export function fillHeads(table, heads) {
  const row = table.tHead.rows[0];
  heads.forEach((head, index) => {
    const cell = kid(row, "th", index);
    cell.scope = "col";
    cell.setAttribute("role", "columnheader");
    if (typeof head === "function") head(cell);
    else put(cell, head);
  });
  trim(row, heads.length);
}

/**
 * Write a row for each item, and a row `below` it with its reason. `fill` gets a function that returns the next
 * cell by its tag, and returns the reason: a text and whether it reports trouble.
 */
export function fillRows(table, labels, items, fill, below = "Reason") {
  const body = table.tBodies[0];
  let rows = 0;
  for (const item of items) {
    const row = kid(body, "tr", rows++);
    row.className = "";
    row.setAttribute("role", "row");
    let place = 0;
    const cells = (tag = "td") => cell(row, tag, place, labels[place++]);
    const [why, trouble] = fill(cells, item) ?? [""];
    trim(row, place);
    if (!why) continue;
    row.className = "explained";
    const next = kid(body, "tr", rows++);
    next.className = "below";
    next.setAttribute("role", "row");
    const reason = cell(next, "td", 0, below);
    reason.colSpan = labels.length;
    reason.className = trouble ? "why bad" : "why";
    trim(next, 1);
    put(reason, why);
  }
  trim(body, rows);
}

function cell(row, tag, index, label) {
  const made = kid(row, tag, index);
  made.colSpan = 1;
  made.className = "";
  made.dataset.label = label;
  if (tag === "th") made.scope = "row";
  made.setAttribute("role", tag === "th" ? "rowheader" : "cell");
  return made;
}

/** Write the place of a page in its list, with buttons to the pages before and after. */
export function fillPart(nav, part, turn) {
  const last = Math.min(part.first + ROWS, part.matching);
  const shown = part.matching ? `${count(part.first + 1)} to ${count(last)} of ${count(part.matching)}` : "none";
  const all = part.matching === part.total ? "" : ` that match, of ${count(part.total)}`;
  turner(kid(nav, "button", 0), "Previous", part.first > 0, part.first - ROWS);
  put(kid(nav, "span", 1), shown + all);
  turner(kid(nav, "button", 2), "Next", last < part.matching, part.first + ROWS);

  function turner(button, title, possible, target) {
    button.type = "button";
    button.disabled = !possible;
    button.onclick = () => turn(Math.max(target, 0));
    put(button, title);
  }
}

// Bars.

/** Draw the requested, reserved and free parts of the capacity with the water level, and write the same in figures. */
export function fillBar(place, resource, [allocatable, requested, reserved], water) {
  const bar = kid(place, "div", 0);
  bar.setAttribute("aria-hidden", "true");
  bar.className = requested + reserved > allocatable ? "bar over" : "bar";
  const share = (amount) => `${allocatable ? Math.min(100, (100 * amount) / allocatable) : 0}%`;
  const [taken, held, line] = ["requested", "reserved", "water"].map((name, index) => {
    const part = kid(bar, "span", index);
    part.className = name;
    return part;
  });
  taken.style.width = share(requested);
  held.style.left = share(requested);
  held.style.width = share(Math.min(reserved, Math.max(allocatable - requested, 0)));
  line.hidden = water === null;
  line.style.left = `${water ?? 0}%`;
  const free = allocatable - requested - reserved;
  const [used, kept, all, rest] = [requested, reserved, allocatable, Math.abs(free)].map((each) => amount(resource, each));
  const figures = kid(place, "div", 1);
  figures.className = "figures";
  put(kid(figures, "span", 0), allocatable || requested || reserved ? `${used} + ${kept} of ${all}` : "none");
  const left = kid(figures, "span", 1);
  left.className = free < 0 ? "bad" : "quiet";
  put(left, !allocatable && free === 0 ? "" : free < 0 ? `${rest} too much` : `${rest} free`);
}

/** Draw how much of a limit is used, and write the same in figures. */
export function fillUse(place, { resource, share, used, hard }) {
  put(kid(place, "div", 0), resource);
  const bar = kid(place, "div", 1);
  bar.setAttribute("aria-hidden", "true");
  bar.className = share > 1 ? "bar over" : "bar";
  const part = kid(bar, "span", 0);
  part.className = "reserved";
  part.style.left = "0";
  part.style.width = `${Math.min(100, 100 * share)}%`;
  const figures = kid(place, "div", 2);
  figures.className = share > 1 ? "figures bad" : "figures";
  put(kid(figures, "span", 0), `${used} of ${hard}`);
}

// Times. An element with an instant is written again every second, see `writeTimes`.

/** A time relative to now that goes on. */
export function moment(element, at, write) {
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
    element.title = utc(at);
  }
}

/** The nearest event of a reservation, or its end. */
export function putNext(element, upcoming, endedAt) {
  if (endedAt !== null) moment(element, endedAt, (left) => `ended ${ago(left)}`);
  else if (upcoming === null) moment(element, null);
  else moment(element, upcoming[0], (left) => `${upcoming[1]} ${inTime(left)}`);
}

/** A bar of the time for which capacity is held, around now. */
export function fillSpan(place, begins, ends, over) {
  const bar = kid(place, "div", 0);
  bar.className = "span";
  bar.setAttribute("aria-hidden", "true");
  bar.range = begins === null ? null : [begins, ends ?? Infinity, over];
}

/** Write all times and bars of time for an instant of the operator's clock. */
export function writeTimes(now, hours) {
  for (const element of document.querySelectorAll("time")) {
    if (element.at !== null && element.at !== undefined) put(element, element.write(element.at - now));
  }
  const share = (at) => Math.min(Math.max((at - now) / (7200 * hours) + 0.5, 0), 1);
  for (const bar of document.querySelectorAll(".span")) {
    const [begins, ends, over] = bar.range ?? [now, now, false];
    const split = over ? ends : Math.min(Math.max(now, begins), ends);
    [[begins, split, over ? "ended" : "past"], [split, ends, "ahead"]].forEach(([from, to, name], index) => {
      const part = kid(bar, "span", index);
      part.className = name;
      part.style.left = `${100 * share(from)}%`;
      part.style.width = `${100 * (share(to) - share(from))}%`;
    });
    kid(bar, "span", 2).className = "now";
  }
  for (const scale of document.querySelectorAll(".scale")) {
    [-1, 0, 1].forEach((side, index) => put(kid(scale, "span", index), side ? hour(now + side * hours * 3600, hours) : "now"));
  }
}

// Words.

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const numbers = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, useGrouping: true });
const wholes = new Intl.NumberFormat("en");

function amount(resource, units) {
  if (resource === "cpu") return figure(units / 1000);
  if (!/^(memory|ephemeral-storage|hugepages-.*)$/.test(resource)) return count(units);
  const power = units > 0 ? Math.min(Math.floor(Math.log2(units) / 10), BINARY.length - 1) : 0;
  return figure(units / 1024 ** power) + BINARY[power];
}

function figure(value) {
  return value >= 1000 ? wholes.format(Math.round(value)) : numbers.format(value);
}

export function count(number) {
  return wholes.format(number);
}

export function percent(value) {
  return `${Math.round(value)}%`;
}

/** A duration by its two largest units, as kubectl writes it. */
export function span(seconds) {
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

export function ago(left) {
  return left > -1 ? "just now" : `${span(-left)} ago`;
}

export function inTime(left) {
  return left < 0 ? "now" : `in ${span(left)}`;
}

/** Time before or after now. */
export function distance(left) {
  return left < 0 ? ago(left) : inTime(left);
}

export function utc(at) {
  const text = new Date(at * 1000).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 19)} UTC`;
}

function hour(at, hours) {
  const text = new Date(at * 1000).toISOString();
  return `${hours > 12 ? `${text.slice(5, 10)} ` : ""}${text.slice(11, 16)} UTC`;
}
