// Colours, shapes and numbers. The numbers behind them stand in tokens.json (TOKENS): each cause, kind and role has a
// colour and a shape of its own, so that neither is needed alone.

const TURN = 2 * Math.PI, CROSS = [[-1, -1, 1, 1], [-1, 1, 1, -1]];

// Marks of about 2 * s in size around (0, 0): they draw a path, and return whether it is filled.
const MARKS = {
  dot: (c, s) => (c.arc(0, 0, 0.8 * s, 0, TURN), true),
  cross: (c, s) => lines(c, s, CROSS),
  triangle: (c, s) => polygon(c, s, [[0, -1.1], [1.1, 0.9], [-1.1, 0.9]]),
  star: (c, s) => lines(c, s, [[-1.2, 0, 1.2, 0], [0, -1.2, 0, 1.2], [-0.8, -0.8, 0.8, 0.8], [-0.8, 0.8, 0.8, -0.8]]),
  zigzag: (c, s) => lines(c, s, [[-1.2, 0.6, -0.4, -0.8], [-0.4, -0.8, 0.4, 0.8], [0.4, 0.8, 1.2, -0.6]]),
  minus: (c, s) => (c.arc(0, 0, s, 0, TURN), lines(c, s, [[-0.6, 0, 0.6, 0]])),
  stack: (c, s) => lines(c, s, [[-1, -0.9, 1, -0.9], [-1, 0, 1, 0], [-1, 0.9, 1, 0.9]]),
  boxed: (c, s) => (c.rect(-1.2 * s, -1.2 * s, 2.4 * s, 2.4 * s), lines(c, 0.65 * s, CROSS)),
  ringed: (c, s) => (c.arc(0, 0, 1.25 * s, 0, TURN), lines(c, 0.6 * s, CROSS)),
  square: (c, s) => polygon(c, s, [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]]),
  diamond: (c, s) => polygon(c, s, [[0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]]) && false,
  half: (c, s) => (c.arc(0, 0, s, Math.PI / 2, 1.5 * Math.PI), c.closePath(), true),
  hourglass: (c, s) => lines(c, s, [[-0.8, -0.9, 0.8, -0.9], [0.8, -0.9, -0.8, 0.9], [-0.8, 0.9, 0.8, 0.9]]),
  ring: (c, s) => (c.arc(0, 0, 0.8 * s, 0, TURN), false),
};

function lines(context, size, list, left = 0, top = 0) {
  for (const [x, y, toX, toY] of list) {
    context.moveTo(left + x * size, top + y * size);
    context.lineTo(left + toX * size, top + toY * size);
  }
  return false;
}

function polygon(context, size, corners, left = 0, top = 0) {
  corners.forEach(([x, y], i) => context[i ? "lineTo" : "moveTo"](left + x * size, top + y * size));
  context.closePath();
  return true;
}

// Draw a path: filled if it has a colour for that, stroked if it has one for that.
function paint(context, path, { fill = "", stroke = "", wide = 1, dash = [] }) {
  context.beginPath();
  path(context);
  if (fill) {
    context.fillStyle = fill;
    context.fill();
  }
  if (!stroke) return;
  Object.assign(context, { strokeStyle: stroke, lineWidth: wide });
  context.setLineDash(dash);
  context.stroke();
  context.setLineDash([]);
}

// Closed shapes of about 2 * s in size around (x, y), of agents and of frames under way, added to a path.
const around = (corners) => (c, x, y, s) => polygon(c, s, corners, x, y);
const regular = (count, size, turn, dent = 1) => around(Array.from({ length: count }, (_, i) => {
  const angle = turn + (TURN * i) / count, far = i % 2 ? size * dent : size;
  return [far * Math.cos(angle), far * Math.sin(angle)];
}));
const SHAPES = {
  circle: (c, x, y, s) => (c.moveTo(x + s, y), c.arc(x, y, s, 0, TURN)),
  square: around([[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]]),
  triangle: around([[0, -1.2], [1.1, 0.9], [-1.1, 0.9]]),
  diamond: around([[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]]),
  wedge: around([[0, 1.2], [1.1, -0.9], [-1.1, -0.9]]),
  pentagon: regular(5, 1.15, -Math.PI / 2),
  hexagon: regular(6, 1.12, 0),
  star: regular(10, 1.4, -Math.PI / 2, 0.55),
  bar: around([[-0.5, -1.2], [0.5, -1.2], [0.5, 1.2], [-0.5, 1.2]]),
};

const parts = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

// The colour at a share of a scale of colours.
function onScale(scale, share) {
  const place = Math.min(Math.max(share, 0), 1) * (scale.length - 1), i = Math.min(Math.floor(place), scale.length - 2);
  const [low, high] = [parts(scale[i]), parts(scale[i + 1])];
  return `#${low.map((each, k) => Math.round(each + (high[k] - each) * (place - i)).toString(16).padStart(2, "0")).join("")}`;
}

// The colour of letters on a colour.
function inkOn(colour) {
  const [red, green, blue] = parts(colour).map((each) => (each / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.2 ? "#14181d" : "#ffffff";
}

class Look {
  constructor(page) {
    this.page = page;
    this.root = page.root;
    this.scale = 1;
    this.read();
  }

  // The colours of the theme that is on: the page's own, or else the user's system's.
  read() {
    const { theme } = this.root.dataset, { causes } = this.page.meta;
    this.dark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    this.theme = this.dark ? "dark" : "light";
    Object.assign(this, TOKENS.themes[this.theme]);
    this.causes = causes;
    this.reach = Float64Array.from(causes, (cause) => this.cause(cause).reach);
    this.colours = causes.map((cause) => this.cause(cause).colour);
    this.marks = causes.map((cause) => this.cause(cause).mark);
    this.readKinds();
  }

  // What is routine is grey. Colour is news. Runs side by side have one look for one kind.
  readKinds() {
    const { page, meta } = this.page, { shown = [page] } = page, all = [...new Set(shown.flatMap((run) => run.meta.kinds))];
    this.kinds = meta.kinds.map((label) => {
      const { kinds, film } = shown.find((run) => run.meta.kinds.includes(label))?.meta || meta, k = all.indexOf(label), routine = film.routine.includes(kinds.indexOf(label));
      const token = routine ? TOKENS.routine : TOKENS.kinds[Math.max(k, 0) % TOKENS.kinds.length];
      return { ...token, colour: token[this.theme], routine, label };
    });
  }

  // The looks of a kind by its number, of a cause by its number or name, of a role by its state's name and word:
  // {colour, dash, head, shape, routine, label}, {colour, mark, reach, words}, {colour, weight, dash, shape}.
  kind(k) {
    return this.kinds[k];
  }

  cause(cause) {
    const name = typeof cause === "number" ? this.causes[cause] : cause;
    const token = TOKENS.causes[name] || { mark: "ring", reach: 0.7, words: String(name).replaceAll("_", " ") };
    return { ...token, colour: token[this.theme] || this.ink };
  }

  role(name, word) {
    const { roles } = TOKENS, place = word === DOWN ? -1 : Math.max(this.page.states.order(name).indexOf(word), 0);
    const token = place < 0 ? TOKENS.down : roles[place % roles.length];
    // More words than colours: the same colours with other shapes.
    const shape = place < 0 ? token.shape : roles[(place + Math.floor(place / roles.length)) % roles.length].shape;
    return { ...token, shape, colour: token[this.theme], line: (token.line || token)[this.theme] };
  }

  // The colour of a number's share of what is shown: on one side of a middle and the other, or from few to many.
  number(share) {
    const { states } = this.page, { draw } = states.list[states.shown] || {};
    return onScale(draw && draw.middle !== undefined ? TOKENS.diverging[this.theme] : TOKENS.ordinal, share);
  }

  // A font of so many pixels at the usual size of text.
  font(size, style = "") {
    return `${style} ${Math.round(size * this.scale * 10) / 10}px system-ui, sans-serif`;
  }

  // Text with a rim in the colour of the ground, to be read above lines.
  write(context, text, x, y, rim, colour = this.ink, ground = this.paper) {
    if (rim) {
      context.lineWidth = rim;
      context.lineJoin = "round";
      context.strokeStyle = ground;
      context.strokeText(text, x, y);
    }
    context.fillStyle = colour;
    context.fillText(text, x, y);
  }

  mark(context, cause, x, y, size) {
    this.drawMark(context, this.marks[cause], this.colours[cause], x, y, size);
  }

  drawMark(context, mark, colour, x, y, size, wide = 0.36 * size) {
    context.save();
    context.translate(x, y);
    context.beginPath();
    const filled = MARKS[mark](context, size);
    context.lineJoin = context.lineCap = "round";
    context.strokeStyle = this.paper;
    context.lineWidth = 2.1 * wide + 1;
    context.stroke();
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = wide;
    if (filled) context.fill();
    context.stroke();
    context.restore();
  }

  // An arrow's head of a kind, its point at (x, y), in the direction (ux, uy) of length 1.
  head(context, { head, colour }, x, y, ux, uy, size = 7) {
    const at = (back, aside) => [x - size * (back * ux + aside * uy), y - size * (back * uy - aside * ux)];
    const path = (close, ...points) => {
      context.beginPath();
      points.forEach((point, i) => context[i ? "lineTo" : "moveTo"](...at(...point)));
      if (close) context.closePath();
    };
    context.save();
    context.setLineDash([]);
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = Math.max(1.2, 0.2 * size);
    if (head === "open") path(false, [1.1, 0.5], [0, 0], [1.1, -0.5]);
    else if (head === "double") path(false, [1.1, 0.5], [0, 0], [1.1, -0.5], [1.1, -0.5], [0, 0], [0.9, 0], [2, 0.5], [0.9, 0], [2, -0.5]);
    else if (head === "bar") path(false, [0, 0.6], [0, -0.6], [0, 0], [0.6, 0]);
    else if (head === "diamond") path(true, [0, 0], [0.7, 0.45], [1.4, 0], [0.7, -0.45]);
    else if (head === "half") path(true, [0, 0], [1.2, 0.55], [1.2, 0]);
    else if (head === "dot") (context.beginPath(), context.arc(...at(0.5, 0), 0.45 * size, 0, TURN));
    else path(true, [0, 0], [1.1, 0.45], [1.1, -0.45]);
    if (head === "hollow") context.fillStyle = this.paper;
    if (!["open", "double", "bar"].includes(head)) context.fill();
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

// Elements with a text or a list of parts in them: names come from the run's author, and are never read as HTML.
function element(tag, content = "", attributes = {}) {
  const made = document.createElement(tag);
  made.append(...[content].flat());
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// Let a click on a button act. The space bar is to play and pause, not to press the last button again.
function press(button, act) {
  button.addEventListener("click", (event) => {
    act();
    if (event.detail) button.blur();
  });
  return button;
}

const newButton = (content, act, attributes = {}) => press(element("button", content, { type: "button", ...attributes }), act);

// Words at the pointer over a canvas.
class Tip {
  constructor(canvas) {
    this.canvas = canvas;
    this.box = element("div", "", { class: "tip", "aria-hidden": "true", hidden: "" });
    canvas.after(this.box);
    canvas.addEventListener("pointerleave", () => this.show(""));
  }

  // Show a text at a point of the canvas, without one nothing.
  show(text, x, y) {
    const { box, canvas: { offsetLeft, offsetTop, clientWidth, clientHeight } } = this;
    box.hidden = !text;
    if (!text) return;
    setText(box, text);
    box.style.left = `${offsetLeft + Math.max(4, Math.min(x + 14, clientWidth - box.offsetWidth - 4))}px`;
    box.style.top = `${offsetTop + (y + 18 + box.offsetHeight > clientHeight ? Math.max(y - box.offsetHeight - 8, 0) : y + 18)}px`;
  }
}

// A small picture, of a sign of so many pixels, and a function that paints it (again).
function iconOf(sign, size) {
  const canvas = element("canvas", "", { width: 2 * size, height: 2 * size, class: "icon", "aria-hidden": "true" }), context = canvas.getContext("2d");
  context.scale(2, 2);
  const paint = () => {
    context.clearRect(0, 0, size, size);
    context.beginPath();
    sign(context);
  };
  paint();
  return { canvas, paint };
}
