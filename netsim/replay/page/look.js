// Colours, shapes and numbers: Okabe and Ito's colours, a shape of its own for each cause, so that neither is needed.

const COLOURS = {
  light: { delivered: "#007a5a", lost: "#d55e00", late: "#c98500", collided: "#b0457f", corrupted: "#8f8400",
    refused: "#0072b2", queue_full: "#2a8fc7", link_down: "#444444", receiver_down: "#7a4a00", inbox_full: "#0072b2",
    access_failed: "#b0457f", half_duplex: "#007a5a", asleep: "#5b5b9a", in_flight: "#777777" },
  dark: { delivered: "#2ec79a", lost: "#ff7a1a", late: "#f5b82e", collided: "#e79ac4", corrupted: "#f0e442",
    refused: "#56b4e9", queue_full: "#8fd0f5", link_down: "#d0d0d0", receiver_down: "#d9a45a", inbox_full: "#56b4e9",
    access_failed: "#e79ac4", half_duplex: "#2ec79a", asleep: "#b3b3e6", in_flight: "#a0a0a0" },
};

// How far along its link a frame comes: what is refused stays with its sender, what is lost vanishes midway.
const REACH = { delivered: 1, late: 1, lost: 0.5, collided: 0.86, corrupted: 0.86, refused: 0.12, queue_full: 0.12,
  link_down: 0.3, receiver_down: 0.88, inbox_full: 0.9, access_failed: 0.14, half_duplex: 0.84, asleep: 0.88,
  in_flight: 0.95 };

const TURN = 2 * Math.PI;

// Paths of about 2 * s in size around (0, 0): [fill?, path].
const SHAPES = {
  delivered: (c, s) => (c.arc(0, 0, 0.8 * s, 0, TURN), true),
  lost: (c, s) => lines(c, s, [[-1, -1, 1, 1], [-1, 1, 1, -1]]),
  late: (c, s) => polygon(c, s, [[0, -1.1], [1.1, 0.9], [-1.1, 0.9]]),
  collided: (c, s) => lines(c, s, [[-1.2, 0, 1.2, 0], [0, -1.2, 0, 1.2], [-0.8, -0.8, 0.8, 0.8], [-0.8, 0.8, 0.8, -0.8]]),
  corrupted: (c, s) => lines(c, s, [[-1.2, 0.6, -0.4, -0.8], [-0.4, -0.8, 0.4, 0.8], [0.4, 0.8, 1.2, -0.6]]),
  refused: (c, s) => (c.arc(0, 0, s, 0, TURN), lines(c, s, [[-0.6, 0, 0.6, 0]])),
  queue_full: (c, s) => lines(c, s, [[-1, -0.9, 1, -0.9], [-1, 0, 1, 0], [-1, 0.9, 1, 0.9]]),
  link_down: (c, s) => lines(c, s, [[-0.5, -1, -0.5, 1], [0.5, -1, 0.5, 1]]),
  receiver_down: (c, s) => (c.arc(0, 0, s, 0, TURN), lines(c, s, [[-0.7, 0.7, 0.7, -0.7]])),
  inbox_full: (c, s) => polygon(c, s, [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]]),
  access_failed: (c, s) => polygon(c, s, [[0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]]) && false,
  half_duplex: (c, s) => (c.arc(0, 0, s, Math.PI / 2, 1.5 * Math.PI), c.closePath(), true),
  asleep: (c, s) => lines(c, s, [[-0.8, -0.9, 0.8, -0.9], [0.8, -0.9, -0.8, 0.9], [-0.8, 0.9, 0.8, 0.9]]),
  in_flight: (c, s) => (c.arc(0, 0, 0.8 * s, 0, TURN), false),
};

function lines(context, size, list) {
  for (const [x, y, toX, toY] of list) {
    context.moveTo(x * size, y * size);
    context.lineTo(toX * size, toY * size);
  }
  return false;
}

function polygon(context, size, corners) {
  corners.forEach(([x, y], i) => context[i ? "lineTo" : "moveTo"](x * size, y * size));
  context.closePath();
  return true;
}

// Dots of frames under way, one shape for each kind (and again from the first).
const DOTS = [
  (c, x, y, s) => (c.moveTo(x + s, y), c.arc(x, y, s, 0, TURN)),
  (c, x, y, s) => c.rect(x - 0.9 * s, y - 0.9 * s, 1.8 * s, 1.8 * s),
  (c, x, y, s) => (c.moveTo(x, y - 1.2 * s), c.lineTo(x + 1.1 * s, y + 0.9 * s), c.lineTo(x - 1.1 * s, y + 0.9 * s), c.closePath()),
  (c, x, y, s) => (c.moveTo(x, y - 1.3 * s), c.lineTo(x + 1.3 * s, y), c.lineTo(x, y + 1.3 * s), c.lineTo(x - 1.3 * s, y), c.closePath()),
  (c, x, y, s) => (c.moveTo(x, y + 1.2 * s), c.lineTo(x + 1.1 * s, y - 0.9 * s), c.lineTo(x - 1.1 * s, y - 0.9 * s), c.closePath()),
];

const CIVIDIS = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"]
  .map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));

function cividis(share) {
  const place = Math.min(Math.max(share, 0), 1) * (CIVIDIS.length - 1), i = Math.min(Math.floor(place), CIVIDIS.length - 2);
  return CIVIDIS[i].map((low, k) => Math.round(low + (CIVIDIS[i + 1][k] - low) * (place - i)));
}

class Look {
  constructor(root, causes) {
    this.root = root;
    this.causes = causes;
    this.reach = Float64Array.from(causes, (cause) => REACH[cause] ?? 0.7);
    this.read();
  }

  // The colours of the theme that is on: the page's own, or else the user's system's.
  read() {
    const { theme } = this.root.dataset;
    this.dark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    const style = getComputedStyle(this.root);
    for (const name of ["paper", "panel", "ink", "soft", "line", "frame", "accent"]) {
      this[name] = style.getPropertyValue(`--${name}`).trim();
    }
    const colours = COLOURS[this.dark ? "dark" : "light"];
    this.colours = this.causes.map((cause) => colours[cause] || this.ink);
  }

  // Text with a rim in the paper's colour, to be read above lines.
  write(context, text, x, y, rim) {
    context.lineWidth = rim;
    context.strokeStyle = this.paper;
    context.strokeText(text, x, y);
    context.fillStyle = this.ink;
    context.fillText(text, x, y);
  }

  mark(context, cause, x, y, size) {
    const shape = SHAPES[this.causes[cause]] || SHAPES.in_flight;
    context.save();
    context.translate(x, y);
    context.beginPath();
    const filled = shape(context, size);
    context.lineJoin = context.lineCap = "round";
    context.strokeStyle = this.paper;
    context.lineWidth = 0.75 * size + 1;
    context.stroke();
    context.strokeStyle = context.fillStyle = this.colours[cause];
    context.lineWidth = 0.36 * size;
    if (filled) context.fill();
    context.stroke();
    context.restore();
  }
}

// A canvas as large as its element, in the screen's own pixels. Asking for a size makes the browser lay out the page:
// only when it has changed.
function fitted(canvas) {
  const ratio = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
  const width = Math.max(box.width, 1), height = Math.max(box.height, 1);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}

function short(value, digits = 5) {
  if (value === null || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size && (size < 1e-4 || size >= 1e7)) return value.toExponential(Math.min(digits - 1, 3)).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(digits)));
}

function clipped(text, length) {
  const letters = Array.from(text);
  return letters.length > length ? letters.slice(0, length - 1).join("") + "…" : text;
}

// Round numbers in between, some `count` of them.
function ticks(from, to, count) {
  const rough = (to - from) / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(rough));
  if (!(rough > 0) || !Number.isFinite(power) || !power) return [];
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999) || rough;
  const list = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9 && list.length < 50; i++) {
    list.push(Number((i * step).toPrecision(12)));
  }
  return list;
}

// A text that has not changed makes the browser lay out nothing.
function setText(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

// Elements with text in them: names come from the run's author, and are never read as HTML.
function element(tag, text = "", attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
