// Figures as text, scales, and just enough SVG. Text is only ever set as text, so nothing needs escaping.

export const ABSENT = "–";

/** Three significant digits. */
export function figure(value) {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const digits = 2 - Math.floor(Math.log10(Math.abs(value) * 1.0005));
  return value.toFixed(Math.min(6, Math.max(0, digits)));
}

/** The same without zeros at the end. */
export const short = (value) => String(Number(figure(value)));

function scaled(value, base, units) {
  let nth = 0;
  while (Math.abs(value) >= base && nth + 1 < units.length) {
    value /= base;
    nth += 1;
  }
  return [nth === 0 ? String(Math.round(value)) : short(value), units[nth]];
}

export const count = (n) => scaled(n, 1000, ["", "k", "M", "G"]).join("");
export const bytes = (n) => scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]).join(" ");
export const nanos = (n) => scaled(n, 1000, ["ns", "µs", "ms", "s"]).join(" ");
export const share = (value) => (value === null ? ABSENT : value.toFixed(2));
export const percent = (value) => `${figure(value * 100)} %`;

/** Makes values between low and high positions between from and to; what is outside is held at the edge. */
export function scale([low, high], [from, to]) {
  return (value) => {
    if (high <= low) return from;
    const part = Math.min(1, Math.max(0, (value - low) / (high - low)));
    return from + part * (to - from);
  };
}

/** About `wanted` values from 0 to `high` that are round where units are powers of `base`. */
export function ticks(high, wanted, base = 10) {
  if (!(high > 0)) return [0];
  const unit = base ** Math.floor(Math.log(high) / Math.log(base));
  const raw = high / unit / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = unit * [1, 2, 5, 10].map((it) => it * power).find((it) => it >= raw * 0.999);
  const all = [];
  for (let nth = 0; nth * step <= high * 1.0001; nth += 1) all.push(nth * step);
  return all;
}

/** An element of HTML with a text. */
export function element(name, text = "", className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

const NAMESPACE = "http://www.w3.org/2000/svg";

/** A drawing that is as wide as what it is put into, and says in words what it shows. */
export class Drawing {
  constructor(host, height, label) {
    this.host = host;
    this.width = Math.max(240, host.clientWidth || 0);
    this.height = height;
    this.svg = document.createElementNS(NAMESPACE, "svg");
    this.set(this.svg, { viewBox: `0 0 ${this.width} ${height}`, role: "img", "aria-label": label });
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

  text(className, [x, y], anchor, text) {
    this.add("text", className, { x, y, "text-anchor": anchor }).textContent = text;
  }

  /** Grid lines with their figures, for values from 0 to `high`. */
  grid(high, y, left, right, written, base) {
    for (const tick of ticks(high, 4, base)) {
      this.line("grid", [left, y(tick)], [right, y(tick)]);
      this.text("tick", [left - 6, y(tick) + 4], "end", written(tick));
    }
  }

  /** Puts it in the place of what was there. */
  show() {
    this.host.replaceChildren(this.svg);
  }
}
