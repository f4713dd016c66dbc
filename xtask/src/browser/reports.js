// The checks of report pages. Each returns the missing parts.

{
  const one = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const texts = (selector) => all(selector).map((it) => it.textContent.trim());
  const isLong = (path) => path.getTotalLength() > 5;
  const isTall = (rect) => rect.getBBox().height > 1;

  /** The parts that both pages need. */
  function page(need) {
    need("a title", document.title.endsWith("(emulated)"));
    need("facts", all("dl dt").length >= 5 && texts("dl dd").every(Boolean));
    need("charts", all("main figure svg").length > 3);
    need("that figures are emulated", all("section").filter((it) => it.querySelector("svg")).every((it) => it.querySelector(".badge")));
    need("names for drawings", all("main svg").every((it) => it.ariaHidden === "true" || it.getAttribute("aria-label")));
    need("colours", all("rect.bar").every((it) => getComputedStyle(it).fill !== "none"));
    need("bars", all("rect.bar").some(isTall));
    need("lines over time", all("path.series").some(isLong) && all("circle.spot title").length > 3);
    need("numbers", !/NaN|undefined|Infinity|null/.test(document.body.innerText));
    need("room", document.documentElement.scrollWidth <= document.documentElement.clientWidth);
    need("text without a script", one("noscript").textContent.includes("sidle"));
  }

  function lacking(check) {
    const missing = [];
    check((what, is) => is || missing.push(what));
    return missing.join(", ");
  }

  /** The page of `bench` with two workloads of these placements. */
  globalThis.report = (placements) => lacking((need) => {
    page(need);
    const names = placements.split(",").flatMap((name) => [name, name]);
    need("a row for each placement", texts("tbody tr:not(.group) th").sort().join() === names.sort().join());
    need("workloads", texts("tr.group th").length === 2);
    need("results in each row", all("tbody tr:not(.group)").every((it) => it.children.length === 15));
    need("the oracle's limit", all("path.limit").some(isLong));
    need("latencies", texts("svg text").filter((it) => it === "p99.9").length === 2);
    need("titles of axes", all("figure svg").filter((it) => it.querySelector(".grid")).every((it) => it.querySelector(".axis")));
    need("levels", all("section rect.fast").length > 8 && texts("svg text").includes("leaves"));
    need("versions", texts(".notes li").some((it) => it.startsWith("timberline ")));
  });

  /** The page of `eval`. */
  globalThis.evaluation = () => lacking((need) => {
    page(need);
    need("the range over the rounds", all("line.whisker").some(isTall));
    need("contents", all(".contents a").every((it) => one(it.getAttribute("href"))));
    need("published values", all("rect.published").length > 0);
    need("their text", texts("rect.published title").every((it) => it.startsWith("published: ")));
    need("claims", texts("thead th").includes("published") && texts("thead th").some((it) => it.startsWith("size")));
    need("no explanation twice", new Set(texts("section:first-of-type p")).size === texts("section:first-of-type p").length);
    need("details", all("details td").length > 10);
    need("bounds", texts("thead th").includes("bound of leaves"));
    need("what is simulated", texts("#fdex-10 .badge").includes("simulated"));
    need("lines over simulated time", all("#fdex-10 path.series").length > 1);
    need("contradictions", texts("section:first-of-type h2")[0].includes("contradicts"));
  });
}
""
