// The page of a live run: requests a snapshot a few times a second, and shows it.

/** Interval between requests, ms. */
const EVERY = 250;
/** Failed requests in a row after which the run counts as over. */
const PATIENCE = 4;

const $ = (id) => document.getElementById(id);
let last = null;
let unanswered = 0;
/** The chosen placement, "" for that of the current turn; `null` before a choice. */
let choice = null;

/** Sets a text only if it changes, to keep the user's selection. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function head(state) {
  say($("state"), state.over ? "the run is over; the last figures stay" : "running");
  $("state").classList.toggle("over", state.over);
  const part = state.total ? `, ${percent(state.done / state.total)}` : "";
  say($("phase"), state.over ? "" : state.phase + part);
  const bar = $("progress");
  bar.hidden = state.over || !state.total;
  if (state.total) {
    bar.max = state.total;
    bar.value = Math.min(state.done, state.total);
  }
  $("emulated").hidden = !state.emulated;
  say($("setting"), state.rows.length ? `${state.workload} on ${state.index}` : "");
}

/** The cells of a map's row, after its name. */
function cells(row, has) {
  const sample = row.samples.at(-1);
  const [fast, limit] = [fastBytes(row), row.memory.budget_bytes];
  const turn = row.measured ? "measured" : "warm-up";
  return [
    has ? `now, ${turn}` : `was ${turn}`,
    sample ? figure(sample.ops_per_s / 1e6) : ABSENT,
    sample ? share(sample.fast_share) : ABSENT,
    ...(row.latencies_ns?.map(nanos) ?? [ABSENT, ABSENT, ABSENT, ABSENT]),
    limit === null ? `${bytes(fast)}, no budget` : `${bytes(fast)} / ${bytes(limit)}`,
    sample ? count(sample.promoted) : ABSENT,
    sample ? count(sample.demoted) : ABSENT,
  ];
}

/** A row for each map, created when the maps change and then kept, to keep the keyboard focus. */
function table(state) {
  const body = $("rows");
  const names = state.rows.map((row) => row.placement);
  const there = [...body.children].map((line) => line.dataset.placement);
  if (names.join() !== there.join()) body.replaceChildren(...state.rows.map(line));
  state.rows.forEach((row, nth) => {
    const has = state.running && state.turn === nth;
    const made = body.children[nth];
    made.classList.toggle("running", has);
    cells(row, has).forEach((text, at) => say(made.children[at + 1], text));
  });
}

function line(row) {
  const made = element("tr");
  made.dataset.placement = row.placement;
  const radio = element("input");
  Object.assign(radio, { type: "radio", name: "shown", value: row.placement });
  const label = element("label");
  label.append(radio, element("i", colour(row.placement)), row.placement);
  const name = element("th");
  name.scope = "row";
  name.append(label);
  made.append(name, ...cells(row, false).map(() => element("td")));
  return made;
}

/** The chosen row; without a choice, the last one that tracks heat of nodes, or any heat. */
function shown(state) {
  const rows = state.rows;
  if (choice === "") return rows[state.turn];
  return rows.find((row) => row.placement === choice)
    ?? rows.findLast((row) => row.heat && !row.memory.of_pages)
    ?? rows.findLast((row) => row.heat)
    ?? rows.at(-1);
}

function details(state) {
  const row = shown(state);
  if (!row) return;
  const radio = document.querySelector(`input[name=shown][value="${choice === "" ? "" : row.placement}"]`);
  if (radio) radio.checked = true;
  const has = state.running && state.rows[state.turn] === row;
  say($("shown"), row.placement + (has ? ", current turn" : ", as last seen"));
  levels($("levels"), row);
  say($("levels-note"), aboutLevels(row));

  const beliefs = row.heat;
  if (beliefs?.bins.length) {
    heat($("heat"), beliefs);
    const [first, second] = beliefs.counts.map(([name]) => name);
    const colours = second ? `Green: ${first}. Orange: ${second}. ` : `Green: ${first}. `;
    const figures = beliefs.figures.map(([name, value]) => `${name}: ${short(value)}`).join(", ");
    say($("heat-note"), figures ? `${colours}Goes by ${figures}.` : colours);
  } else {
    $("heat").replaceChildren();
    say($("heat-note"), "This placement tracks no heat.");
  }

  budget($("budget"), row, beliefs?.watermarks ?? []);
  say($("budget-note"), aboutMemory(row));

  moves($("moves"), row);
  const sample = row.samples.at(-1);
  const what = row.memory.of_pages ? "Pages" : "Nodes";
  const moved = sample ? `${count(sample.promoted)} promoted, ${count(sample.demoted)} demoted` : "none seen yet";
  say($("moves-note"), `${what}: ${moved} since its first turn. Solid: promoted; dashed: demoted.`);
}

function aboutMemory(row) {
  const { used_bytes: used, committed_bytes: committed, budget_bytes: most } = row.memory;
  const taken = committed === null ? "" : ` (${bytes(committed)} with tables and free slots)`;
  const limit = most === null ? "there is no budget" : `the budget is ${bytes(most)}`;
  return `In fast memory: ${bytes(fastBytes(row))}${taken}; ${limit}. In both tiers: ${bytes(used)}.`;
}

function aboutLevels(row) {
  if (row.memory.of_pages) return "This placement moves pages, so a node's tier is unknown.";
  if (!row.levels) return "Nodes are counted between turns.";
  const above = row.above_boundary;
  const boundary = above === 0
    ? "One boundary: no fast node has a slow parent."
    : `${count(above)} fast nodes have a slow parent.`;
  return `${boundary} Green is fast; bar widths are logarithmic in the number of nodes.`;
}

function show(state) {
  head(state);
  table(state);
  throughput($("throughput"), state.rows);
  details(state);
  markScrolling();
}

async function snapshot() {
  const response = await fetch("snapshot", { cache: "no-store" });
  if (!response.ok) throw new Error(`status ${response.status}`);
  return response.json();
}

async function ask() {
  const state = await snapshot().catch(() => null);
  unanswered = state ? 0 : unanswered + 1;
  if (unanswered === PATIENCE || (unanswered && last?.over)) {
    // The server ends with the run.
    if (last) show({ ...last, running: false, over: true });
    else say($("state"), "no response: the run is over");
    return;
  }
  setTimeout(ask, EVERY);
  if (state && state.version !== last?.version) {
    last = state;
    show(state);
  }
}

/** Starts the requests. */
function showLive() {
  document.addEventListener("change", (event) => {
    choice = event.target.value;
    if (last) details(last);
  });
  addEventListener("resize", () => last && show(last));
  ask();
}
