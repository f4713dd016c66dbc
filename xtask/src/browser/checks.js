// The checks of the live page. Each returns a text.

const one = (selector) => document.querySelector(selector);
const all = (selector) => [...document.querySelectorAll(selector)];
const texts = (selector) => all(selector).map((it) => it.textContent.trim());

/** The parts that are missing on the page, once all of these placements had a turn. */
function lacking(placements) {
  const missing = [];
  const need = (what, is) => is || missing.push(what);
  need("a row for each map", texts("#rows th").join() === placements);
  const cells = texts("#rows td");
  need("figures in each cell", cells.length > 0 && cells.every((text) => text && text !== "–"));
  need("whose turn it is", all("tr.running").length <= 1 && texts("#rows td").some((it) => it.includes("measured")));
  need("that it is emulated", !one("#emulated")?.hidden);
  need("a line of throughput for each map", all("#throughput path.series").length === placements.split(",").length);
  need("levels", all("#levels rect.fast").length >= 2 && texts("#levels text").includes("leaves"));
  need("the boundary", (one("#levels path.boundary")?.getTotalLength() ?? 0) > 30);
  need("a histogram of heat", all("#heat rect").some((it) => it.getBBox().height > 5));
  need("thresholds", all("#heat line.threshold").length === 2);
  need("fast memory over time", (one("#budget path.line-fast")?.getTotalLength() ?? 0) > 5);
  need("the budget", texts("#budget text").includes("budget"));
  need("a watermark", all("#budget line.threshold").length >= 2);
  need("moves", (one("#moves path.line-fast")?.getTotalLength() ?? 0) > 5 && one("#moves path.line-other"));
  need("names for drawings", all("main svg").every((it) => it.getAttribute("aria-label") && it.getAttribute("role") === "img"));
  need("names for choices", all("input").every((it) => it.labels.length === 1 && it.labels[0].textContent.trim()));
  return missing.join(", ");
}

/** Chooses the placement that is shown, as a click does. */
function choose(placement) {
  one(`input[name=shown][value=${placement}]`).click();
  return "";
}

/** How much wider than the window the page is. */
const overflow = () => String(document.documentElement.scrollWidth - document.documentElement.clientWidth);

const paper = () => getComputedStyle(document.body).backgroundColor;
