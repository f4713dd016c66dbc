// The charts of all pages: each draws a part of the JSON into an element.

/** The minimum and maximum time range of a live run's charts, seconds. */
const SPANS = [5, 30];
/** The maximum number of points of a line, and of those with a tooltip. */
const [POINTS, SPOTS] = [240, 40];

/** Bytes in fast memory, in the latest sample. */
const fastBytes = (row) => row.samples.at(-1)?.fast_bytes ?? 0;

/** Time of a map's sample relative to the last one, seconds: 0 or less. */
const when = (samples, it) => it.at_s - samples.at(-1).at_s;

/** Axes of a chart over the seconds of `span`; a span that ends at 0 ends now. Returns the scales of times and values. */
function overTime(drawing, span, high, unit, written = short, base = 10, seconds = "s") {
  const [left, right, top, bottom] = [52, drawing.width - 8, 20, drawing.height - 22];
  const x = scale(span, [left, right]);
  const y = scale([0, high], [bottom, top]);
  drawing.grid([0, high], y, left, right, written, base);
  drawing.line("mark", [left, bottom], [right, bottom]);
  const live = span[1] === 0;
  for (const tick of ticks(span, 5)) {
    const at = live && tick === 0 ? "now" : `${short(tick).replace("-", "−")} ${seconds}`;
    drawing.text("tick", [x(tick), bottom + 16], tick === span[1] ? "end" : "middle", at);
  }
  drawing.text("axis", [0, 10], "start", unit);
  drawing.text("axis", [right, 10], "end", live ? "time before now" : "measured time");
  return { x, y, left, right, from: span[0] };
}

/** The time range of a chart of these maps, seconds before now. */
function recent(rows) {
  const begun = rows.filter((row) => row.samples.length).map((row) => when(row.samples, row.samples[0]));
  return [Math.max(-SPANS[1], Math.min(-SPANS[0], ...begun)), 0];
}

/** A map's samples as points of a frame. */
function points({ x, y, from }, samples, value) {
  const shown = samples.filter((it) => when(samples, it) >= from);
  return shown.map((it) => [x(when(samples, it)), y(value(it))]);
}

/** Throughput of all maps. */
function throughput(host, rows) {
  const rates = rows.map((row) => row.samples.at(-1)?.ops_per_s ?? 0);
  const said = rows.map((row, nth) => `${row.placement} ${figure(rates[nth] / 1e6)}`).join(", ");
  const drawing = new Drawing(host, 240, `Throughput over time in Mops/s; now: ${said || "no data yet"}`);
  const most = Math.max(...rows.flatMap((row) => row.samples.map((it) => it.ops_per_s)), 0) / 1e6;
  const frame = overTime(drawing, recent(rows), most * 1.06 || 1, "Mops/s");
  for (const row of rows) {
    const line = points(frame, row.samples, (it) => it.ops_per_s / 1e6);
    drawing.path(`series ${colour(row.placement)}`, line, row.placement);
  }
  drawing.show();
}

/** The levels of the tree, root on top: the fast part of each, and the boundary between the tiers. */
function levels(host, row) {
  const all = row.levels ?? [];
  if (all.length === 0) return pages(host, row);
  const [step, bar] = [40, 16];
  const nodes = (level) => level.nodes_fast + level.nodes_slow;
  const widest = Math.log10(1 + Math.max(...all.map(nodes)));
  const told = all.map((it) => `level ${it.level}: ${it.nodes_fast} of ${nodes(it)} fast`).join("; ");
  const copies = row.copies_bytes ?? 0;
  const drawing = new Drawing(host, 6 + step * (all.length + (copies ? 1 : 0)), `Nodes by level and tier. ${told}; copies: ${bytes(copies)}`);
  const [boundary, texts] = [[], []];
  all.forEach((level, nth) => {
    const y = step * nth + 20;
    // Each level has about a hundred times the nodes of the one above, so bar widths are logarithmic.
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
  if (copies) {
    // As wide as a level of as many bytes in nodes, so that it is comparable with the leaves.
    const leaves = all.at(-1);
    const ofLeaves = (leaves.bytes_fast + leaves.bytes_slow) / Math.max(1, nodes(leaves));
    const width = drawing.width * Math.max(0.06, Math.log10(1 + copies / Math.max(1, ofLeaves)) / (widest || 1));
    const y = step * all.length + 20;
    drawing.rect("fast", [(drawing.width - width) / 2, y], [Math.min(width, drawing.width), bar], `copies of records: ${bytes(copies)} fast`);
    texts.push([[0, y - 5], "start", "copies of records"], [[drawing.width, y - 5], "end", `${bytes(copies)}, all fast`]);
  }
  // Drawn after the boundary, so that the line does not cover the texts.
  texts.forEach((text) => drawing.text("tick halo", ...text));
  drawing.show();
}

/** If pages are placed: the fast part of the map. */
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

/** The heat histogram with both axes logarithmic, and the thresholds. */
function heat(host, { unit, bins, counts, thresholds }) {
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

/** The position of a heat among the bins: its bin, and the logarithmic offset into it. */
function binOf(bins, value) {
  const bin = bins.findLastIndex((from) => from <= value);
  if (bin < 0) return 0;
  if (bin + 1 === bins.length) return value > bins[bin] ? bins.length : bin;
  const [low, high] = [bins[bin] + 1, bins[bin + 1] + 1];
  return bin + Math.log(Math.max(1, (value + 1) / low)) / Math.log(high / low);
}

/** Fast memory over time, below its budget and with its watermarks. */
function budget(host, row, watermarks) {
  const { budget_bytes: limit, usable_bytes: usable } = row.memory;
  const fast = fastBytes(row);
  const marks = watermarks.map(([name, part]) => `${name} ${percent(part)}`).join(", ");
  const said = limit ? `${bytes(fast)} of ${bytes(limit)}, ${percent(fast / limit)}` : `${bytes(fast)}, no budget`;
  const drawing = new Drawing(host, 210, `Fast memory over time; now ${said}. ${marks}`);
  const most = Math.max(limit ?? 0, fast, ...row.samples.map((it) => it.fast_bytes), 1);
  const frame = overTime(drawing, recent([row]), most * 1.08, "bytes", bytes, 1024);
  const { y, left, right } = frame;
  drawing.path("line-fast", points(frame, row.samples, (it) => it.fast_bytes), "fast memory in use");
  const lines = watermarks.map(([name, part]) => [`${name} ${percent(part)}`, part * usable]);
  lines.sort((one, two) => two[1] - one[1]);
  if (limit) lines.unshift(["budget", limit]);
  let above = -Infinity;
  lines.forEach(([name, at], nth) => {
    drawing.line("threshold", [left, y(at)], [right, y(at)], `${name}: ${bytes(at)}`);
    // Labels of close lines are stacked.
    above = Math.max(y(at) + (nth ? 13 : -4), above + 13);
    drawing.text("warn halo", [left + 5, above], "start", name);
  });
  drawing.show();
}

/** Promotions and demotions a second. */
function moves(host, row) {
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
  const frame = overTime(drawing, recent([row]), most * 1.06, "moves a second", count);
  drawing.path("line-fast", points(frame, rates, (it) => it.promoted), "promoted");
  drawing.path("line-other", points(frame, rates, (it) => it.demoted), "demoted");
  drawing.show();
}

/** At most `limit` samples: neighbours are merged, with average rates and the last state. */
function thin(samples, limit) {
  const size = Math.max(1, Math.ceil(samples.length / limit));
  const thinned = [];
  for (let at = 0; at < samples.length; at += size) {
    const merged = samples.slice(at, at + size);
    const rate = merged.reduce((sum, it) => sum + it.ops_per_s, 0) / merged.length;
    thinned.push({ ...merged.at(-1), ops_per_s: rate });
  }
  return thinned;
}

/**
 * Lines over a run's time. A line has a name, a class, and samples; `value` gives the height of a sample, or `null`,
 * and `told` formats it. Times are in `seconds`, if that is another unit.
 */
function lines(host, label, unit, all, value, told, most = 0, seconds = "s") {
  const values = all.flatMap((line) => line.samples.map((it) => value(it, line) ?? 0));
  const until = Math.max(0, ...all.map((line) => line.samples.at(-1)?.at_s ?? 0));
  const drawing = new Drawing(host, 250, label);
  const frame = overTime(drawing, [0, until], Math.max(1e-9, most, ...values) * 1.06, unit, short, 10, seconds);
  const points = (line, limit) => thin(line.samples, limit)
    .map((it) => [it, value(it, line)])
    .filter(([, at]) => at !== null)
    .map(([it, at]) => [it, [frame.x(it.at_s), frame.y(at)]]);
  for (const line of all) drawing.path(`series ${line.class}`, points(line, POINTS).map(([, at]) => at), line.name);
  // The tooltip spots come last, so that no line covers them.
  for (const line of all) {
    for (const [it, at] of points(line, SPOTS)) drawing.spot(at, `${line.name} at ${it.at_s.toFixed(1)} ${seconds}: ${told(it, line)}`);
  }
  drawing.show();
}

/** Lines over percentiles, with a logarithmic scale of nanoseconds. A line has a name, a class and four values. */
function latencies(host, label, [low, high], all) {
  const names = ["p50", "p90", "p99", "p99.9"];
  const drawing = new Drawing(host, 220, label);
  const [left, right, top, bottom] = [58, drawing.width - 22, 20, 220 - 34];
  const log = scale([Math.floor(Math.log10(low)), Math.max(Math.ceil(Math.log10(high)), Math.floor(Math.log10(low)) + 1)], [bottom, top]);
  const y = (ns) => log(Math.log10(Math.max(1, ns)));
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= 10 ** Math.ceil(Math.log10(high)); power *= 10) {
    drawing.line("grid", [left, y(power)], [right, y(power)]);
    drawing.text("tick", [left - 6, y(power) + 4], "end", nanos(power));
  }
  const x = (nth) => left + 20 + ((right - left - 40) * nth) / (names.length - 1);
  names.forEach((name, nth) => drawing.text("tick", [x(nth), bottom + 16], "middle", name));
  drawing.text("axis", [0, 10], "start", "latency");
  drawing.text("axis", [right, bottom + 30], "end", "percentile of requests");
  for (const line of all) drawing.path(`series ${line.class}`, line.nanos.map((ns, nth) => [x(nth), y(ns)]), line.name);
  for (const line of all) {
    line.nanos.forEach((ns, nth) => drawing.spot([x(nth), y(ns)], `${line.name}: ${names[nth]} ${nanos(ns)}`));
  }
  drawing.show();
}

/**
 * Clusters of bars over one axis, in as many rows as needed. A bar has a class, a title, its value, and may have a
 * range over the rounds (`min`, `max`) and a `published` range. A bar beyond the chart is cut at its edge.
 */
function bars(host, label, unit, domain, marks, clusters) {
  const height = 300;
  const draw = (row, pitch, slot) => {
    const place = element("figure", "wide");
    host.append(place);
    const drawing = new Drawing(place, height, label, 640);
    const [left, right, top, bottom] = [46, drawing.width - 92, 22, height - 38];
    const y = scale(domain, [bottom, top]);
    drawing.grid(domain, y, left, right, short);
    drawing.text("axis", [0, 10], "start", unit);
    for (const [value, name] of marks) {
      drawing.line("mark", [left, y(value)], [right, y(value)]);
      drawing.text("tick", [right + 8, y(value) + 4], "start", name);
    }
    row.forEach((cluster, nth) => {
      const middle = left + pitch * (nth + 0.5);
      const width = slot * cluster.bars.length;
      const start = middle - width / 2;
      cluster.bars.forEach((it, at) => bar(drawing, y, domain, start + slot * at, slot, it));
      if (cluster.limit) {
        const at = y(cluster.limit.value);
        drawing.path("limit p-oracle", [[start - 6, at], [start + width + 4, at]], cluster.limit.title);
      }
      drawing.text("name", [middle, height - 8], "middle", cluster.name);
    });
    drawing.show();
  };
  host.replaceChildren();
  const room = Math.max(640, host.clientWidth - 28) - 150;
  const most = Math.max(0, ...clusters.map((it) => it.bars.length)) + 1;
  const rows = Math.ceil(clusters.length / Math.max(1, Math.floor(room / (most * 18))));
  const perRow = Math.ceil(clusters.length / Math.max(1, rows));
  const pitch = room / perRow;
  const slot = Math.min(56, pitch / most);
  for (let at = 0; at < clusters.length; at += perRow) draw(clusters.slice(at, at + perRow), pitch, slot);
}

/** A bar from zero with its range, the published range, and its value after its end if there is room. */
function bar(drawing, y, [low, high], x, slot, { className, title, value, min, max, published }) {
  const [zero, end] = [y(0), y(value)];
  const wide = slot - Math.min(4, slot * 0.14);
  const middle = x + wide / 2;
  const [least, most] = [min ?? value, max ?? value];
  drawing.rect(`bar ${className}`, [x, Math.min(zero, end)], [wide, Math.max(1, Math.abs(zero - end))], title);
  if (most > least) drawing.line("whisker", [middle, y(least)], [middle, y(most)]);
  if (published) {
    const [top, bottom] = [y(published.most), y(published.least)];
    drawing.rect("published", [x - 1, top], [wide + 2, Math.max(2, bottom - top)], published.title);
  }
  const isCut = value > high || value < low;
  if (isCut) {
    const teeth = [0, 0.25, 0.5, 0.75, 1].map((part, nth) => [x + wide * part, end + (nth % 2 ? 3 : 8) * (value < 0 ? -1 : 1)]);
    drawing.path("cut", teeth, `${title}, cut at the edge of the chart`);
  }
  // A bar that is cut always has its value: its length no longer tells it.
  if (slot < 28 && !isCut) return;
  const beyond = value < 0 ? Math.max(end, y(least)) + 13 : Math.min(end, y(most)) - 5;
  drawing.text("value", [middle, beyond], "middle", amount(value));
}
