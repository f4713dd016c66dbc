// The charts of the page: each draws what a snapshot says into an element.

import { Drawing, bytes, count, figure, percent, scale, short, ticks } from "./shapes.js";

/** Seconds of a map's own turns that charts over time go back, at least and at most. */
const SPANS = [5, 30];

/** Bytes in fast memory, as last seen. */
export const fastBytes = (row) => row.samples.at(-1)?.fast_bytes ?? 0;

/** When a sample of a map was made, seconds after the last one: 0 or less. */
const when = (samples, it) => it.at_s - samples.at(-1).at_s;

/** A frame for lines over the last seconds of these maps. Returns what places times and values. */
function overTime(drawing, rows, high, unit, written, base = 10) {
  const [left, right, top, bottom] = [52, drawing.width - 8, 20, drawing.height - 22];
  const begun = rows.filter((row) => row.samples.length).map((row) => when(row.samples, row.samples[0]));
  const from = Math.max(-SPANS[1], Math.min(-SPANS[0], ...begun));
  const x = scale([from, 0], [left, right]);
  const y = scale([0, high], [bottom, top]);
  drawing.grid(high, y, left, right, written, base);
  drawing.line("mark", [left, bottom], [right, bottom]);
  for (const ago of ticks(-from, 5)) {
    const anchor = ago === 0 ? "end" : "middle";
    drawing.text("tick", [x(-ago), bottom + 16], anchor, ago === 0 ? "now" : `−${short(ago)} s`);
  }
  drawing.text("axis", [0, 10], "start", unit);
  return { x, y, left, right, from };
}

/** A map's samples as points of a frame. */
function points({ x, y, from }, samples, value) {
  const recent = samples.filter((it) => when(samples, it) >= from);
  return recent.map((it) => [x(when(samples, it)), y(value(it))]);
}

/** Throughput of all maps. */
export function throughput(host, rows) {
  const rates = rows.map((row) => row.samples.at(-1)?.ops_per_s ?? 0);
  const said = rows.map((row, nth) => `${row.placement} ${figure(rates[nth] / 1e6)}`).join(", ");
  const drawing = new Drawing(host, 240, `Throughput over time in Mops/s; now: ${said || "nothing yet"}`);
  const most = Math.max(...rows.flatMap((row) => row.samples.map((it) => it.ops_per_s)), 0) / 1e6;
  const frame = overTime(drawing, rows, most * 1.06 || 1, "Mops/s", short);
  for (const row of rows) {
    const line = points(frame, row.samples, (it) => it.ops_per_s / 1e6);
    drawing.path(`series ${row.class}`, line, row.placement);
  }
  drawing.show();
}

/** The tree as its levels, root on top: what of each is fast, and the boundary between the tiers. */
export function levels(host, row) {
  const all = row.levels ?? [];
  if (all.length === 0) return pages(host, row);
  const [step, bar] = [40, 16];
  const nodes = (level) => level.nodes_fast + level.nodes_slow;
  const widest = Math.log10(1 + Math.max(...all.map(nodes)));
  const told = all.map((it) => `level ${it.level}: ${it.nodes_fast} of ${nodes(it)} fast`).join("; ");
  const drawing = new Drawing(host, 6 + step * all.length, `Nodes by level and tier. ${told}`);
  const [boundary, texts] = [[], []];
  all.forEach((level, nth) => {
    const y = step * nth + 20;
    // As nodes grow a hundredfold from level to level, a bar is as wide as their number has digits.
    const width = drawing.width * Math.max(0.16, Math.log10(1 + nodes(level)) / (widest || 1));
    const left = (drawing.width - width) / 2;
    const fast = width * (nodes(level) ? level.nodes_fast / nodes(level) : 0);
    const name = nth === 0 ? "root" : nth === all.length - 1 ? "leaves" : `level ${level.level}`;
    const title = `level ${level.level}: ${level.nodes_fast} nodes (${bytes(level.bytes_fast)}) fast, `
      + `${level.nodes_slow} (${bytes(level.bytes_slow)}) slow`;
    const figures = `${count(level.nodes_fast)} of ${count(nodes(level))} fast, ${bytes(level.bytes_fast)}`;
    texts.push([[0, y - 5], "start", name], [[drawing.width, y - 5], "end", figures]);
    drawing.rect("slow", [left, y], [width, bar], title);
    drawing.rect("fast", [left, y], [fast, bar], title);
    boundary.push([left + fast, y - 2], [left + fast, y + bar + 2]);
  });
  drawing.path("boundary", boundary, "the boundary between fast and slow memory");
  // The line does not cross them out.
  texts.forEach((text) => drawing.text("tick halo", ...text));
  drawing.show();
}

/** Where pages are moved: how much of the map is fast. */
function pages(host, row) {
  const [fast, all] = [fastBytes(row), row.memory.used_bytes];
  const drawing = new Drawing(host, 44, `${bytes(fast)} of ${bytes(all)} in fast memory`);
  const width = drawing.width * Math.min(1, fast / Math.max(1, all));
  drawing.text("tick", [0, 14], "start", row.memory.of_pages ? "pages" : "bytes");
  drawing.text("tick", [drawing.width, 14], "end", `${bytes(fast)} of ${bytes(all)} fast`);
  drawing.rect("slow", [0, 20], [drawing.width, 16]);
  drawing.rect("fast", [0, 20], [width, 16]);
  drawing.show();
}

/** How much is how hot, on a logarithmic scale both ways, with the thresholds. */
export function heat(host, { unit, bins, counts, thresholds }) {
  const told = counts.map(([name, all]) => `${name}: ${all.join(" ")}`).join("; ");
  const limits = thresholds.map(([name, value]) => `${name} ${short(value)}`).join(", ");
  const drawing = new Drawing(host, 230, `Histogram of heat in ${unit}. ${told}. Thresholds: ${limits || "none yet"}`);
  const [left, right, top, bottom] = [48, drawing.width - 6, 34, 230 - 34];
  const digits = (n) => Math.log10(1 + n);
  const most = Math.max(...counts.flatMap(([, all]) => all), 9);
  const y = scale([0, digits(most)], [bottom, top]);
  for (let power = 1; power <= most; power *= 10) {
    drawing.line("grid", [left, y(digits(power))], [right, y(digits(power))]);
    drawing.text("tick", [left - 6, y(digits(power)) + 4], "end", count(power));
  }
  drawing.line("mark", [left, bottom], [right, bottom]);
  const wide = (right - left) / bins.length;
  const each = (wide * 0.8) / counts.length;
  const every = Math.ceil(34 / wide);
  bins.forEach((from, bin) => {
    counts.forEach(([name, all], nth) => {
      const x = left + bin * wide + wide * 0.1 + nth * each;
      const until = bin + 1 < bins.length ? `to ${bins[bin + 1] - 1}` : "and more";
      const title = `${all[bin]} ${name} of heat ${from} ${until}`;
      drawing.rect(nth ? "other" : "fast", [x, y(digits(all[bin]))], [each, bottom - y(digits(all[bin]))], title);
    });
    if (bin % every === 0) drawing.text("tick", [left + bin * wide, bottom + 14], "start", count(from));
  });
  drawing.text("axis", [right, bottom + 29], "end", unit);
  thresholds.forEach(([name, value], nth) => {
    const x = left + wide * binOf(bins, value);
    drawing.line("threshold", [x, top - 4], [x, bottom], `${name}: ${short(value)}`);
    const anchor = x > (left + right) / 2 ? "end" : "start";
    drawing.text("warn", [x + (anchor === "end" ? -4 : 4), 10 + 13 * (nth % 2)], anchor, `${name} ${short(value)}`);
  });
  drawing.show();
}

/** Where a heat lies among the bins: its bin, and how far into it on a logarithmic scale. */
function binOf(bins, value) {
  const bin = bins.findLastIndex((from) => from <= value);
  if (bin < 0) return 0;
  if (bin + 1 === bins.length) return value > bins[bin] ? bins.length : bin;
  const [low, high] = [bins[bin] + 1, bins[bin + 1] + 1];
  return bin + Math.log(Math.max(1, (value + 1) / low)) / Math.log(high / low);
}

/** Fast memory over time, below its budget and with its watermarks. */
export function budget(host, row, watermarks) {
  const { budget_bytes: limit, usable_bytes: usable } = row.memory;
  const fast = fastBytes(row);
  const marks = watermarks.map(([name, part]) => `${name} ${percent(part)}`).join(", ");
  const said = limit ? `${bytes(fast)} of ${bytes(limit)}, ${percent(fast / limit)}` : `${bytes(fast)}, no budget`;
  const drawing = new Drawing(host, 210, `Fast memory over time; now ${said}. ${marks}`);
  const most = Math.max(limit ?? 0, fast, ...row.samples.map((it) => it.fast_bytes), 1);
  const frame = overTime(drawing, [row], most * 1.08, "bytes", bytes, 1024);
  const { y, left, right } = frame;
  drawing.path("line-fast", points(frame, row.samples, (it) => it.fast_bytes), "fast memory in use");
  const lines = watermarks.map(([name, part]) => [`${name} ${percent(part)}`, part * usable]);
  lines.sort((one, two) => two[1] - one[1]);
  if (limit) lines.unshift(["budget", limit]);
  let above = -Infinity;
  lines.forEach(([name, at], nth) => {
    drawing.line("threshold", [left, y(at)], [right, y(at)], `${name}: ${bytes(at)}`);
    // Names of lines that are close to one another stand below one another.
    above = Math.max(y(at) + (nth ? 13 : -4), above + 13);
    drawing.text("warn halo", [left + 5, above], "start", name);
  });
  drawing.show();
}

/** Promotions and demotions a second. */
export function moves(host, row) {
  const rates = row.samples.slice(1).map((now, nth) => {
    const before = row.samples[nth];
    const seconds = Math.max(1e-3, now.at_s - before.at_s);
    const rate = (name) => Math.max(0, now[name] - before[name]) / seconds;
    return { at_s: now.at_s, promoted: rate("promoted"), demoted: rate("demoted") };
  });
  const last = rates.at(-1) ?? { promoted: 0, demoted: 0 };
  const said = `${figure(last.promoted)} promotions and ${figure(last.demoted)} demotions a second`;
  const drawing = new Drawing(host, 210, `Promotions and demotions over time; now ${said}`);
  const most = Math.max(...rates.flatMap((it) => [it.promoted, it.demoted]), 10);
  const frame = overTime(drawing, [row], most * 1.06, "moves a second", count);
  drawing.path("line-fast", points(frame, rates, (it) => it.promoted), "promoted");
  drawing.path("line-other", points(frame, rates, (it) => it.demoted), "demoted");
  drawing.show();
}
