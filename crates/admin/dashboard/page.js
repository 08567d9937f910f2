// What every part of the page needs: numbers as words, words into their places, questions to the server.

// Readings that are kept, one a second.
export const SLOTS = 121;

const PATIENCE_MS = 5000;

export const byId = id => document.getElementById(id);

export const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
export const percentOf = ratio => ratio === null ? "–" : `${(100 * ratio).toFixed(1)} %`;
export const rateOf = value => value === null ? "–" : value < 10 && value > 0 ? value.toFixed(1) : short.format(Math.round(value));

export function bytesOf(bytes) {
  if (bytes === null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return `${unit && bytes < 100 ? bytes.toFixed(1).replace(/\.0$/, "") : Math.round(bytes)} ${units[unit]}`;
}

export function spanOf(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = units.findIndex(([size]) => seconds >= size);
  if (first < 0) return "0 s";
  return units.slice(first, first + 2).map(([size, name], at) => {
    const count = Math.floor((at ? seconds % units[first][0] : seconds) / size);
    return count || !at ? `${count} ${name}` : "";
  }).join(" ").trim();
}

// Text that is there already is left alone, so that nothing is read out again.
export function say(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

// Shows a value wherever the page has a place for it, with the value itself beside its text.
export function show(name, value, text) {
  for (const place of document.querySelectorAll(`[data-show="${name}"]`)) {
    place.dataset.value = value ?? "";
    say(place, text);
  }
}

export function fill(tableId, rows) {
  const body = byId(tableId).tBodies[0];
  body.replaceChildren(...rows.map(cells => {
    const row = document.createElement("tr");
    cells.forEach((cell, at) => {
      const place = document.createElement(at ? "td" : "th");
      if (!at) place.scope = "row";
      const { content = cell, value, kind, swatch } = cell?.content === undefined ? {} : cell;
      if (kind) place.className = kind;
      if (value !== undefined) { place.dataset.value = value; place.dataset.of = cell.of; }
      if (swatch) {
        const box = document.createElement("i");
        box.className = `swatch ${swatch}`;
        place.append(box);
      }
      place.append(content);
      row.append(place);
    });
    return row;
  }));
}

export async function ask(path) {
  return fetch(path, { signal: AbortSignal.timeout(PATIENCE_MS), cache: "no-store" });
}
