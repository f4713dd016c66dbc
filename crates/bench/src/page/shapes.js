// Numbers as text, scales, and minimal HTML and SVG. Text is only set as text, so nothing
// needs escaping. The files of this folder are joined into one module: see `mod.rs`.

const ABSENT = "–";

/** Decimals that give a value three significant digits. */
function digits(value) {
  if (value === 0 || !Number.isFinite(value)) return 2;
  return Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value) * 1.0005))));
}

/** Three significant digits. */
const figure = (value) => (Number.isFinite(value) ? value.toFixed(digits(value)) : String(value));

/** The same without trailing zeros. */
const short = (value) => String(Number(figure(value)));

function scaled(value, base, units) {
  let nth = 0;
  while (Math.abs(value) >= base && nth + 1 < units.length) {
    value /= base;
    nth += 1;
  }
  return [nth === 0 ? String(Math.round(value)) : short(value), units[nth]];
}

const count = (n) => scaled(n, 1000, ["", "k", "M", "G"]).join("");
const bytes = (n) => scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]).join(" ");
const nanos = (n) => scaled(n, 1000, ["ns", "µs", "ms", "s"]).join(" ");
const share = (value) => (value === null ? ABSENT : value.toFixed(2));
const percent = (value) => `${short(value * 100)} %`;
const mops = (ops) => figure(ops / 1e6);
const micros = (all) => all.map((ns) => (ns / 1e3).toFixed(Math.min(2, digits(ns / 1e3)))).join("/");

/** Two decimals; three for small values, none for large ones. */
function amount(value) {
  const size = Math.abs(value);
  if (size >= 1000) return count(value);
  return value.toFixed(size >= 100 ? 0 : size < 0.0995 && size > 0 ? 3 : 2);
}

/** A median, with its range if it has one. */
function ranged(median, min, max, written = (it) => it.toFixed(2)) {
  if (median === null) return ABSENT;
  return min === null || max === null ? written(median) : `${written(median)} [${written(min)}, ${written(max)}]`;
}

/** Bytes over their limit, in one unit; 0 means no limit. */
function bytesOf(part, whole) {
  if (!whole) return bytes(part);
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  const nth = Math.min(names.length - 1, Math.floor(Math.log2(Math.max(part, whole)) / 10));
  const [used, most] = [part, whole].map((it) => it / 1024 ** nth);
  const after = nth ? digits(most) : 0;
  return `${used.toFixed(after)}/${most.toFixed(after)} ${names[nth]}`;
}

/** Maps values from low to high to positions from `from` to `to`; clamps values outside. */
function scale([low, high], [from, to]) {
  return (value) => {
    if (high <= low) return from;
    const part = Math.min(1, Math.max(0, (value - low) / (high - low)));
    return from + part * (to - from);
  };
}

/** About `wanted` values from low to high that are round in powers of `base`. */
function ticks([low, high], wanted, base = 10) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const unit = base ** Math.floor(Math.log(span) / Math.log(base));
  const raw = span / unit / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = unit * [1, 2, 5, 10].map((it) => it * power).find((it) => it >= raw * 0.999);
  const all = [];
  for (let nth = Math.ceil(low / step - 1e-9); nth * step <= high + 1e-4 * span; nth += 1) all.push(nth * step);
  return all;
}

/** An HTML element with its content: texts and elements. */
function element(name, className = "", ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

/** What is not real: `true` for emulated memory, or a word; nothing otherwise. */
const badge = (what) => (what ? [element("span", "badge", what === true ? "emulated" : what)] : []);

/** The class of a placement's colour. */
const colour = (placement) => `p-${placement.replace(/[^a-z0-9-]/g, "-")}`;

const NAMESPACE = "http://www.w3.org/2000/svg";

/** A drawing as wide as its host, with a description in words. */
class Drawing {
  constructor(host, height, label, least = 240) {
    this.host = host;
    const inner = host.clientWidth - 2 * parseFloat(getComputedStyle(host).paddingLeft || 0);
    this.width = Math.max(least, inner || 0);
    this.height = height;
    this.svg = document.createElementNS(NAMESPACE, "svg");
    this.set(this.svg, { viewBox: `0 0 ${this.width} ${height}`, role: "img", "aria-label": label });
    if (this.width > inner) this.svg.style.minWidth = `${this.width}px`;
  }

  set(shape, attributes) {
    for (const [name, value] of Object.entries(attributes)) {
      shape.setAttribute(name, typeof value === "number" ? value.toFixed(1) : value);
    }
  }

  add(name, className, attributes, title) {
    const shape = document.createElementNS(NAMESPACE, name);
    this.set(shape, { class: className, ...attributes });
    if (title) {
      const told = document.createElementNS(NAMESPACE, "title");
      told.textContent = title;
      shape.append(told);
    }
    this.svg.append(shape);
    return shape;
  }

  line(className, [x1, y1], [x2, y2], title) {
    return this.add("line", className, { x1, y1, x2, y2 }, title);
  }

  rect(className, [x, y], [width, height], title) {
    const size = { width: Math.max(0, width), height: Math.max(0, height) };
    return this.add("rect", className, { x, y, ...size }, title);
  }

  path(className, points, title) {
    const steps = points.map(([x, y], nth) => `${nth ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`);
    return this.add("path", className, { d: steps.join("") }, title);
  }

  /** An area with the tooltip `title`. */
  spot([cx, cy], title) {
    return this.add("circle", "spot", { cx, cy, r: 5 }, title);
  }

  text(className, [x, y], anchor, text) {
    this.add("text", className, { x, y, "text-anchor": anchor }).textContent = text;
  }

  /** Grid lines with their values. */
  grid(domain, y, left, right, written, base) {
    for (const tick of ticks(domain, 4, base)) {
      this.line("grid", [left, y(tick)], [right, y(tick)]);
      this.text("tick", [left - 6, y(tick) + 4], "end", written(tick));
    }
  }

  /** Replaces the old content of its host. */
  show() {
    this.host.replaceChildren(...this.host.querySelectorAll(":scope > h3"), this.svg);
  }
}
