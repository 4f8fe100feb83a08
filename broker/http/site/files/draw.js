// Elements, numbers for people, and drawings. Text only ever becomes text nodes: nothing here, and
// nothing in page.js, parses HTML.

const SVG = "http://www.w3.org/2000/svg";

/** Create an element; strings among the children become text. */
export function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") element.addEventListener("click", value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

// Names

/** A name that a stranger has chosen, with invisible characters spelled out. */
export function visible(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (each) => `\\u{${each.codePointAt(0).toString(16)}}`);
}

/** Such a name as an element, which has its own text direction. */
export function named(text) {
  return make("bdi", {}, visible(text));
}

// Keys and values of records

/** A key or value from /api/records as an element: as text, as JSON with lines, or as hex. */
export function octets(cell, form) {
  if (cell === null) return make("span", { class: "soft" }, "null");
  const isCut = cell.size > (cell.text === undefined ? cell.hex.length / 2 : new TextEncoder().encode(cell.text).length);
  let shown = cell.text ?? cell.hex;
  if (form === "hex" && cell.text !== undefined) shown = hex(cell.text);
  else if (form === "json" && cell.text !== undefined && !isCut) shown = indented(cell.text);
  const isHex = form === "hex" || cell.text === undefined;
  const words = isHex ? shown : shown.split("\n").map(visible).join("\n");
  return make("bdi", { class: "octets" }, words,
    isHex && form !== "hex" && make("span", { class: "tag" }, "hex"),
    isCut && make("span", { class: "tag" }, `the first of ${bytes(cell.size)}`));
}

function hex(text) {
  return [...new TextEncoder().encode(text)].map((each) => each.toString(16).padStart(2, "0")).join("");
}

/** JSON with a line for each value; its numbers and strings stay as they are written. */
function indented(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  const line = (by) => `\n${"  ".repeat(depth += by)}`;
  return text.replace(/"(?:[^"\\]|\\.)*"|[[{]\s*[\]}]|[[{\]},:]|\s+/g, (each) => {
    if (each === "{" || each === "[") return each + line(1);
    if (each === "}" || each === "]") return line(-1) + each;
    if (each === ",") return each + line(0);
    if (each === ":") return ": ";
    return each.trim();
  });
}

// Numbers

export function bytes(count) {
  if (count === null || count === undefined || count < 0) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toPrecision(3) : Math.round(value)} ${units[unit]}`;
}

export function whole(count) {
  return count === null || count === undefined ? "–" : count.toLocaleString("en");
}

/** A number of things: 1 topic, 2 topics. */
export function counted(count, noun) {
  return `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;
}

export function rate(perSecond) {
  return perSecond === null ? "–" : `${bytes(Math.round(perSecond))}/s`;
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  for (const [limit, divisor, unit] of [[120, 1, "s"], [7200, 60, "min"], [172800, 3600, "h"]]) {
    if (seconds < limit) return `${Number((seconds / divisor).toPrecision(3))} ${unit}`;
  }
  return `${Number((seconds / 86400).toPrecision(3))} days`;
}

export function when(ms) {
  return new Date(ms).toISOString().replace("T", " ").slice(0, 19);
}

// Drawings

export const KINDS = {
  clean: "clean",
  tombstones: "clean, tombstones wait",
  dirty: "dirty",
  plain: "not compacted",
  active: "active",
};

/** The segments of a partition as a strip, as wide as their bytes, but all wide enough to see. */
export function strip(pieces) {
  const total = pieces.reduce((sum, each) => sum + each.size_bytes, 0);
  const words = pieces.map((each) => `${KINDS[each.kind]} ${bytes(each.size_bytes)}`);
  const drawing = svg("svg", {
    class: "strip", viewBox: "0 0 1000 22", preserveAspectRatio: "none", role: "img",
    "aria-label": words.length > 12 ? `${pieces.length} pieces, ${bytes(total)}` : words.join(", "),
  });
  const least = Math.min(10, 500 / pieces.length);
  const widths = pieces.map((each) => Math.max(least, total ? (each.size_bytes / total) * 1000 : 1000));
  const scale = 1000 / widths.reduce((sum, each) => sum + each, 0);
  let x = 0;
  pieces.forEach((each, number) => {
    const width = widths[number] * scale;
    const text = `${KINDS[each.kind]}: ${counted(each.segments, "segment")} from offset ${whole(each.base_offset)}, ${bytes(each.size_bytes)}`;
    const gap = Math.min(2, width / 4);
    drawing.append(svg("rect", { class: `kind-${each.kind}`, x, y: 0, width: width - gap, height: 22 },
      svg("title", {}, text)));
    x += width;
  });
  return drawing;
}

export function legend(kinds) {
  return make("ul", { class: "legend" }, kinds.map((kind) => make("li", {},
    svg("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" },
      svg("rect", { class: `kind-${kind}`, width: 12, height: 12, rx: 3 })), KINDS[kind])));
}

/** A share of a whole, as a bar. */
export function meter(share, kind, text) {
  const bar = svg("svg", { viewBox: "0 0 100 12", preserveAspectRatio: "none", height: 12 },
    svg("rect", { class: `kind-${kind}`, width: Math.max(0.5, share * 100), height: 12 }));
  return make("div", { class: "meter", role: "img", "aria-label": text }, bar);
}

/** Rates over time as lines; each row of samples is [time, in, out]. */
export function spark(samples) {
  const drawing = svg("svg", {
    class: "spark", viewBox: "0 0 300 64", preserveAspectRatio: "none", "aria-hidden": "true",
  });
  if (samples.length < 2) return drawing;
  const first = samples[0][0];
  const length = samples.at(-1)[0] - first || 1;
  const top = Math.max(1, ...samples.flatMap((each) => [each[1], each[2]]));
  for (const [column, name] of [[2, "out"], [1, "in"]]) {
    const points = samples.map((each) =>
      `${(((each[0] - first) / length) * 300).toFixed(1)},${(62 - (each[column] / top) * 58).toFixed(1)}`);
    drawing.append(svg("path", { class: name, d: `M${points.join("L")}` }));
  }
  return drawing;
}

/** Passes of the cleaner, one lane for each partition, and the times of the next passes. */
export function timeline(passes, coming, now, width) {
  const lanes = new Map();
  const lane = (each) => {
    const name = `${each.topic}-${each.partition}`;
    if (!lanes.has(name)) lanes.set(name, { passes: [], next: null });
    return lanes.get(name);
  };
  for (const each of [...passes].reverse()) if (lanes.size < 12 || lanes.has(`${each.topic}-${each.partition}`)) lane(each).passes.push(each);
  for (const each of coming) {
    if (each.next_eligible_ms === null) continue;
    if (lanes.size < 12 || lanes.has(`${each.topic}-${each.partition}`)) lane(each).next = each;
  }
  if (!lanes.size) return null;
  const shown = [...lanes.values()].flatMap((each) => each.passes);
  const later = [...lanes.values()].map((each) => each.next && Math.max(now, each.next.next_eligible_ms)).filter(Boolean);
  const past = Math.max(60000, now - Math.min(now, ...shown.map((each) => each.started_ms)));
  const ahead = Math.min(past, Math.max(past / 10, ...later.map((at) => at - now)));
  const narrow = width < 560;
  const left = narrow ? 0 : 190;
  const high = narrow ? 40 : 26;
  const right = width - 14;
  const x = (ms) => left + ((ms - (now - past)) / (past + ahead)) * (right - left);
  const height = lanes.size * high + 26;
  const drawing = svg("svg", { class: "timeline", viewBox: `0 0 ${width} ${height}`, height, role: "img",
    "aria-label": `the last ${span(past / 1000)} of the cleaner; the table below says the same` });
  let y = 0;
  for (const [name, { passes: done, next }] of lanes) {
    const limit = narrow ? 44 : 26;
    const short = name.length > limit ? `${name.slice(0, limit - 9)}…${name.slice(-8)}` : name;
    drawing.append(svg("text", { class: "lane-name", x: 0, y: narrow ? y + 13 : y + 17 }, short, svg("title", {}, name)));
    const middle = narrow ? y + 27 : y + 13;
    drawing.append(svg("line", { class: "lane", x1: left, x2: right, y1: middle, y2: middle }));
    for (const each of done) {
      const start = Math.max(left, x(each.started_ms));
      const end = Math.max(start + 4, x(each.ended_ms ?? each.started_ms));
      drawing.append(svg("rect", { class: each.outcome, x: start, y: middle - 7, width: end - start, height: 14, rx: 2 },
        svg("title", {}, `${when(each.started_ms)}: ${each.outcome}`)));
    }
    if (next) {
      const at = Math.min(right - 5, x(Math.max(now, next.next_eligible_ms)));
      drawing.append(svg("circle", { class: "next", cx: at, cy: middle, r: 5 },
        svg("title", {}, `${next.eligible ? "eligible now" : `eligible at ${when(next.next_eligible_ms)}`}: ${next.because}`)));
    }
    y += high;
  }
  drawing.append(svg("line", { class: "now", x1: x(now), x2: x(now), y1: 0, y2: y + 2 }));
  drawing.append(svg("text", { x: left, y: y + 18 }, `${span(past / 1000)} ago`));
  drawing.append(svg("text", { x: x(now), y: y + 18, "text-anchor": "middle" }, "now"));
  return drawing;
}
