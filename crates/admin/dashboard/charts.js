// Drawing: numbers in, SVG out. Nothing here knows where the numbers come from.

const SVG = "http:" + "//www.w3.org/2000/svg";

export function element(name, attributes = {}, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// The least round number that is not below `value`, and whose half is round, too.
function niceCeiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 5, 6, 8, 10].map(step => step * power).find(step => step >= value * 0.999);
}

const MARGIN = { left: 52, right: 12, top: 10, bottom: 24 };

// Empties `svg`, draws the grid and returns how values become coordinates there.
// `place`: where between the bottom, 0, and the top, 1, a value is; `ticksY`: the values that have a line.
function frame(svg, { max, format, ticksX, ticksY = [0, max / 2, max], place = value => value / max }) {
  const width = svg.clientWidth || 480, height = svg.clientHeight || 190;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren();
  const x = share => MARGIN.left + share * (width - MARGIN.left - MARGIN.right);
  const y = value => height - MARGIN.bottom - place(value) * (height - MARGIN.top - MARGIN.bottom);
  for (const value of ticksY) {
    const at = y(value);
    svg.append(element("line", { class: "grid", x1: x(0), x2: x(1), y1: at, y2: at }));
    svg.append(element("text", { x: MARGIN.left - 6, y: at + 4, "text-anchor": "end" }, format(value)));
  }
  for (const [share, text] of ticksX) {
    const anchor = share > 0.97 ? "end" : share < 0.03 ? "start" : "middle";
    svg.append(element("text", { x: x(share), y: height - 6, "text-anchor": anchor }, text));
  }
  return { x, y, width, height };
}

// Lines over time, the latest at the right. A value that is null leaves a gap.
export function timeChart(svg, { series, slots, max, format, cursor }) {
  const highest = max ?? niceCeiling(Math.max(...series.flat().filter(value => value !== null), 0));
  lines(svg, frame(svg, { max: highest, format, ticksX: secondsAgo(slots) }), { series, slots, cursor });
}

// As `timeChart`, with a step for each power of ten.
export function logTimeChart(svg, { series, slots, format, cursor }) {
  const values = series.flat().filter(value => value > 0);
  const first = Math.floor(Math.log10(Math.min(...values, 1e12)));
  const [low, high] = values.length ? [first, Math.max(first + 1, Math.ceil(Math.log10(Math.max(...values))))] : [3, 6];
  const ticksY = Array.from({ length: high - low + 1 }, (_, step) => 10 ** (low + step));
  const place = value => (Math.log10(value) - low) / (high - low);
  lines(svg, frame(svg, { format, ticksX: secondsAgo(slots), ticksY, place }), { series, slots, cursor });
}

const secondsAgo = slots => [[0, `${slots - 1} s ago`], [0.5, `${Math.round((slots - 1) / 2)} s`], [1, "now"]];

function lines(svg, { x, y, height }, { series, slots, cursor }) {
  series.forEach((values, number) => {
    let path = "", isDrawing = false;
    values.forEach((value, at) => {
      const share = (at + slots - values.length) / (slots - 1);
      if (value !== null) path += `${isDrawing ? "L" : "M"}${x(share).toFixed(1)} ${y(value).toFixed(1)}`;
      isDrawing = value !== null;
    });
    svg.append(element("path", { class: `p${number + 1}`, d: path }));
  });
  if (cursor !== null) {
    const at = x(1 - cursor / (slots - 1));
    svg.append(element("line", { class: "cursor", x1: at, x2: at, y1: MARGIN.top, y2: height - MARGIN.bottom }));
  }
}

// How many slots before the right edge a pointer is.
export function slotAt(svg, event, slots) {
  const box = svg.getBoundingClientRect();
  const share = (event.clientX - box.left - MARGIN.left) / (box.width - MARGIN.left - MARGIN.right);
  return Math.round((1 - Math.min(1, Math.max(0, share))) * (slots - 1));
}

// A curve over powers of two, with a mark.
export function powerChart(svg, { points, mark, format }) {
  const highest = Math.min(1, niceCeiling(Math.max(...points.map(point => point.value))));
  const first = points[0].power, last = points[points.length - 1].power;
  const share = power => last > first ? (power - first) / (last - first) : 0.5;
  const times = { "-2": "¼", "-1": "½" };
  const ticksX = points.map(({ power }) => [share(power), `${times[power] ?? 2 ** power}×`]);
  const { x, y, height } = frame(svg, { max: highest, format, ticksX });
  const path = points.map((point, at) => `${at ? "L" : "M"}${x(share(point.power))} ${y(point.value)}`).join("");
  svg.append(element("path", { class: "p1", d: path }));
  points.forEach(point => svg.append(element("circle", { cx: x(share(point.power)), cy: y(point.value), r: 4 })));
  const at = x(share(mark.power));
  svg.append(element("line", { class: "cursor", x1: at, x2: at, y1: MARGIN.top, y2: height - MARGIN.bottom }));
  svg.append(element("circle", { class: "here", cx: at, cy: y(mark.value), r: 6 }));
}

// Bars beside each other, as many of them with their label as there is room for.
export function barChart(svg, { bars, format }) {
  const highest = niceCeiling(Math.max(...bars.map(bar => bar.value), 0));
  const every = Math.max(1, Math.ceil(bars.length * 70 / (svg.clientWidth || 480)));
  const ticksX = bars.map(({ label }, at) => [(at + 0.5) / bars.length, label]).filter((_, at) => at % every === 0);
  const { x, y } = frame(svg, { max: highest, format, ticksX });
  const width = (x(1) - x(0)) / Math.max(1, bars.length);
  bars.forEach(({ value }, at) => svg.append(element("rect", {
    class: "column", x: x(0) + at * width + width * 0.1, width: width * 0.8, y: y(value), height: y(0) - y(value),
  })));
}

// Parts of a whole, side by side; `svg` is 1000 wide and 10 high, whatever its size.
export function stack(svg, parts) {
  const whole = parts.reduce((sum, part) => sum + part.size, 0) || 1;
  let start = 0;
  parts.forEach((part, at) => {
    const box = svg.children[at] ?? svg.appendChild(element("rect", { height: 10 }));
    const width = part.size / whole * 1000;
    box.setAttribute("class", part.name);
    box.setAttribute("x", start);
    box.setAttribute("width", width);
    start += width;
  });
}

export function bar(share) {
  const svg = element("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(element("rect", { width: 100 * share, height: 10 }));
  return svg;
}
