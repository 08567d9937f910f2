// What is known of keys and items in classes: hot keys, keys by prefix, sets by TTL, items by size.

import { bar, barChart } from "./charts.js";
import { byId, bytesOf, fill, percentOf, rateOf, say, whole } from "./page.js";

const TTLS = {
  never: "never expires", under_1_minute: "under a minute", under_1_hour: "under an hour", under_1_day: "under a day",
  under_30_days: "under 30 days", longer: "longer", kept: "kept: append, prepend",
};
const HOT_KEYS_SHOWN = 10, PREFIXES_SHOWN = 12;
const NOT_TOLD = "This server has users (-Y): keys are told to those who have logged in only, by stats hotkeys and stats prefixes.";

function showHotKeys(keys) {
  say(byId("hotkeys-note"), keys === null ? NOT_TOLD : keys.length
    ? "Requests a second over the last ten seconds or so, from a sample; so much of it may be other keys'."
    : "No key was asked for lately.");
  const shown = (keys ?? []).slice(0, HOT_KEYS_SHOWN);
  const most = Math.max(1, ...shown.map(key => key.rate));
  fill("hotkeys-table", shown.map(({ key, rate, error }) => [
    { content: key, kind: "key" }, { content: rateOf(rate), value: rate, of: `hot:${key}` }, rateOf(error), bar(Math.min(1, rate / most)),
  ]));
}

function showPrefixes(prefixes) {
  say(byId("prefixes-note"), prefixes === null ? NOT_TOLD : prefixes.length
    ? "Different keys that were stored since the start, about; a number that never stops growing means keys that never come again."
    : "Nothing was stored yet.");
  const shown = (prefixes ?? []).slice(0, PREFIXES_SHOWN);
  const most = Math.max(1, ...shown.map(prefix => prefix.keys));
  fill("prefixes-table", shown.map(({ prefix, keys }) => [
    { content: prefix === "*" ? "all others" : prefix, kind: "key" }, { content: whole.format(keys), value: keys, of: `prefix:${prefix}` },
    bar(keys / most),
  ]));
}

function showTtls(ttls, before, passed) {
  const total = Object.values(ttls).reduce((sum, count) => sum + count, 0);
  fill("ttls-table", Object.keys(TTLS).map(name => {
    const count = ttls[name];
    const rate = before && count >= before[name] ? (count - before[name]) / passed : null;
    const share = total ? count / total : 0;
    return [TTLS[name], { content: whole.format(count), value: count, of: `ttl:${name}` }, rateOf(rate), percentOf(share), bar(share)];
  }));
}

function showSizes(sizes) {
  const classes = Object.entries(sizes).filter(([, items]) => typeof items === "number" && items > 0).map(([end, items]) => [Number(end), items]);
  say(byId("sizes-note"), classes.length
    ? "Items in the cache by the bytes that they take, key and header included; four classes to each doubling."
    : "There are no items.");
  barChart(byId("sizes"), { bars: classes.map(([end, items]) => ({ label: bytesOf(end), value: items })), format: rateOf });
  fill("sizes-table", classes.map(([end, items]) => [`up to ${bytesOf(end)}`, { content: whole.format(items), value: items, of: `size:${end}` }]));
}

// `before`: the answer `passed` seconds ago, if there is one.
export function show(answer, before, passed) {
  showHotKeys(answer.hotkeys);
  showPrefixes(answer.prefixes);
  showTtls(answer.ttls, before?.ttls, passed);
  showSizes(answer.sizes);
}
