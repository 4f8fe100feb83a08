// The page: views of /api/, which are requested again every few seconds while visible.

import {
  bytes, counted, legend, make, meter, named, octets, rate, span, spark, strip, timeline, visible, when, whole,
} from "./draw.js";

const LOOK_MS = 2000;
const PATIENCE_MS = 8000;
const KEPT_SAMPLES = 150;
const NEARLY_FULL = 0.9; // of a disk
const SOON_SECONDS = 3600; // until a disk is full

const main = document.getElementById("main");
const state = document.getElementById("state");
const said = document.getElementById("said");
const trouble = document.getElementById("trouble");
const keys = document.getElementById("keys");
const rates = new Map(); // of topics: the last counters, and the rates between the last two answers
const samples = []; // of all topics: time, bytes in and out a second
let sums = null; // the counters of all topics in the last answer
let current = null;
let paused = false;
let timer = 0;
let asked = 0;
let heard = ""; // when the broker answered last

class Refusal extends Error {}

async function ask(path, query = {}) {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ""));
  const answer = await fetch(`/api/${path}${words.size ? `?${words}` : ""}`, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
  if (!answer.ok) throw new Refusal((await answer.text()).trim());
  return answer.json();
}

// Parts that views share

function card(title, ...children) {
  return make("section", { class: "card" }, title && make("h2", {}, title), children);
}

function facts(pairs) {
  return make("dl", { class: "facts" }, pairs.map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

function message(kind, text) {
  return make("p", { class: `message ${kind}` }, text);
}

function tag(text, kind = "") {
  return make("span", { class: `tag ${kind}` }, text);
}

/** A table; columns are [heading, class, cell]; the first cell is a link to where `open` says. */
function table(columns, rows, { open = null, key = null, none = "There is nothing." } = {}) {
  if (!rows.length) return make("p", { class: "soft" }, none);
  const head = make("tr", {}, columns.map(([name, kind]) => make("th", { class: kind, scope: "col" }, name)));
  const body = rows.map((row) => {
    const link = (text) => make("a", { class: "row", href: hashOf(open(row)), "data-key": key(row) }, text);
    return make("tr", { class: open && "opens", onclick: open && ((event) => event.target.closest("a") || go(open(row))) },
      columns.map(([name, kind, cell], at) => make("td", { class: kind, "data-name": name }, open && at === 0 ? link(cell(row)) : cell(row))));
  });
  const isLong = columns.some(([, kind]) => kind.includes("words"));
  return make("div", { class: "wide" }, make("table", { class: isLong && "long" }, make("thead", {}, head), make("tbody", {}, body)));
}

/** The note below a shortened list. */
function remainder(left, words) {
  return left > 0 && make("p", { class: "soft" }, `and ${whole(left)} more; ${words}`);
}

function fold(count, left, noun) {
  return left ? `${whole(count - left)} of ${counted(count, noun)}` : counted(count, noun);
}

function searchBar(view, words, more = []) {
  const input = make("input", { type: "search", placeholder: words, "aria-label": words, id: "filter", autocomplete: "off", spellcheck: "false" });
  input.value = view.query.q ?? "";
  let typed = 0;
  input.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(() => {
      view.query.q = input.value;
      look();
    }, 150);
  });
  const count = make("span", { class: "count" });
  return { count, bar: make("div", { class: "bar" }, input, more, count) };
}

// Views: each sends requests and shows the answers in `main`; `mount` makes what stays between answers

class Overview {
  title = "Overview";

  async ask() {
    const [overview, topics] = await Promise.all([ask("overview"), ask("topics", { limit: 5, sort: "size" })]);
    note(topics, topics.topics, true);
    return { overview, topics };
  }

  show({ overview, topics }) {
    const now = samples.at(-1);
    const health = overview.ready
      ? message("good", "Ready: a record makes its round trip through the broker.")
      : message("bad", `Not ready: ${overview.fault}`);
    main.replaceChildren(
      health,
      ...overview.disks.filter((each) => each.trouble && !overview.fault?.includes(`log directory ${each.path} `)).map((each) => message("bad", `Log directory ${each.path} ${each.trouble}.`)),
      ...overview.remarks.map((each) => message("warn", each)),
      make("div", { class: "grid" },
        card("Traffic", make("div", { class: "big" }, now ? rate(now[1]) : "…", make("small", {}, " in, "), now ? rate(now[2]) : "…", make("small", {}, " out")),
          samples.length > 1 && spark(samples),
          make("p", { class: "soft" }, make("span", { class: "swatch-in" }, "━"), " in  ", make("span", { class: "swatch-out" }, "━"), " out, since this page is open")),
        card("Broker", facts([
          ["version", overview.version],
          ["cluster", overview.cluster_id],
          ["node", String(overview.node_id)],
          ["up for", span(overview.uptime_seconds)],
          ["topics", `${whole(overview.topics)} with ${counted(overview.partitions, "partition")}`],
          ["connections", whole(overview.connections)],
          ["memory", bytes(overview.resident_bytes)],
          ["loop late by", `${span(overview.loop_lag_seconds)} at most, in the last minute`],
          ...Object.entries(overview.advertised).map(([name, address]) => [name, address]),
        ])),
        ...overview.disks.map(disk)),
      card("Largest topics", table(topicColumns, topics.topics, { open: (row) => `topic/${row.name}`, key: (row) => row.name, none: "There are no topics yet." })));
  }
}

function disk(each) {
  const used = each.total_bytes > 0 ? 1 - each.free_bytes / each.total_bytes : 0;
  const isSoon = used >= NEARLY_FULL || (each.seconds_left !== null && each.seconds_left < SOON_SECONDS);
  const kind = { plenty: isSoon ? "dirty" : "clean", scarce: "dirty", short: "bad" }[each.level];
  const end = each.reserve_bytes ? " (down to the reserve)" : "";
  const left = each.seconds_left === null ? "not filling up" : `in ${span(each.seconds_left)}, as it goes now${end}`;
  return card("Disk", make("div", { class: "big" }, bytes(each.free_bytes), make("small", {}, ` free of ${bytes(each.total_bytes)}`)),
    meter(used, kind, `${Math.round(used * 100)} % used`),
    facts([
      ["folder", each.path],
      ["full", each.level === "short" ? `now${end}` : left],
      ["reserve", each.reserve_bytes ? bytes(each.reserve_bytes) : "none: log.dirs.reserve.bytes is 0"],
    ]),
    each.warning && message("warn", each.warning));
}

const topicColumns = [
  ["Topic", "name", (row) => [row.name, " ", row.internal && tag("internal"), row.offline > 0 && tag(`${row.offline} offline`, "bad")]],
  ["Policy", "optional", (row) => row.cleanup_policy || "none"],
  ["Partitions", "number optional", (row) => whole(row.partitions)],
  ["Segments", "number optional", (row) => whole(row.segments)],
  ["Size", "number", (row) => bytes(row.size_bytes)],
  ["In", "number", (row) => rate(rates.get(row.name)?.in ?? null)],
  ["Out", "number", (row) => rate(rates.get(row.name)?.out ?? null)],
];

/** Compute rates from counters and the previous ones, for each topic and for all together. */
function note(answer, topics, isAll) {
  for (const topic of topics) {
    const before = rates.get(topic.name);
    const seconds = before && before.id === topic.id ? (answer.now_ms - before.now_ms) / 1000 : 0;
    if (seconds > 0 && seconds < 0.5) continue;
    const fact = { id: topic.id, now_ms: answer.now_ms, bytes_in: topic.bytes_in, bytes_out: topic.bytes_out, in: null, out: null };
    if (seconds > 0 && seconds < 60) {
      fact.in = Math.max(0, topic.bytes_in - before.bytes_in) / seconds;
      fact.out = Math.max(0, topic.bytes_out - before.bytes_out) / seconds;
    }
    rates.set(topic.name, fact);
  }
  if (!isAll) return;
  const seconds = sums ? (answer.now_ms - sums.now_ms) / 1000 : 0;
  if (seconds > 0 && seconds < 0.5) return;
  if (seconds > 0 && seconds < 60) {
    samples.push([answer.now_ms, Math.max(0, answer.bytes_in - sums.bytes_in) / seconds, Math.max(0, answer.bytes_out - sums.bytes_out) / seconds]);
    if (samples.length > KEPT_SAMPLES) samples.shift();
  } else samples.length = 0;
  sums = answer;
}

class Topics {
  title = "Topics";
  query = { q: "", sort: "name" };

  mount() {
    const sort = make("select", { "aria-label": "sort by" }, ["name", "size", "in", "out", "partitions"].map((each) => make("option", { value: each, selected: each === this.query.sort }, `by ${each}`)));
    sort.addEventListener("change", () => {
      this.query.sort = sort.value;
      look();
    });
    const { bar, count } = searchBar(this, "part of a topic's name", [sort]);
    this.count = count;
    this.list = make("div", {});
    main.replaceChildren(bar, card(null, this.list));
  }

  async ask() {
    const answer = await ask("topics", this.query);
    note(answer, answer.topics, this.query.q === "");
    return answer;
  }

  show(answer) {
    this.count.textContent = fold(answer.total, answer.left_out, "topic");
    this.list.replaceChildren(table(topicColumns, answer.topics, { open: (row) => `topic/${row.name}`, key: (row) => row.name, none: this.query.q ? "No topic has such a name." : "There are no topics yet." }),
      remainder(answer.left_out, "type a part of the name above") || "");
  }
}

class Topic {
  constructor(name) {
    this.title = name;
    this.query = { name, from: "" };
  }

  async ask() {
    const answer = await ask("topic", this.query);
    note(answer, [answer], false);
    return answer;
  }

  show(topic) {
    const pace = rates.get(topic.name);
    const compacted = topic.cleanup_policy.includes("compact");
    const given = topic.settings.filter((each) => each.source !== "default");
    const rest = topic.settings.filter((each) => each.source === "default");
    const next = topic.from + topic.partition_details.length;
    const isOpen = main.querySelector("details")?.open ?? false;
    main.replaceChildren(
      make("p", { class: "bar" }, make("a", { href: "#topics" }, "← all topics"), make("a", { href: hashOf(`records/${topic.name}`) }, "its records →")),
      card(topic.name, facts([
        ["policy", topic.cleanup_policy || "none: everything is kept"],
        ["size", `${bytes(topic.size_bytes)} in ${counted(topic.segments, "segment")}`],
        ["traffic", `${rate(pace?.in ?? null)} in, ${rate(pace?.out ?? null)} out`],
        ["partitions", whole(topic.partitions)],
        ["id", topic.id],
      ])),
      card(["Segments ", make("small", {}, "oldest first, as wide as their bytes")],
        legend(compacted ? ["clean", "tombstones", "dirty", "active"] : ["plain", "active"]),
        topic.partition_details.map((each) => partition(each, compacted)),
        topic.partitions > topic.partition_details.length && make("p", { class: "bar" },
          topic.from > 0 && make("button", { type: "button", onclick: () => this.turn(Math.max(0, topic.from - 100)) }, "earlier partitions"),
          next < topic.partitions && make("button", { type: "button", onclick: () => this.turn(next) }, `partitions from ${next}`))),
      card("Settings", settingsTable(given),
        make("details", { open: isOpen }, make("summary", {}, counted(rest.length, "default")), settingsTable(rest))));
  }

  turn(from) {
    this.query.from = from || "";
    look();
  }
}

/** Records of one partition: the last ones, which are asked for again and again, or others, once. */
class Records {
  constructor(topic) {
    this.title = topic;
    this.topic = topic;
    this.place = {}; // where a button leads, instead of what the fields say
    this.asked = ""; // the query of the answer that stays
  }

  mount() {
    const again = () => {
      this.place = {};
      this.word.hidden = this.start.value === "last";
      this.word.placeholder = { offset: "an offset", time: "2026-11-29 21:30, UTC", key: "a key, as text" }[this.start.value] ?? "";
      this.asked = "";
      look();
    };
    const field = (name, attributes, words = []) => {
      const made = make(name, attributes, words.map(([value, text]) => make("option", { value }, text)));
      made.addEventListener("change", again);
      return made;
    };
    this.partition = field("input", { type: "number", min: 0, value: 0, "aria-label": "partition" });
    this.start = field("select", { "aria-label": "which records" }, [["last", "the last"], ["offset", "from an offset"], ["time", "from a time"], ["key", "the last with a key"]]);
    this.word = field("input", { type: "search", id: "filter", "aria-label": "offset, time or key", hidden: true, autocomplete: "off", spellcheck: "false" });
    this.form = field("select", { "aria-label": "shown as" }, [["text", "as text"], ["json", "as JSON"], ["hex", "as hex"]]);
    this.count = make("span", { class: "count" });
    this.list = make("div", {});
    main.replaceChildren(
      make("p", {}, make("a", { href: hashOf(`topic/${this.topic}`) }, `← ${this.topic}`)),
      make("div", { class: "bar" }, make("label", {}, "partition ", this.partition), this.start, this.word, this.form, this.count),
      card(null, this.list));
  }

  query() {
    const query = { topic: this.topic, partition: this.partition?.value ?? "", ...this.place };
    const word = this.word?.value ?? "";
    const start = this.start?.value ?? "last";
    if (start === "key") query.key = word;
    if (Object.keys(this.place).length || !word) return query;
    if (start === "offset") query.offset = word;
    if (start === "time") {
      query.time_ms = Date.parse(`${word.trim().replace(" ", "T")}Z`);
      if (Number.isNaN(query.time_ms)) throw new Refusal(`${word} is no time; write it as 2026-11-29 21:30, in UTC`);
    }
    return query;
  }

  async ask() {
    try {
      const query = this.query();
      const words = JSON.stringify(query);
      if (words !== this.asked || this.answer.refusal) this.answer = await ask("records", query);
      this.asked = query.offset || query.time_ms || query.before ? words : ""; // the end moves on
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.answer = { refusal: error.message };
    }
    return this.answer;
  }

  show(answer) {
    if (answer.refusal) {
      this.count.textContent = "";
      this.list.replaceChildren(message("bad", answer.refusal));
      return;
    }
    const shown = (cell) => octets(cell, this.form.value);
    this.count.textContent = `offsets ${whole(answer.from_offset)} to ${whole(answer.next_offset)} of ${whole(answer.log_start_offset)} to ${whole(answer.end_offset)}`;
    this.list.replaceChildren(
      table([
        ["Offset", "number", (row) => whole(row.offset)],
        ["Time (UTC)", "short", (row) => (row.timestamp_ms < 0 ? "none" : new Date(Math.min(row.timestamp_ms, 8.64e15)).toISOString().replace("T", " ").slice(0, -1))],
        ["Key", "value", (row) => shown(row.key)],
        ["Value", "value words", (row) => [shown(row.value), row.headers.map(([name, value]) => make("div", { class: "soft" }, shown(name), ": ", shown(value))),
          row.more_headers > 0 && make("div", { class: "soft" }, `and ${counted(row.more_headers, "more header")}`)]],
      ], answer.records, { none: "No records here." }),
      make("p", { class: "bar" },
        answer.from_offset > answer.log_start_offset && make("button", { type: "button", onclick: () => this.turn({ before: answer.from_offset }) }, "earlier"),
        answer.next_offset < answer.end_offset && this.start.value !== "key" && make("button", { type: "button", onclick: () => this.turn({ offset: answer.next_offset }) }, "later")));
  }

  turn(place) {
    this.place = place;
    look();
  }
}

function partition(each, compacted) {
  if (!each.strip) {
    return make("div", { class: "partition" }, make("div", { class: "head" }, `partition ${each.partition}`, tag(each.rule, "bad")), make("p", {}, each.because));
  }
  const next = each.next_eligible_ms === null ? "" : each.eligible ? " The cleaner takes it next." : ` It may be cleaned at ${when(each.next_eligible_ms)} UTC.`;
  return make("div", { class: "partition" },
    make("div", { class: "head" },
      make("strong", {}, `partition ${each.partition}`),
      make("span", {}, `offsets ${whole(each.log_start_offset)} to ${whole(each.log_end_offset)}`),
      make("span", {}, bytes(each.size_bytes)),
      compacted && tag(each.rule, ruleKind(each.rule))),
    strip(each.strip),
    compacted && make("p", {}, `${each.because}.${next}`, each.advice && ` To do: ${each.advice}.`));
}

function ruleKind(rule) {
  if (["failed", "directory-offline", "unreadable"].includes(rule)) return "bad";
  return ["all-clean", "in-progress", "ratio-above", "max-lag", "requested"].includes(rule) ? "good" : "";
}

function settingValue(row) {
  if (row.hidden) return "(hidden)";
  return row.value === "" ? "(empty)" : row.value ?? "(none)";
}

function settingsTable(rows) {
  return table([
    ["Setting", "name", (row) => row.name],
    ["Value", "value", settingValue],
    ["From", "", (row) => row.source],
  ], rows, { none: "All are defaults." });
}

class Cleaner {
  title = "Cleaner";

  ask() {
    return ask("cleaner", { limit: 100 });
  }

  show(answer) {
    const drawn = timeline(answer.passes, answer.partitions, answer.now_ms, Math.min(1200, main.clientWidth - 34));
    const owed = answer.partitions;
    const coming = owed.slice(0, 100);
    main.replaceChildren(
      ...[answer.off && message("warn", `Nothing is cleaned while ${answer.off}.`)].filter(Boolean),
      ...answer.working_on.map((each) => message("good", `${each.topic}-${each.partition}: ${each.phase}, ${bytes(each.bytes_done)} of ${bytes(each.bytes_total)}, in ${each.thread}`)),
      card(["Timeline ", make("small", {}, "bars are passes, rings what comes")], drawn ?? make("p", { class: "soft" }, "No pass yet, and nothing to clean.")),
      card(["What comes, and why ", make("small", {}, `with something to clean: ${fold(owed.length, owed.length - coming.length, "partition")}`)],
        table([
          ["Partition", "name", (row) => `${row.topic}-${row.partition}`],
          ["Reason", "", (row) => tag(row.rule, ruleKind(row.rule))],
          ["Dirty", "number", (row) => (row.dirty_ratio === undefined ? "–" : row.dirty_ratio.toFixed(2))],
          ["Next pass", "short", (row) => (row.eligible ? "now" : row.next_eligible_ms === null ? "after a change" : `in ${span(Math.max(0, row.next_eligible_ms - answer.now_ms) / 1000)}`)],
          ["Why", "words", (row) => [row.because, row.advice && `. To do: ${row.advice}`]],
        ], coming, { none: "Nothing is to be cleaned." }),
        make("p", { class: "soft" }, `Of those that are compacted, ${counted(answer.idle, "partition")} ${answer.idle === 1 ? "has" : "have"} nothing to clean`,
          answer.left_out > 0 && `; ${whole(answer.left_out)} more were not looked at`, ".")),
      card("Passes", table([
        ["Began (UTC)", "short", (row) => when(row.started_ms)],
        ["Partition", "name", (row) => `${row.topic}-${row.partition}`],
        ["Outcome", "", (row) => tag(row.requested ? `${row.outcome} on request` : row.outcome, row.outcome === "failed" ? "bad" : row.outcome === "cleaned" ? "good" : "")],
        ["Bytes", "number", (row) => (row.bytes_in === undefined ? "–" : `${bytes(row.bytes_in)} → ${bytes(row.bytes_out)}`)],
        ["Records", "number optional", (row) => (row.records_in === undefined ? "–" : `${whole(row.records_in)} → ${whole(row.records_out)}`)],
        ["Took", "number", (row) => span(row.seconds)],
        ["What", "words", passWords],
      ], [...answer.passes].reverse(), { none: "No pass yet." })));
  }
}

function passWords(row) {
  if (row.outcome !== "cleaned") return row.reason ?? "";
  const gone = Object.entries(row.records_dropped ?? {}).filter(([, count]) => count).map(([why, count]) => `${whole(count)} ${why.replaceAll("_", " ")}`);
  const held = row.prediction_held === undefined ? "" : row.prediction_held ? "; as predicted" : "; not as predicted";
  return `offsets ${whole(row.first_dirty_offset)} to ${whole(row.end_offset)}; went: ${gone.join(", ") || "nothing"}${held}`;
}

class Groups {
  title = "Groups";
  query = { q: "" };

  mount() {
    const { bar, count } = searchBar(this, "part of a group's name");
    this.count = count;
    this.list = make("div", {});
    main.replaceChildren(bar, card(null, this.list));
  }

  ask() {
    return ask("groups", this.query);
  }

  show(answer) {
    this.count.textContent = fold(answer.total, answer.left_out, "group");
    this.list.replaceChildren(table([
      ["Group", "name", (row) => named(row.id)],
      ["State", "", (row) => groupState(row)],
      ["Protocol", "optional", (row) => row.protocol],
      ["Members", "number", (row) => whole(row.members)],
      ["Partitions", "number optional", (row) => whole(row.committed_partitions)],
      ["Lag", "number", (row) => whole(row.lag)],
    ], answer.groups, { open: (row) => `group/${row.id}`, key: (row) => row.id, none: this.query.q ? "No group has such a name." : "There are no groups yet." }),
      remainder(answer.left_out, "type a part of the name above") || "");
  }
}

function groupState(row) {
  return tag(row.state, { Stable: "good", Dead: "bad", Empty: "" }[row.state] ?? "warn");
}

class Group {
  constructor(id) {
    this.title = id;
    this.query = { id };
  }

  ask() {
    return ask("group", this.query);
  }

  show(group) {
    main.replaceChildren(
      make("p", {}, make("a", { href: "#groups" }, "← all groups")),
      card(named(group.id), facts([
        ["state", groupState(group)],
        ["protocol", group.protocol],
        ["members", whole(group.members)],
        ["lag", `${counted(group.lag, "record")} in ${counted(group.committed_partitions, "partition")}`],
      ])),
      card("Committed offsets", table([
        ["Topic", "name", (row) => row.topic],
        ["Partition", "number", (row) => whole(row.partition)],
        ["Committed", "number", (row) => whole(row.committed_offset)],
        ["End", "number optional", (row) => whole(row.end_offset)],
        ["Lag", "number", (row) => whole(row.lag)],
      ], group.offsets, { none: "It has committed nothing." }), remainder(group.left_out, "siltstone groups describe prints all")),
      card("Members", table([
        ["Member", "name", (row) => named(row.id)],
        ["Client", "name", (row) => named(row.client_id)],
        ["Host", "", (row) => named(row.client_host)],
      ], group.member_details, { none: "It has no members." })));
  }
}

class Connections {
  title = "Connections";

  ask() {
    return ask("connections");
  }

  show(answer) {
    main.replaceChildren(card([`${counted(answer.total, "connection")} `, make("small", {}, "by what the clients say that they are")], table([
      ["Software", "name", (row) => named(row.software)],
      ["Listener", "", (row) => row.listener],
      ["Connections", "number", (row) => whole(row.count)],
      ["Client ids", "words", (row) => [
        row.client_ids.map((each, at) => [at > 0 && ", ", each ? named(each) : "(none)"]),
        row.more_client_ids > 0 && ` and ${row.more_client_ids} more`,
      ]],
    ], answer.connections, { none: "Nobody is connected." }), remainder(answer.left_out, "the most numerous are shown")));
  }
}

class Settings {
  title = "Settings";
  query = { q: "" };

  mount() {
    this.given = make("input", { type: "checkbox", id: "given" });
    this.given.addEventListener("change", () => look());
    const { bar, count } = searchBar(this, "part of a setting's name", [make("label", {}, this.given, " only what is set")]);
    this.count = count;
    this.list = make("div", {});
    main.replaceChildren(bar, card(null, this.list));
  }

  ask() {
    return ask("settings");
  }

  show(answer) {
    const rows = answer.settings.filter((each) => each.name.includes(this.query.q) && (!this.given.checked || each.source !== "default"));
    this.count.textContent = `${whole(rows.length)} of ${whole(answer.settings.length)} settings`;
    this.list.replaceChildren(table([
      ["Setting", "name", (row) => [row.name, " ", row.dynamic && tag("changes live")]],
      ["Value", "value", settingValue],
      ["From", "", (row) => (row.source === "default" ? make("span", { class: "soft" }, "default") : row.source)],
      ["What it does", "words optional", (row) => row.documentation],
    ], rows, { none: "No setting has such a name." }));
  }
}

// The current view, and when it is requested again

const views = { overview: Overview, topics: Topics, cleaner: Cleaner, groups: Groups, connections: Connections, settings: Settings };

for (const [name, View] of Object.entries(views)) {
  document.getElementById("views").append(make("a", { href: `#${name}`, "data-view": name }, new View().title));
}

function hashOf(where) {
  const [view, ...rest] = where.split("/");
  return rest.length ? `#${view}/${encodeURIComponent(rest.join("/"))}` : `#${view}`;
}

function go(where) {
  location.hash = hashOf(where);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function open() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  if (name === "main") return;
  const id = decoded(rest.join("/"));
  if (name === "topic" && id) current = new Topic(id);
  else if (name === "records" && id) current = new Records(id);
  else if (name === "group" && id) current = new Group(id);
  else current = new (views[name] ?? Overview)();
  const shown = { topic: "topics", records: "topics", group: "groups" }[name] ?? (name in views ? name : "overview");
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === shown) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
  document.title = `${visible(current.title)} · Siltstone`;
  main.replaceChildren(make("p", { class: "soft" }, "asking the broker…"));
  current.isMounted = false;
  current.where = id ? `${name}/${id}` : shown;
  scrollTo(0, 0);
  look();
}

async function look() {
  clearTimeout(timer);
  const view = current;
  asked += 1;
  const turn = asked;
  try {
    const answer = await view.ask();
    if (view !== current || turn !== asked) return;
    show(view, answer);
  } catch (error) {
    if (view !== current || turn !== asked) return;
    if (error instanceof Refusal) refused(view, error.message);
    else unanswered(view);
  }
  if (!paused && !document.hidden) timer = setTimeout(look, LOOK_MS);
}

function show(view, answer) {
  heard = new Date().toLocaleTimeString("en-GB");
  trouble.hidden = true;
  main.classList.remove("stale");
  if (view.isMounted && isSelecting()) {
    say("waits while text is selected", "");
    return;
  }
  if (!view.isMounted) {
    view.mount?.();
    view.isMounted = true;
  }
  keepPlace(() => view.show(answer));
  main.dataset.view = view.where;
  say(paused ? "paused" : `as of ${heard}`, paused ? "" : "good");
}

function refused(view, sentence) {
  say("refused", "bad");
  trouble.hidden = true;
  main.classList.remove("stale");
  view.isMounted = false; // its content is gone
  main.replaceChildren(message("bad", sentence), make("p", {}, make("a", { href: "#overview" }, "← overview")));
}

function unanswered(view) {
  say("no answer", "bad");
  const old = view.isMounted ? ` What stands here is as of ${heard}.` : "";
  const words = `The broker does not answer.${old} Asking again every few seconds.`;
  if (trouble.hidden || trouble.textContent !== words) trouble.textContent = words;
  trouble.hidden = false;
  main.classList.toggle("stale", view.isMounted);
  if (!view.isMounted) main.replaceChildren();
}

/** Tell whether the user selects text of the view: a new drawing would end the selection. */
function isSelecting() {
  const chosen = getSelection();
  return chosen.type === "Range" && main.contains(chosen.anchorNode);
}

/** Draw again, and restore the focus and the horizontal scroll positions. */
function keepPlace(draw) {
  const places = () => [...main.querySelectorAll("a, button, summary")];
  const focused = document.activeElement;
  const number = places().indexOf(focused);
  const key = focused?.dataset?.key;
  const scrolled = [...main.querySelectorAll(".wide")].map((each) => each.scrollLeft);
  draw();
  main.querySelectorAll(".wide").forEach((each, at) => {
    each.scrollLeft = scrolled[at] ?? 0;
  });
  if (number < 0) return;
  const same = key === undefined ? places()[number] : main.querySelector(`[data-key="${CSS.escape(key)}"]`);
  same?.focus({ preventScroll: true });
}

function say(text, kind) {
  state.textContent = text;
  state.className = kind;
  const words = kind === "good" ? "up to date" : text;
  if (said.textContent !== words) said.textContent = words; // a screen reader reads it only once
}

function pause() {
  paused = !paused;
  if (paused) {
    clearTimeout(timer);
    say("paused", "");
  } else look();
}

function switchTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("theme", root.dataset.theme);
  } catch {
    // stored only for this visit
  }
}

function step(by) {
  const rows = [...main.querySelectorAll("a.row")];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + by))].focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (event.key === "Escape") {
    if (typing) event.target.blur();
    else if (current instanceof Topic) go("topics");
    else if (current instanceof Records) go(`topic/${current.topic}`);
    else if (current instanceof Group) go("groups");
    return;
  }
  if (typing) return;
  const names = Object.keys(views);
  if (event.key >= "1" && event.key <= String(names.length)) go(names[Number(event.key) - 1]);
  else if (event.key === "/") document.getElementById("filter")?.focus();
  else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "p") pause();
  else if (event.key === "d") switchTheme();
  else if (event.key === "?") keys.showModal();
  else return;
  event.preventDefault();
});

document.getElementById("theme").addEventListener("click", switchTheme);
document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (!document.hidden && !paused) look();
});
addEventListener("hashchange", open);
try {
  const theme = localStorage.getItem("theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch {
  // the setting of the system counts
}
open();
