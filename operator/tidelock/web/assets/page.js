// The web view: requests a stream of server-sent events, and shows each page of it.

import { address, byId, kid, parametersOf, put, readRoute, span, trim, utc, writeTimes } from "./parts.js";
import { show, titleOf } from "./screens.js";

const SILENCE = 30_000; // ms without news after which a connection counts as lost; usually there is news each second
const RETRY = 2_000; // ms
const TYPING = 300; // ms
const HEADINGS = { overview: "cluster-title", node: "node-title", reservation: "reservation-title" };

let route = readRoute(location.hash);
let moved = ""; // why the next page is shown in any case: the address changed, and maybe the screen with it
let page = null; // the last page of the stream
let replica = null;
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
  const answer = await fetch(`events?${parametersOf(route)}`, {
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
  if (news.replica !== undefined) {
    replica = news.replica;
    page = news.page;
    if (!paused || moved) {
      pausedAt = receivedAt;
      showAll();
    }
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

// Address.

/** Open the same screen with some parts of its address changed. */
function go(changes) {
  location.hash = address({ ...route, ...changes });
}

window.addEventListener("hashchange", () => {
  const before = route;
  route = readRoute(location.hash);
  const same = before.view === route.view && before.name === route.name;
  const list = route.name === "" || before.namespace === route.namespace;
  moved = same && list ? "list" : "screen";
  showControls();
  again();
});

/** Write the filter and the links of the header for the present address. */
function showControls() {
  document.title = `${titleOf(route)} - Tidelock`;
  const list = route.name === "";
  byId("search").hidden = !list;
  if (byId("text") !== document.activeElement) byId("text").value = route.text;
  for (const link of byId("views").children) {
    if (link.dataset.view === route.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    link.href = address({ view: link.dataset.view, namespace: list ? route.namespace : "" });
  }
  showNamespaces(page?.namespaces ?? []);
}

function showNamespaces(known) {
  const select = byId("namespace");
  const names = ["", ...new Set([...known, route.namespace].filter(Boolean))];
  names.forEach((name, index) => {
    const option = kid(select, "option", index);
    option.value = name;
    put(option, name || "all");
  });
  trim(select, names.length);
  select.value = route.namespace;
}

// Content of the page.

const LEADS = {
  leading: () => `${replica.instance} leads${replica.epoch ? `, leadership ${replica.epoch}` : ""}`,
  standby: () => `${replica.instance} stands by, ${podOf(replica.leader)} leads`,
  starting: () => `${replica.instance} is reading the cluster`,
};

/** An identity in the Lease is a pod's name and, after an underscore, a number of its own. */
function podOf(identity) {
  return identity.split("_")[0];
}

function showAll() {
  const notes = [];
  if (replica.state === "standby") {
    notes.push(`This replica has no data of the cluster while it stands by. Open the page of ${podOf(replica.leader)}.`);
  }
  if (replica.silence) {
    notes.push(`The API server has sent nothing for ${span(replica.silence)}: this page is as old as that.`);
  }
  byId("notice").hidden = notes.length === 0;
  put(byId("notice"), notes.join(" "));
  byId("main").hidden = page === null;
  if (page === null || page.view !== route.view) return;
  for (const section of document.querySelectorAll("main > section")) {
    section.hidden = !section.dataset.view.split(" ").includes(page.view);
  }
  if (page.namespaces !== undefined) showNamespaces(page.namespaces);
  show(page, route, go);
  if (page.view === "node") chooseHours();
  if (moved === "screen") {
    scrollTo(0, 0);
    heading().focus({ preventScroll: true });
  }
  moved = "";
}

function heading() {
  return byId(HEADINGS[route.view] ?? `${route.view}-title`);
}

/** Show as much time as the reservations of a node need, until the reader has chosen another time. */
function chooseHours() {
  const select = byId("hours");
  if (select.chosenFor === page.name) return;
  const longest = Math.max(0, ...page.reservations.flatMap(({ begins, ends }) =>
    [begins, ends].filter((each) => each !== null).map((each) => Math.abs(each - operatorTime) / 3600),
  ));
  const options = [...select.options].map((option) => Number(option.value));
  select.value = String(options.find((hours) => hours >= longest) ?? options.at(-1));
  select.chosenFor = page.name;
}

/** Update the parts of the page that change with time. */
function tick() {
  if (performance.now() - aliveAt > SILENCE) connection.abort("silence");
  const lost = operatorTime !== null && !connected;
  document.body.classList.toggle("lost", lost);
  const doing = failure || "trying again";
  put(
    byId("replica"),
    operatorTime === null
      ? failure || (connected ? "" : "Connecting…")
      : lost
        ? `Connection lost, ${doing}`
        : `${paused ? "Paused" : "Live"}: ${LEADS[replica.state]()}`,
  );
  byId("replica").className = operatorTime === null ? "" : lost ? "bad" : paused ? "paused" : "good";
  if (operatorTime === null) return;
  const shownAt = paused ? pausedAt : receivedAt;
  const age = Math.floor((performance.now() - shownAt) / 1000);
  const shownTime = operatorTime - (receivedAt - shownAt) / 1000;
  put(byId("age"), `as of ${utc(shownTime)}${age > 2 ? `, ${span(age)} old` : ""}`);
  // Without new data, or while the page is paused, its time stands still with its content.
  const now = paused || lost ? shownTime : operatorTime + (performance.now() - receivedAt) / 1000;
  writeTimes(now, Number(byId("hours").value));
}

// Controls.

byId("pause").addEventListener("click", () => {
  paused = !paused;
  pausedAt = receivedAt;
  byId("pause").setAttribute("aria-pressed", String(paused));
  if (!paused && replica !== null) showAll();
  tick();
});

let typing = 0;

byId("text").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    // Each letter in the history would make the way back long.
    route = { ...route, text: byId("text").value, nodes: 0, reservations: 0, first: 0 };
    history.replaceState(null, "", address(route));
    moved = "list";
    again();
  }, TYPING);
});

byId("namespace").addEventListener("change", () => {
  go({ namespace: byId("namespace").value, nodes: 0, reservations: 0, first: 0 });
});
byId("hours").addEventListener("change", tick);
byId("search").addEventListener("submit", (event) => event.preventDefault());
byId("skip").addEventListener("click", () => heading().focus());
document.addEventListener("visibilitychange", () => document.hidden && again());
setInterval(tick, 1000);
showControls();
follow();
