// The map of segments: a cell for each, or for some neighbours, coloured by what is in it or by its age.

import { ask, byId, bytesOf, fill, percentOf, say, spanOf, whole } from "./page.js";

const PERIOD = 3, GAP = 1;
const STATES = ["live", "expired", "dead", "unfilled"];
const AGES = [[60, "under a minute"], [3600, "under an hour"], [86400, "under a day"], [Infinity, "a day and older"]];

let map = null;
let pointed = null;
let turns = 0;

export async function poll() {
  turns += 1;
  if (map && turns % PERIOD) return;
  const reply = await ask("segments.json");
  if (!reply.ok) return;
  const answer = await reply.json();
  const whole = answer.per_cell * answer.segment_size;
  answer.cells = answer.cells.map(([used, age, live, expired, dead]) => {
    const unfilled = Math.max(0, used * answer.segment_size - live - expired - dead);
    return { used, age, live, expired, dead, unfilled, whole };
  });
  // Those that were never used.
  const most = Math.ceil(answer.segments_total / answer.per_cell);
  const free = { used: 0, age: 0, live: 0, expired: 0, dead: 0, unfilled: 0, whole };
  while (answer.cells.length < most) answer.cells.push(free);
  map = answer;
  show();
}

// Columns, and the size of a cell in pixels of the page.
function layout(canvas) {
  const size = map.cells.length > 1000 ? 9 : 13;
  return { size, columns: Math.max(1, Math.floor((canvas.clientWidth + GAP) / (size + GAP))) };
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
}

function draw() {
  const canvas = byId("segments"), { size, columns } = layout(canvas);
  const scale = window.devicePixelRatio || 1;
  const height = Math.max(1, Math.ceil(map.cells.length / columns)) * (size + GAP);
  canvas.style.height = `${height}px`;
  [canvas.width, canvas.height] = [Math.round(canvas.clientWidth * scale), Math.round(height * scale)];
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const byAge = byId("segments-age").checked;
  const colours = Object.fromEntries([...STATES, "free", "line", "ink", "age"].map(name => [name, colour(name)]));
  const oldest = Math.max(1, ...map.cells.map(cell => cell.age));
  map.cells.forEach((cell, number) => {
    const x = number % columns * (size + GAP), y = Math.floor(number / columns) * (size + GAP);
    context.fillStyle = colours.free;
    context.fillRect(x, y, size, size);
    if (byAge && cell.used) {
      // The younger, the paler.
      context.globalAlpha = 0.15 + 0.85 * Math.log1p(cell.age) / Math.log1p(oldest);
      context.fillStyle = colours.age;
      context.fillRect(x, y, size, size);
      context.globalAlpha = 1;
    } else {
      let bottom = y + size;
      for (const state of STATES) {
        const part = cell[state] / cell.whole * size;
        context.fillStyle = colours[state];
        context.fillRect(x, bottom - part, size, part);
        bottom -= part;
      }
    }
    if (number === pointed) {
      context.strokeStyle = colours.ink;
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, size - 2, size - 2);
    }
  });
}

function name(number) {
  const first = number * map.per_cell;
  return map.per_cell === 1 ? `Segment ${first}` : `Segments ${first} to ${first + map.per_cell - 1}`;
}

function readout() {
  const cell = map.cells[pointed];
  if (!cell) return "Point at a cell, or move through them with the arrow keys.";
  if (!cell.used) return `${name(pointed)}: free`;
  const parts = STATES.map(state => `${state} ${percentOf(cell[state] / cell.whole)}`).join(", ");
  return `${name(pointed)}: opened ${spanOf(cell.age)} ago${map.per_cell > 1 ? " on the average" : ""}, ${parts}`;
}

export function show() {
  if (!map) return;
  const sum = (cells, name) => cells.reduce((total, cell) => total + cell[name], 0);
  const used = map.cells.filter(cell => cell.used);
  const whole_ = used.length * map.per_cell * map.segment_size || 1;
  say(byId("segments-note"), `${whole.format(map.segments_used)} of ${whole.format(map.segments_total)} segments of ${bytesOf(map.segment_size)} are in use`
    + (map.per_cell > 1 ? `; a cell stands for ${map.per_cell}.` : "."));
  byId("segments").setAttribute("aria-label", `Map of ${map.segments_used} segments in use: ${STATES.map(state =>
    `${state} ${percentOf(sum(used, state) / whole_)}`).join(", ")}. The table below has them by age.`);
  say(byId("segments-oldest"), spanOf(Math.max(0, ...used.map(cell => cell.age))));
  byId("segments-legend-state").hidden = byId("segments-age").checked;
  byId("segments-legend-age").hidden = !byId("segments-age").checked;
  draw();
  say(byId("segments-readout"), readout());
  let youngest = 0;
  fill("segments-table", [...AGES, [null, "all"]].map(([end, words]) => {
    const cells = used.filter(cell => end === null || cell.age >= youngest && cell.age < end);
    youngest = end;
    const of = words === "all" ? "all" : "some";
    return [words, { content: whole.format(sum(cells, "used")), value: sum(cells, "used"), of: `segments:${of}` },
      ...STATES.map(state => ({ content: bytesOf(sum(cells, state)), value: sum(cells, state), of: `segments:${of}:${state}` }))];
  }));
}

function point(number) {
  if (!map) return;
  pointed = number === null ? null : Math.min(map.cells.length - 1, Math.max(0, number));
  draw();
  say(byId("segments-readout"), readout());
}

byId("segments").addEventListener("pointermove", event => {
  if (!map) return;
  const { size, columns } = layout(event.target);
  const column = Math.floor(event.offsetX / (size + GAP));
  if (column < columns) point(column + columns * Math.floor(event.offsetY / (size + GAP)));
});
byId("segments").addEventListener("pointerleave", () => point(null));
byId("segments").addEventListener("keydown", event => {
  if (!map) return;
  const { columns } = layout(event.target);
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
  if (!step) return;
  event.preventDefault();
  point(pointed === null ? 0 : pointed + step);
});
for (const id of ["segments-state", "segments-age"]) byId(id).addEventListener("input", show);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => map && draw());
