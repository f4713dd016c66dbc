// The page of `timberline bench`: the JSON of `--json`, as charts and a table.

/** The charts to redraw when the window changes. */
const redraws = [];

/** Puts a chart into a page, and draws it whenever the page's width changes. */
function chart(host, draw) {
  redraws.push(() => draw(host));
  return host;
}

/** Draws all charts, and redraws them when their width changes. */
function drawAll() {
  let width = 0;
  const draw = () => {
    if (width === document.documentElement.clientWidth) return;
    width = document.documentElement.clientWidth;
    redraws.forEach((redraw) => redraw());
    markScrolling();
  };
  draw();
  addEventListener("resize", draw);
}

/** Marks what is wider than its place, so that a hint tells that it scrolls. */
function markScrolling() {
  for (const it of document.querySelectorAll(".scroll, figure.wide")) {
    it.classList.toggle("overflows", it.scrollWidth > it.clientWidth + 1);
  }
}

/** The title of a page, with the main facts. */
function pageHead(title, emulated, facts) {
  const list = element("dl");
  for (const [name, value] of facts) list.append(element("dt", "", name), element("dd", "", value));
  return element("header", "", element("h1", "", title, ...badge(emulated)), list);
}

function section(title, emulated, lead, ...children) {
  const made = element("section", "", element("h2", "", title, ...badge(emulated)));
  if (lead) made.append(element("p", "lead", lead));
  made.append(...children);
  return made;
}

/** A legend: for each shape a class, a text, and whether it is a line. */
function legend(entries) {
  const list = element("ul", "legend");
  for (const [className, name, isLine] of entries) {
    const key = new Drawing(list, 14, name);
    key.set(key.svg, { viewBox: "0 0 24 14", style: "", role: "presentation", "aria-hidden": "true" });
    if (isLine) key.path(`series ${className}`, [[0, 7], [24, 7]]);
    else key.rect(`bar ${className}`, [6, 1], [12, 12]);
    list.append(element("li", "", key.svg, name));
  }
  return list;
}

/** The legend of placements, each once, in the order they first appear. */
const placements = (names, isLine = () => false) =>
  legend([...new Set(names)].map((name) => [colour(name), name, isLine(name)]));

/** A table: names of columns, with small print; and rows in groups, each with a head. */
function tableOf(columns, groups) {
  const head = element("tr");
  for (const [name, small] of columns) {
    const cell = element("th", "", name, ...(small ? [element("small", "", small)] : []));
    cell.scope = "col";
    head.append(cell);
  }
  const table = element("table", "", element("thead", "", head));
  for (const [title, rows] of groups) {
    const body = element("tbody");
    if (title) {
      const cell = element("th", "", element("span", "", ...title));
      Object.assign(cell, { colSpan: columns.length, scope: "rowgroup" });
      body.append(element("tr", "group", cell));
    }
    for (const [name, ...cells] of rows) {
      const first = element("th", "", ...[name].flat());
      first.scope = "row";
      body.append(element("tr", "", first, ...cells.map((text) => element("td", "", text))));
    }
    table.append(body);
  }
  return element("div", "scroll", table);
}

/** A placement's colour and name. */
const named = (placement, label = placement) => [element("i", colour(placement)), label];

/** Groups of comparable results: one map, one workload, one size. */
function groupsOf(results) {
  const groups = new Map();
  for (const it of results) {
    const key = JSON.stringify([it.index, it.workload, it.records, it.threads]);
    groups.set(key, [...(groups.get(key) ?? []), it]);
  }
  const all = [...groups.values()].map(groupOf);
  // A short name contains only the parts in which groups differ.
  const parts = [
    ["workload", (it) => it.workload],
    ["index", (it) => it.index],
    ["records", (it) => count(it.records)],
    ["threads", (it) => `${it.threads} thr`],
  ];
  const differ = parts.filter(([field], nth) => nth === 0 || new Set(all.map((it) => it.first[field])).size > 1);
  for (const group of all) group.name = differ.map(([, written]) => written(group.first)).join(" · ");
  return all;
}

function groupOf(members) {
  const first = members[0];
  const budgets = new Set(members.map((it) => it.fast_budget_ratio));
  const setting = [first.index, `${count(first.records)} records`, `${first.threads} thread${first.threads === 1 ? "" : "s"}`];
  if (budgets.size === 1) setting.push(`budget ${percent(first.fast_budget_ratio)}`);
  const label = (it) => {
    const twice = members.filter((other) => other.placement === it.placement).length > 1;
    return twice ? `${it.placement} @${percent(it.fast_budget_ratio)}` : it.placement;
  };
  return { first, members, label, setting: setting.join(" · "), emulated: members.some((it) => it.emulated) };
}

/** A workload's name and setting, above its chart. */
const caption = ({ first, setting, emulated }) =>
  element("h3", "", `${first.workload} `, element("small", "", setting), ...badge(emulated));

const none = (text) => element("p", "none", text);

/** Bar charts of one figure of all groups, with the legend above. */
function barsOf(unit, groups, isShown, barOf, domainOf, marks, limitOf = () => null) {
  const clusters = groups
    .map((group) => ({
      name: group.name,
      bars: group.members.filter(isShown).map((it) => ({ className: colour(it.placement), ...barOf(group, it) })),
      limit: limitOf(group),
    }))
    .filter((it) => it.bars.length);
  if (clusters.length === 0) return null;
  const names = groups.flatMap((group) => group.members.filter(isShown).map((it) => it.placement));
  if (clusters.some((it) => it.limit)) names.push("oracle");
  const draw = (it) => bars(it, `${unit} by workload and placement`, unit, domainOf(clusters), marks, clusters);
  const host = chart(element("div"), draw);
  return [placements(names, (name) => name === "oracle" && clusters.some((it) => it.limit)), host];
}

/** The groups whose gap is too small to divide by. */
function noiseOf(groups) {
  return groups.flatMap((group) => {
    const it = group.members.find((it) => (it.gap ?? null) !== null && it.regained === null);
    if (!it) return [];
    return element("p", "broken", `${group.name}: all-fast and interleave differ by ${percent(it.gap)} ± ${percent(it.gap_noise)}, `
      + "too little to divide by, so `regained` is left out.");
  });
}

function regainedSection(groups, emulated) {
  const isShown = (it) => it.regained !== null && !["interleave", "all-fast"].includes(it.placement);
  const text = (it) => ranged(it.regained, it.regained_min, it.regained_max);
  const barOf = (group, it) => ({
    title: `${group.name}, ${group.label(it)}: regained ${text(it)}`,
    value: it.regained,
    min: it.regained_min,
    max: it.regained_max,
  });
  // One outlier must not flatten all others.
  const domainOf = (clusters) => {
    const all = clusters.flatMap((it) => it.bars.flatMap((bar) => [bar.value, bar.min, bar.max]));
    return [Math.max(-0.6, Math.min(0, ...all)), Math.min(1.6, Math.max(1.05, ...all))];
  };
  const drawn = barsOf("regained", groups, isShown, barOf, domainOf, [[0, "interleave"], [1, "all-fast"]]);
  const lead = "The fraction of the cost of slow memory that a placement regains: 0 is weighted interleave, 1 is all of "
    + "the tree in fast memory. Thin lines span the rounds.";
  const missing = "Needs interleave and a faster all-fast in the same run.";
  return section("Regained", emulated, lead, ...noiseOf(groups), ...(drawn ?? [none(missing)]));
}

function fastShareSection(groups, emulated) {
  const isShown = (it) => it.fast_share !== null && !["all-fast", "all-slow", "oracle"].includes(it.placement);
  const barOf = (group, it) => ({
    title: `${group.name}, ${group.label(it)}: fast share ${share(it.fast_share)}, `
      + `${share(it.fast_share_to_oracle)} of the oracle's`,
    value: it.fast_share,
  });
  const limitOf = (group) => {
    const value = group.members.find((it) => it.placement === "oracle")?.fast_share ?? null;
    return value === null ? null : { value, title: `${group.name}, oracle: fast share ${share(value)}` };
  };
  const drawn = barsOf("fast share", groups, isShown, barOf, () => [0, 1], [], limitOf);
  const lead = "The fraction of cache misses served by fast memory. The dashed line is the oracle: static placement "
    + "from exact frequencies. Adaptive placements can beat it.";
  return section("Fast share", emulated, lead, ...(drawn ?? [none("No lines were counted in this run.")]));
}

const COLUMNS = [
  ["placement"], ["Mops/s", "median [min, max]"], ["÷ interleave", "median [95 %]"],
  ["÷ oracle", "median [95 %]"], ["÷ all-fast", "median [95 %]"], ["regained", "median [95 %]"],
  ["regained", "÷ oracle"], ["fast share"], ["fast share", "÷ oracle"], ["latency, µs", "p50/p90/p99/p99.9"],
  ["lines / op", "fast + slow (cached)"], ["promoted", "/demoted"], ["worker CPU"], ["fast memory", "used/budget"],
  ["bytes per record"],
];

const rates = (it) => ranged(it.ops_per_s, it.ops_per_s_min, it.ops_per_s_max, mops);
/** The ratio to a reference with its interval, and what this says: ahead, behind or undecided. */
function compared(it, reference) {
  const [ratio, low, high] = ["", "_low", "_high"].map((end) => it[`ratio_to_${reference}${end}`] ?? null);
  const says = low === null ? "" : low > 1 ? " ahead" : high < 1 ? " behind" : " undecided";
  return ranged(ratio, low, high) + says;
}

const percentiles = (it) => micros([it.p50_ns, it.p90_ns, it.p99_ns, it.p999_ns]);
const moved = (it) => `${count(it.promoted)}/${count(it.demoted)}`;

function figuresSection(groups, emulated) {
  const row = (group) => (it) => [
    named(it.placement, group.label(it)),
    rates(it),
    compared(it, "interleave"),
    compared(it, "oracle"),
    compared(it, "all_fast"),
    ranged(it.regained, it.regained_low, it.regained_high),
    share(it.regained_to_oracle),
    share(it.fast_share),
    share(it.fast_share_to_oracle),
    percentiles(it),
    `${share(it.lines_fast_per_op)} + ${share(it.lines_slow_per_op)} (${share(it.lines_cached_per_op)})`,
    moved(it),
    percent(it.worker_cpu_ratio),
    bytesOf(it.fast_bytes, it.fast_budget_bytes),
    it.bytes_per_record.toFixed(1),
  ];
  const body = (group) => [
    [`${group.first.workload} `, element("small", "", group.setting), ...badge(group.emulated)],
    group.members.map(row(group)),
  ];
  return section("Figures", emulated, "", tableOf(COLUMNS, groups.map(body)));
}

/** The curves over time: label, unit, and value in a sample. */
const CURVES = {
  throughput: ["throughput", "Mops/s", (it) => it.ops_per_s / 1e6],
  fast_share: ["fast share", "of lines", (it) => it.fast_share],
  fast_use: ["fast memory in use", "of the budget", (it, line) => (line.budget ? it.fast_bytes / line.budget : null)],
};

/** The largest value of a curve in all groups: the scale that their charts share. */
function highest(groups, curve) {
  const [, , value] = CURVES[curve];
  const all = groups.flatMap((group) => group.members);
  return Math.max(0, ...all.flatMap((it) => it.series.map((sample) => value(sample, { budget: it.fast_budget_bytes }) ?? 0)));
}

/** A curve of all members of a group over time, up to `most`; `null` without samples. */
function overTimeOf(group, curve, heading, most) {
  const [name, unit, value] = CURVES[curve];
  const all = group.members.filter((it) => it.series.length).map((it) => ({
    name: group.label(it),
    class: colour(it.placement),
    samples: it.series,
    budget: it.fast_budget_bytes,
  }));
  if (all.length === 0) return null;
  const told = (it) => `${mops(it.ops_per_s)} Mops/s, fast share ${share(it.fast_share)}, ${bytes(it.fast_bytes)} fast, `
    + `${count(it.promoted)} promoted, ${count(it.demoted)} demoted`;
  const label = `${group.name}: ${name} over time by placement`;
  return chart(element("figure", "", heading), (host) => lines(host, label, unit, all, value, told, most));
}

function overTimeSection(groups, emulated) {
  const most = highest(groups, "throughput");
  const charts = groups.map((group) => overTimeOf(group, "throughput", caption(group), most)).filter(Boolean);
  const lead = "Each placement in its own measured time, with its rounds joined end to end. Point at a line for its figures.";
  const sampled = groups.flatMap((group) => group.members.filter((it) => it.series.length).map((it) => it.placement));
  const body = charts.length
    ? [placements(sampled, () => true), element("div", "halves", ...charts)]
    : [none("No samples were taken in this run.")];
  return section("Throughput over time", emulated, lead, ...body);
}

/** Percentiles of latency on a shared logarithmic scale. */
function latencySection(groups, emulated) {
  const all = groups.flatMap((group) => group.members).filter((it) => it.p50_ns > 0);
  if (all.length === 0) return [];
  const domain = [Math.min(...all.map((it) => it.p50_ns)), Math.max(...all.map((it) => it.p999_ns))];
  const charts = groups.map((group) => {
    const members = group.members.filter((it) => it.p50_ns > 0);
    const maps = members.map((it) => ({
      name: group.label(it),
      class: colour(it.placement),
      nanos: [it.p50_ns, it.p90_ns, it.p99_ns, it.p999_ns],
    }));
    return chart(element("figure", "", caption(group)), (host) => latencies(host, `${group.name}: latency by placement`, domain, maps));
  });
  const lead = "Percentiles of a request's latency; the scale is logarithmic, and all charts share it.";
  const names = placements(all.map((it) => it.placement), () => true);
  return [section("Latency", emulated, lead, names, element("div", "halves", ...charts))];
}

/** The kernel's moves, by its own counters. A flow has the colour of the placement that models it, if any. */
const FLOWS = [
  ["promoted by NUMA balancing", "p-autonuma", (it) => pagesOf(it.pgpromote_success)],
  ["demoted by reclaim", "p-tpp", (it) => pagesOf(it.pgdemote_kswapd, it.pgdemote_direct)],
  ["hot, moved by DAMON", "p-damon", (it) => it.damon_hot_applied_bytes],
  ["cold, moved by DAMON", "p-other", (it) => it.damon_cold_applied_bytes],
];
const pagesOf = (first, more = 0) => (first === null ? null : 4096 * (first + (more ?? 0)));

/** Only if the kernel moved pages. */
function kernelSection(groups, emulated) {
  const charts = groups.flatMap((group) => group.members.flatMap((it) => {
    const last = it.series.at(-1)?.kernel;
    const counted = last ? FLOWS.filter(([, , of]) => of(last) !== null) : [];
    if (!counted.some(([, , of]) => of(last) > 0)) return [];
    const all = counted.map(([name, className, of]) => ({ name, class: className, samples: it.series, of }));
    const value = (sample, line) => (sample.kernel ? line.of(sample.kernel) / (1 << 20) : null);
    const told = (sample, line) => (sample.kernel ? bytes(line.of(sample.kernel)) : ABSENT);
    const heading = caption(group);
    return chart(element("figure", "", heading), (host) => lines(host, `${group.name}, ${group.label(it)}: moved by the kernel`, "MiB", all, value, told));
  }));
  if (charts.length === 0) return [];
  const lead = "Memory that the kernel moved between NUMA nodes on the whole machine since it took over the map, by its own counters.";
  const keys = legend(FLOWS.map(([name, className]) => [className, name, true]));
  return [section("Moved by the kernel", emulated, lead, keys, element("div", "halves", ...charts))];
}

function levelsSection(groups, emulated) {
  const body = groups.flatMap((group) => {
    const known = group.members.filter((it) => it.levels.length);
    const panel = (it) => {
      const use = `fast memory ${bytesOf(it.fast_bytes, it.fast_budget_bytes)}`;
      const heading = element("h3", "", `${group.label(it)} `, element("small", "", use));
      return chart(element("figure", "", heading), (host) => levels(host, it));
    };
    return known.length ? [caption(group), element("div", "quarters", ...known.map(panel))] : [];
  });
  const lead = "Nodes of each level in fast memory at the end of the run. Green is fast; bar widths are logarithmic in the number of nodes. "
    + "Copies of records are in no level.";
  return section("Levels by tier", emulated, lead, ...(body.length ? body : [none("No levels were recorded in this run.")]));
}

function notesSection({ meta, results }) {
  const list = element("ul", "notes");
  for (const it of results.filter((it) => it.over_budget_bytes > 0)) {
    const line = `over budget: ${it.placement} on ${it.workload} used ${bytes(it.over_budget_bytes)} more fast memory than its budget`;
    list.append(element("li", "broken", line));
  }
  for (const it of results) {
    const kernel = it.series.at(-1)?.kernel;
    const counted = Object.entries(kernel ?? {}).filter(([, value]) => value !== null);
    const told = counted.map(([name, value]) => `${name} ${count(value)}`).join(", ") || "this kernel does not count its moves";
    if (kernel) list.append(element("li", "", `${it.workload}, ${it.placement}: moved by the kernel on the whole machine: ${told}`));
  }
  for (const it of meta.calibrations ?? []) {
    const line = `emulator, ${it.workload} on ${it.index}: slow ÷ fast latency ${it.ratio.toFixed(3)}, the profile says `
      + `${it.ratio_of_profile.toFixed(3)}; fast ${it.base_latency_ns.toFixed(0)} ns at ${bytes(it.footprint_bytes)} a tier`;
    list.append(element("li", "", line));
  }
  for (const note of meta.notes) list.append(element("li", "", note));
  for (const [name, version] of Object.entries(meta.versions)) list.append(element("li", "", `${name} ${version}`));
  return list.children.length ? [section("Notes", false, "", list)] : [];
}

const machineOf = ({ cpu, cores, memory_bytes: memory, kernel }) => `${cpu}, ${cores} cores, ${bytes(memory)}, ${kernel}`;

function showReport(report) {
  const { meta, results } = report;
  const emulated = meta.emulated || results.some((it) => it.emulated);
  const memory = emulated ? `slow memory emulated, profile ${meta.profile}` : "real memory tiers";
  const main = document.querySelector("main");
  main.append(pageHead("timberline bench", emulated, [
    ["memory", `${memory}; fast tier ${meta.base_latency_ns.toFixed(0)} ns`],
    ["machine", machineOf(meta.machine)],
    ["date", `${meta.date} UTC`],
    ["command", meta.command],
    ["seed", String(meta.seed)],
  ]));
  const groups = groupsOf(results);
  if (groups.length === 0) main.append(element("p", "", "Nothing was measured."));
  else {
    main.append(
      regainedSection(groups, emulated),
      figuresSection(groups, emulated),
      overTimeSection(groups, emulated),
      ...latencySection(groups, emulated),
      ...kernelSection(groups, emulated),
      fastShareSection(groups, emulated),
      levelsSection(groups, emulated),
    );
  }
  main.append(...notesSection(report));
  drawAll();
}
