// The page: asks stats.json once a second and shows what it says.

import { bar, powerChart, slotAt, stack, timeChart } from "./charts.js";
import * as connections from "./connections.js";
import * as keys from "./keys.js";
import * as latency from "./latency.js";
import { ask, byId, bytesOf, fill, percentOf, rateOf, say, show, SLOTS, spanOf, whole } from "./page.js";
import * as segments from "./segments.js";

const PERIOD_MS = 1000;

const PARTS = {
  live: "items that can be read",
  expired: "items past their deadline that nobody has removed yet",
  dead: "room of items that left, to be used again",
  unfilled: "the rest of segments in use: not written yet, or uploads",
  index: "the hash table",
  ledger: "what left and why",
  eviction: "what eviction remembers and learns from",
  connections: "input and replies on their way",
  free: "not in use",
};
const CAUSES = {
  expired: "died of age", evicted: "evicted for want of room", replaced: "replaced by a new value", deleted: "deleted",
  flushed: "flush_all", invalidated: "invalidated", too_large: "new value too large", no_memory: "no memory for the new value",
  limit_lowered: "limit lowered",
};

// Readings, oldest first. The rates of each are against the one before.
let readings = [];
let cursor = null;

const sum = (stats, names) => names.reduce((total, name) => total + (stats[name] ?? 0), 0);
const counts = stats => ({
  gets: stats.cmd_get,
  hits: stats.get_hits,
  misses: stats.get_misses,
  sets: stats.cmd_set,
  others: sum(stats, ["delete_hits", "delete_misses", "incr_hits", "incr_misses", "decr_hits", "decr_misses", "touch_hits",
    "touch_misses", "cmd_flush"]),
  read: stats.bytes_read,
  written: stats.bytes_written,
});

// What was counted between two readings; null if counts were reset or the server started anew.
function between(before, after) {
  if (!before || before.answer.stats.pid !== after.answer.stats.pid) return null;
  const seconds = (after.at - before.at) / 1000;
  const difference = {};
  for (const [name, value] of Object.entries(after.counts)) {
    difference[name] = (value - before.counts[name]) / seconds;
    if (difference[name] < 0) return null;
  }
  return difference;
}

const hitRatio = rates => rates && rates.hits + rates.misses > 0 ? rates.hits / (rates.hits + rates.misses) : null;

function take(answer) {
  const reading = { at: performance.now(), answer, counts: counts(answer.stats) };
  reading.rates = between(readings.at(-1), reading);
  readings = [...readings.slice(1 - SLOTS), reading];
  render();
}

function render() {
  const { answer, rates } = readings.at(-1);
  const { stats, memory } = answer;
  document.title = `scrubjay · ${location.host}`;
  say(byId("server"), `${stats.scrubjay_version} on ${location.host}, process ${stats.pid}, up ${spanOf(stats.uptime)}`);
  renderTiles(stats, rates, memory);
  renderTimes();
  renderMemory(stats, memory);
  renderRemovals(stats);
  renderCurve();
  const before = readings.at(-2);
  latency.show(answer);
  keys.show(answer, before?.answer, before && (readings.at(-1).at - before.at) / 1000);
  segments.show();
}

function renderTiles(stats, rates, memory) {
  const live = memory.find(part => part.part === "live").bytes;
  const recent = between(readings.at(-Math.min(11, readings.length)), readings.at(-1));
  const rate = rates && rates.gets + rates.sets + rates.others;
  const ratio = stats.get_hits + stats.get_misses ? stats.get_hits / (stats.get_hits + stats.get_misses) : null;
  show("rate", rate, rateOf(rate));
  show("hit_ratio_now", hitRatio(recent), percentOf(hitRatio(recent)));
  show("hit_ratio", ratio, percentOf(ratio));
  show("live_share", live / stats.limit_maxbytes, percentOf(live / stats.limit_maxbytes));
  show("read_rate", rates?.read, bytesOf(rates ? rates.read : null));
  show("written_rate", rates?.written, bytesOf(rates ? rates.written : null));
  show("time_in_listen_disabled_us", stats.time_in_listen_disabled_us, spanOf(stats.time_in_listen_disabled_us / 1e6));
  for (const name of ["limit_maxbytes", "connection_bytes"]) show(name, stats[name], bytesOf(stats[name]));
  for (const name of ["curr_items", "curr_connections", "max_connections", "total_connections", "rejected_connections",
    "rejected_by_address"]) show(name, stats[name], whole.format(stats[name]));
}

function renderTimes() {
  const of = name => readings.map(reading => reading.rates ? reading.rates[name] : null);
  timeChart(byId("throughput"), { series: [of("gets"), of("sets"), of("others")], slots: SLOTS, format: rateOf, cursor });
  const ratios = readings.map(reading => hitRatio(reading.rates));
  const format = value => `${Math.round(100 * value)} %`;
  timeChart(byId("hits"), { series: [ratios], slots: SLOTS, max: 1, format, cursor });
  const pointed = cursor === null ? undefined : readings.at(-1 - cursor)?.rates;
  for (const place of document.querySelectorAll("[data-readout]")) {
    const isHits = place.dataset.readout === "hits";
    if (cursor === null) say(place, "Point at the chart to read it.");
    else if (!pointed) say(place, `${cursor} s ago: no reading`);
    else if (isHits) say(place, `${cursor} s ago: ${percentOf(hitRatio(pointed))}`);
    else say(place, `${cursor} s ago: ${rateOf(pointed.gets)} gets, ${rateOf(pointed.sets)} sets, ${rateOf(pointed.others)} others`);
  }
  if (!byId("throughput-table").closest("details").open) return;
  const rows = readings.slice(-30).reverse().map((reading, ago) => {
    const { rates } = reading;
    const cells = ["gets", "sets", "others"].map(name => rateOf(rates ? rates[name] : null));
    return [String(ago), ...cells, percentOf(hitRatio(rates))];
  });
  fill("throughput-table", rows);
}

function renderMemory(stats, memory) {
  stack(byId("memory"), memory.map(({ part, bytes }) => ({ name: part, size: bytes })));
  fill("memory-table", memory.map(({ part, bytes }) => [
    { content: part, swatch: part },
    { content: bytesOf(bytes), value: bytes, of: part },
    percentOf(bytes / stats.limit_maxbytes),
    { content: PARTS[part] ?? "", kind: "words" },
  ]));
}

function renderRemovals(stats) {
  const before = readings.at(-2)?.answer.stats;
  const seconds = before && (readings.at(-1).at - readings.at(-2).at) / 1000;
  const causes = Object.keys(stats).filter(name => name.startsWith("removed_"))
    .sort((left, right) => stats[right] - stats[left]);
  const most = Math.max(1, ...causes.map(name => stats[name]));
  fill("removed-table", causes.map(name => {
    const count = stats[name], cause = name.slice("removed_".length);
    const rate = before && count >= before[name] ? (count - before[name]) / seconds : null;
    return [CAUSES[cause] ?? cause, { content: whole.format(count), value: count, of: name }, rateOf(rate), bar(count / most)];
  }));
}

// The curve between two of its points: straight over the logarithm of the memory.
function missesAt(points, power) {
  const after = Math.max(1, points.findIndex(point => point.power >= power));
  const [left, right] = [points[after - 1], points[after]];
  const share = Math.min(1, Math.max(0, (power - left.power) / (right.power - left.power)));
  return left.value + share * (right.value - left.value);
}

function renderCurve() {
  const { mrc, stats } = readings.at(-1).answer;
  const points = mrc.filter(point => point.miss_ratio !== null)
    .map(point => ({ power: Math.log2(point.factor), value: point.miss_ratio }))
    .sort((left, right) => left.power - right.power);
  const isShown = points.length > 1;
  byId("curve-none").hidden = isShown;
  byId("curve-shown").hidden = !isShown;
  if (!isShown) return;
  const slider = byId("factor");
  slider.min = points[0].power;
  slider.max = points.at(-1).power;
  const power = Number(slider.value), factor = Math.round(2 ** power * 100) / 100;
  const misses = missesAt(points, power), present = missesAt(points, 0);
  const limit = bytesOf(stats.limit_maxbytes * 2 ** power);
  const rates = readings.at(-1).rates;
  const spared = rates ? (present - misses) * (rates.hits + rates.misses) : 0;
  const sampled = mrc.find(point => point.factor === 1)?.one_key_in ?? mrc[0].one_key_in;
  const compared = power === 0 ? "; that is the limit now."
    : `, instead of ${percentOf(present)}${Math.abs(spared) < 0.05 ? "." : `: ${rateOf(Math.abs(spared))} ${spared > 0 ? "fewer" : "more"} misses a second at the present rate.`}`;
  const text = `With ${limit}, ${percentOf(misses)} of all look-ups since the start would have missed${compared} Worked out from one key in ${sampled}.`;
  say(byId("factor-text"), `${factor} ×`);
  slider.setAttribute("aria-valuetext", `${factor} times, ${limit}: ${percentOf(misses)} misses`);
  // Read out when it is asked for, not whenever a second has passed.
  if (document.activeElement !== slider || renderCurve.power !== power) say(byId("curve-text"), text);
  byId("curve-text").setAttribute("aria-live", document.activeElement === slider ? "polite" : "off");
  renderCurve.power = power;
  powerChart(byId("curve"), { points, mark: { power, value: misses }, format: value => `${Math.round(1000 * value) / 10} %` });
  fill("curve-table", mrc.map(point => [
    `${point.factor} ×`, bytesOf(point.limit_maxbytes), { content: percentOf(point.miss_ratio), value: point.miss_ratio, of: `${point.factor}x` },
    whole.format(point.sampled_keys),
  ]));
}

function sentence(answer) {
  const life = ttl => ttl < 0 ? "no end of life" : `${spanOf(ttl)} to live`;
  const reads = answer.reads ? `noted as read ${answer.reads} times or so` : "not noted as read";
  switch (answer.state) {
    case "present":
      return `It is here: ${bytesOf(answer.bytes)} with a value of ${bytesOf(answer.value)}, ${life(answer.ttl)}, ${reads}, `
        + `last used ${spanOf(answer.la)} ago, in segment ${answer.segment}.`;
    case "gone":
      return `It is gone: ${CAUSES[answer.cause] ?? answer.cause}, ${spanOf(answer.ago)} ago. It had ${bytesOf(answer.bytes)}, `
        + `${life(answer.ttl)}, ${reads}.`;
    default:
      return `It is not here, and did not leave within the last ${spanOf(answer.not_for)}.`;
  }
}

async function why(event) {
  event.preventDefault();
  const key = byId("key").value;
  try {
    const reply = await ask(`why?key=${encodeURIComponent(key)}`);
    say(byId("why-text"), reply.ok ? `${key}: ${sentence(await reply.json())}` : (await reply.text()).trim());
  } catch {
    say(byId("why-text"), "The server did not answer.");
  }
}

let paused = false;

async function poll() {
  const status = byId("status");
  if (!paused && !document.hidden) {
    try {
      const reply = await ask("stats.json");
      if (!reply.ok) throw new Error(reply.statusText);
      await Promise.all([latency.poll(), segments.poll(), connections.poll()]);
      take(await reply.json());
      status.className = "good";
      say(status, "live");
    } catch (error) {
      status.className = "bad";
      say(status, "no answer; trying again");
      console.error(error);
    }
  } else if (paused) {
    status.className = "";
    say(status, "paused");
  }
  setTimeout(poll, PERIOD_MS);
}

byId("why").addEventListener("submit", why);
byId("factor").addEventListener("input", () => readings.length && renderCurve());
byId("pause").addEventListener("click", event => {
  paused = !paused;
  event.target.setAttribute("aria-pressed", paused);
});
for (const id of ["throughput", "hits"]) {
  byId(id).addEventListener("pointermove", event => { cursor = slotAt(byId(id), event, SLOTS); if (readings.length) renderTimes(); });
  byId(id).addEventListener("pointerleave", () => { cursor = null; if (readings.length) renderTimes(); });
}
byId("throughput-table").closest("details").addEventListener("toggle", () => readings.length && renderTimes());
// A page with everything open, to be printed or searched.
if (location.hash === "#tables") document.querySelectorAll("details").forEach(details => { details.open = true; });
// Charts are as wide as the page; how high it is, is no matter to them.
let width = 0;
new ResizeObserver(([{ contentRect }]) => {
  if (contentRect.width === width) return;
  width = contentRect.width;
  requestAnimationFrame(() => readings.length && render());
}).observe(byId("main"));
poll();
