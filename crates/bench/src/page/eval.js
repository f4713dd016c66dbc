// The page of `timberline eval`: each figure beside its published values.

/** A published or measured range; an open end is `null`. */
function span(range) {
  if (range === null) return ABSENT;
  const [least, most] = range;
  if (most === null) return `above ${amount(least)}`;
  if (least === most) return amount(least);
  return least === 0 ? `up to ${amount(most)}` : `${amount(least)}–${amount(most)}`;
}

/** The domain of an axis. It cuts off outliers, so that one placement or round does not flatten all others. */
function domainOf(clusters, marks) {
  const all = clusters.flatMap((it) => it.bars);
  const values = all.map((it) => it.value).sort((one, two) => one - two);
  const far = 6 * Math.max(1e-9, Math.abs(values[Math.floor(values.length / 2)] ?? 1));
  const published = all.filter((it) => it.published).map((it) => it.published.most);
  const high = Math.max(0, ...values.filter((it) => it <= far), ...marks.map(([value]) => value), ...published);
  return [Math.max(Math.min(0, ...values), -0.6 * high), high > 0 ? 1.08 * high : 1];
}

function barsView({ caption, marks, panels }, title) {
  const barOf = (category) => (it) => {
    const range = it.max > it.min ? ` [${amount(it.min)}, ${amount(it.max)}]` : "";
    const told = it.published && `published: ${it.published.says}, ${span([it.published.least, it.published.most])}`;
    return {
      className: colour(it.placement),
      title: `${category}, ${it.placement}: ${amount(it.median)}${range}`,
      value: it.median,
      min: it.min,
      max: it.max,
      published: it.published && { ...it.published, title: told },
    };
  };
  const names = panels.flatMap((panel) => panel.clusters.flatMap((it) => it.bars.map((bar) => bar.placement)));
  const clustersOf = (panel) => panel.clusters.map((it) => ({ name: it.name, bars: it.bars.map(barOf(it.name)) }));
  // Panels share their scale, so that their bars can be compared.
  const domain = domainOf(panels.flatMap(clustersOf), marks);
  const drawn = panels.flatMap((panel) => {
    const draw = (host) => bars(host, `${title}: ${caption}`, caption, domain, marks, clustersOf(panel));
    return [...(panel.name ? [element("h3", "", panel.name)] : []), chart(element("div"), draw)];
  });
  return drawn.length ? [element("p", "axis", caption), placements(names), ...drawn] : [];
}

/** Throughput of rows over time, a chart for each run. */
function seriesView(runs) {
  const rowsOf = (run) => run.table.rows.filter((row) => row.series);
  const most = Math.max(0, ...runs.flatMap((run) => rowsOf(run).flatMap((row) => row.series.map(([, mops]) => mops))));
  const charts = runs.map((run) => {
    const all = rowsOf(run).map(({ subject, series }) => ({
      name: subject,
      class: colour(subject),
      samples: series.map(([at_s, mops]) => ({ at_s: 1e3 * at_s, mops, ops_per_s: 0 })),
    }));
    const told = (it) => `${amount(it.mops)} M/s`;
    const heading = element("h3", "", run.category);
    const label = `${run.category}: throughput over time by subject`;
    return chart(element("figure", "", heading), (host) => lines(host, label, "M/s", all, (it) => it.mops, told, most, "ms"));
  });
  const names = runs.flatMap((run) => rowsOf(run).map((row) => row.subject));
  const axis = element("p", "axis", "throughput over simulated time");
  return [axis, placements(names, () => true), element("div", "halves", ...charts)];
}

function overTimeView({ curve }, runs) {
  const groups = runs.flatMap((run) => groupsOf(run.report.results).map((group) => [run, group]));
  const most = highest(groups.map(([, group]) => group), curve);
  const charts = groups.map(([run, group]) => overTimeOf(group, curve, element("h3", "", run.category), most)).filter(Boolean);
  const names = groups.flatMap(([, group]) => group.members.map((it) => it.placement));
  const title = `${CURVES[curve][0]} over measured time`;
  return [element("p", "axis", title), placements(names, () => true), element("div", "halves", ...charts)];
}

/** The bounds of placements of each grain, beside the measured fast shares. */
function boundsView(runs) {
  const all = runs.flatMap((run) => run.report.results.map((it) => it.placement));
  const names = [...new Set(all)].filter((name) => name !== "all-fast");
  const rows = runs.map((run) => {
    const { meta: { bounds: [bounds] }, results } = run.report;
    const of = (name) => results.find((it) => it.placement === name)?.fast_share ?? null;
    const pages = results.find((it) => it.fast_share_bound !== null)?.fast_share_bound ?? null;
    const grains = ["page", "leaf", "record"].map((grain) => bounds?.[`bound_${grain}_fast_share`] ?? null);
    return [run.category, ...[pages, ...grains, ...names.map(of)].map(share)];
  });
  const columns = ["", "bound of pages, of lines", "bound of pages", "bound of leaves", "bound of records", ...names];
  return [element("p", "axis", "fast share"), tableOf(columns.map((name) => [name]), [[null, rows]])];
}

function verdictsOf({ verdicts }) {
  if (verdicts.length === 0) return [];
  const orders = { as_published: "as published", undecided: "undecided" };
  const order = (it) => (it.order === "contradicted" ? `contradicted in ${it.contrary.length}` : orders[it.order] ?? ABSENT);
  const size = (it) => (it.size === null ? ABSENT : it.size === 1 ? "as published" : `× ${amount(it.size)}`);
  const rows = verdicts.map((it) =>
    [it.says, span(it.published), span(it.measured), span(it.timberline), order(it), size(it)]);
  const columns = [["claim"], ["published"], ["here"], ["timberline"], ["order"], ["size", "here ÷ published"]];
  const sizes = verdicts.filter((it) => it.why && it.contrary.length === 0);
  const reasons = sizes.map((it) => element("li", "", `${it.says}, another size: ${it.why}`));
  return [tableOf(columns, [[null, rows]]), ...(reasons.length ? [element("ul", "notes", ...reasons)] : [])];
}

/** The median of a row's value, with its range over the rounds. */
function valueOf(value) {
  if (value === undefined) return ABSENT;
  if (typeof value === "number") return amount(value);
  const sorted = [...value].sort((one, two) => one - two);
  return `${amount(sorted[Math.floor(sorted.length / 2)])} [${amount(sorted[0])}, ${amount(sorted.at(-1))}]`;
}

/** A table of all values of rows. */
function rowsOf(runs) {
  const all = runs.flatMap((run) => run.table.rows.map((row) => [`${run.panel} ${run.category}`.trim(), row]));
  const measures = [...new Set(all.flatMap(([, row]) => Object.keys(row.values)))];
  const rows = all.map(([place, row]) => [place, row.subject, ...measures.map((name) => valueOf(row.values[name]))]);
  const columns = ["run", "", ...measures.map((name) => name.replaceAll("_", " "))];
  return tableOf(columns.map((name) => [name]), [[null, rows]]);
}

/** A table of all values of a chart. */
function detailsOf(runs) {
  if (runs.every((run) => run.table)) return element("details", "", element("summary", "", "All figures"), rowsOf(runs));
  const rows = runs.flatMap((run) => run.report.results.map((it) => [
    `${run.panel} ${run.category}`.trim(), it.placement, rates(it), compared(it, "interleave"),
    ranged(it.regained, it.regained_low, it.regained_high), share(it.fast_share), percentiles(it), moved(it),
    percent(it.worker_cpu_ratio),
  ]));
  const columns = ["run", "placement", "Mops/s", "÷ interleave", "regained", "fast share", "p50/p90/p99/p99.9, µs", "moved", "worker CPU"];
  const table = tableOf(columns.map((name) => [name]), [[null, rows]]);
  return element("details", "", element("summary", "", "All figures"), table);
}

/** What is not real of a run: `emulated`, `simulated`, or nothing. */
const substituteOf = ({ report, table }) =>
  table?.substitute ?? (report.meta.emulated || report.results.some((it) => it.emulated) ? "emulated" : "");
/** The same of several runs. */
const substitutesOf = (runs) => [...new Set(runs.map(substituteOf))].filter(Boolean).sort().join(", ");
const metaOf = ({ report, table }) => (report ?? table).meta;
const measuredRuns = (figure) => figure.runs.filter((run) => run.report || run.table);

function figureSection(figure) {
  const runs = measuredRuns(figure);
  const source = figure.source ? `${figure.source}. ` : "";
  const made = section(figure.title, substitutesOf(runs), source + figure.about);
  made.id = `f${figure.id}`;
  made.querySelector("h2").firstChild.after(" ", element("small", "", figure.id));
  if (figure.missing) made.append(none(`Not measured: ${figure.missing}.`));
  else if (runs.length === 0) made.append(none("Not measured yet."));
  else {
    for (const view of figure.views) {
      if (view.kind === "bars") made.append(...barsView(view, figure.title));
      else if (view.kind === "over_time") made.append(...overTimeView(view, runs));
      else if (view.kind === "series") made.append(...seriesView(runs));
      else made.append(...boundsView(runs));
    }
    made.append(...verdictsOf(figure), detailsOf(runs));
  }
  return made;
}

/** Contradicted claims by their explanation: an explanation is said once. */
function contradictionsOf(figures) {
  const reasons = new Map();
  for (const figure of figures) {
    for (const it of figure.verdicts.filter((it) => it.contrary.length)) {
      const told = `: ${it.says} (published ${span(it.published)}). Here ${it.contrary.join("; ")}.`;
      const line = element("li", "", element("b", "", figure.id), told);
      reasons.set(it.why, [...(reasons.get(it.why) ?? []), line]);
    }
  }
  return [...reasons].flatMap(([why, lines]) => [element("p", "", why || "Not explained:"), element("ul", "notes", ...lines)]);
}

/** The claims whose published order an interval contradicts. */
function contrarySection(figures, emulated) {
  const verdicts = figures.flatMap((it) => it.verdicts);
  const compared = verdicts.filter((it) => it.order !== null);
  const having = (order) => compared.filter((it) => it.order === order).length;
  const sized = verdicts.filter((it) => it.size !== null);
  const lead = compared.length === 0
    ? "Nothing was compared: no measured claim has a published order."
    : `Of ${compared.length} measured claims about order, ${having("as_published")} agree, ${having("undecided")} are undecided `
      + `(an interval contains 1, or there are fewer than six rounds), and ${having("contradicted")} are contradicted. Of ${sized.length} measured sizes, `
      + `${sized.filter((it) => it.size === 1).length} meet the published range.`;
  return section("Where the 95 % interval contradicts the published order", emulated, lead, ...contradictionsOf(figures));
}

function showEvaluation({ meta, figures }) {
  const runs = figures.flatMap(measuredRuns);
  const emulated = substitutesOf(runs);
  const dates = runs.map((it) => metaOf(it).date).sort();
  const [first, last] = [dates[0], dates.at(-1)];
  const measured = first === undefined ? "nothing yet" : first === last ? `${first} UTC` : `${first} to ${last} UTC (starts of runs)`;
  const profilesOf = (all) => [...new Set(all.map((it) => metaOf(it).profile))].join(", ");
  const simulated = runs.filter((it) => substituteOf(it) === "simulated");
  const others = runs.filter((it) => substituteOf(it) !== "simulated");
  const memory = `slow memory emulated, profile ${profilesOf(others) || meta.profile}; seed ${meta.seed}`;
  const all = figures.reduce((sum, figure) => sum + figure.runs.length, 0);
  const contents = element("ul", "contents");
  for (const { id, title } of figures) {
    const link = element("a", "", id);
    link.href = `#f${id}`;
    contents.append(element("li", "", link, ` ${title}`));
  }
  const main = document.querySelector("main");
  main.append(
    pageHead("timberline eval", emulated, [
      ...(others.length || runs.length === 0 ? [["memory", memory]] : []),
      ...(simulated.length ? [["clusters", `simulated: operations counted, throughput modelled; ${profilesOf(simulated)}`]] : []),
      ["machine", machineOf(meta.machine)],
      ["measured", measured],
      ["command", meta.command],
      ["runs", `${runs.length} of ${all} (some figures share theirs)`],
    ]),
    element("p", "lead", "Published figures, measured again. Dashed frames are the published values, where the "
      + "paper gives numbers. The machine and the programs differ, so sizes may differ. If the 95 % interval "
      + "of a ratio contradicts the published order, the report says so."),
    element("nav", "", contents),
    contrarySection(figures, emulated),
    ...figures.map(figureSection),
  );
  drawAll();
}
