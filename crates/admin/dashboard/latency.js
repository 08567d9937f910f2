// How long requests take and wait: percentiles over time, and the figures of `stats latency`.

import { logTimeChart, slotAt } from "./charts.js";
import { ask, byId, fill, say, SLOTS, whole } from "./page.js";

// A point of the chart is made of so many seconds: few requests of one second are measured.
const WINDOW = 10;
const SHARES = [0.5, 0.99, 0.999];
const NAMES = ["p50", "p99", "p99.9"];
const COLUMNS = ["mean_us", "p50_us", "p90_us", "p99_us", "p999_us", "max_us", "wait_p50_us", "wait_p99_us"];

// What came in each second, oldest first: a Map from kind to its classes, or null where that is not known.
let seconds = [];
let last = null;
let cursor = null;

export function timeOf(nanos) {
  if (nanos === null) return "–";
  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const [size, name] = units.find(([size]) => nanos >= size) ?? units[3];
  const value = nanos / size;
  return `${value >= 100 || size === 1 ? Math.round(value) : Number(value.toPrecision(3))} ${name}`;
}

// What `after` has more than `before`, class by class; null if counts were reset in between.
function difference(before, after) {
  const old = new Map(before);
  const classes = [];
  for (const [end, count] of after) {
    const more = count - (old.get(end) ?? 0);
    old.delete(end);
    if (more < 0) return null;
    if (more > 0) classes.push([end, more]);
  }
  return old.size ? null : classes;
}

function since(before, after) {
  const known = new Map(before.map(kind => [kind.kind, kind]));
  const second = new Map();
  for (const { kind, service, wait } of after) {
    const old = known.get(kind) ?? { service: [], wait: [] };
    const parts = { service: difference(old.service, service), wait: difference(old.wait, wait) };
    if (!parts.service || !parts.wait) return null;
    second.set(kind, parts);
  }
  return second;
}

// Ends of the classes up to which each share of the requests of some seconds took; null where there were none.
function percentiles(some, kind, what) {
  const counts = new Map();
  let total = 0;
  for (const second of some) {
    for (const [name, parts] of second ?? []) {
      if (kind !== "all" && kind !== name) continue;
      for (const [end, count] of parts[what]) {
        counts.set(end, (counts.get(end) ?? 0) + count);
        total += count;
      }
    }
  }
  const classes = [...counts].sort(([left], [right]) => left - right);
  return SHARES.map(share => {
    let left = Math.max(1, Math.ceil(total * share));
    return classes.find(([, count]) => (left -= count) <= 0)?.[0] ?? null;
  });
}

export async function poll() {
  const reply = await ask("latency.json");
  if (!reply.ok) return;
  const { kinds } = await reply.json();
  seconds = [...seconds.slice(1 - SLOTS), last && since(last, kinds)];
  last = kinds;
  const select = byId("latency-kind");
  const offered = new Set([...select.options].map(option => option.value));
  for (const { kind } of kinds.filter(({ kind }) => !offered.has(kind))) select.add(new Option(kind.replace("_", " "), kind));
}

function render() {
  const kind = byId("latency-kind").value, what = byId("latency-what").value;
  const points = seconds.map((_, at) => percentiles(seconds.slice(Math.max(0, at + 1 - WINDOW), at + 1), kind, what));
  const series = SHARES.map((_, number) => points.map(point => point[number]));
  logTimeChart(byId("latency"), { series, slots: SLOTS, format: timeOf, cursor });
  const point = points.at(-1 - (cursor ?? 0));
  const when = cursor === null ? "Now" : `${cursor} s ago`;
  const text = point && point[0] !== null ? NAMES.map((name, at) => `${name} ${timeOf(point[at])}`).join(", ") : "nothing was measured";
  say(byId("latency-readout"), `${when}, over ${WINDOW} s: ${text}`);
}

export function show(answer) {
  const { sample_interval: interval, ...lines } = answer.latency;
  say(byId("latency-note"), interval === 0
    ? "Nothing is measured: the server was started with -o sample_interval=0."
    : `Measured: ${interval === 1 ? "every request" : `one request in ${interval}, drawn by chance`}. The table is since the start, as stats latency tells it.`);
  const kinds = Object.keys(lines).filter(name => name.endsWith(":count")).map(name => name.slice(0, -":count".length));
  fill("latency-table", kinds.map(kind => [
    kind.replace("_", " "),
    { content: whole.format(lines[`${kind}:count`]), value: lines[`${kind}:count`], of: `${kind}:count` },
    ...COLUMNS.map(name => ({ content: timeOf(1000 * lines[`${kind}:${name}`]), value: lines[`${kind}:${name}`], of: `${kind}:${name}` })),
  ]));
  render();
}

for (const id of ["latency-kind", "latency-what"]) byId(id).addEventListener("input", render);
byId("latency").addEventListener("pointermove", event => { cursor = slotAt(byId("latency"), event, SLOTS); render(); });
byId("latency").addEventListener("pointerleave", () => { cursor = null; render(); });
