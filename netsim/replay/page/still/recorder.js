// A canvas without a screen: it keeps what is drawn on it, as netsim/replay/canvas.py paints it. Only what the drawings
// here ask of a canvas is there: of transforms scales and shifts, of clips rectangles.

// Codes of matplotlib's paths.
const [MOVE, LINE, CURVE3, CURVE4, CLOSE] = [1, 2, 3, 4, 79];
const STATE = ["fillStyle", "strokeStyle", "lineWidth", "globalAlpha", "lineCap", "lineJoin", "font", "textAlign", "textBaseline", "dash", "at", "box"];

// A canvas that lies at (left, top) on the picture.
class Surface {
  constructor(width, height, left = 0, top = 0) {
    Object.assign(this, { width, height, left, top });
    this.context = new Recorder(this);
  }

  getContext() {
    return this.context;
  }

  getBoundingClientRect() {
    return { width: this.width, height: this.height };
  }
}

class Recorder {
  constructor(canvas) {
    const { left, top, width, height } = canvas;
    // What lies beyond a canvas is not drawn; that of a whole picture needs no words.
    this.box = left || top ? [left, top, left + width, top + height] : null;
    Object.assign(this, { canvas, list: [], saved: [], widths: new Map(), fillStyle: "#000000", strokeStyle: "#000000", lineWidth: 1, globalAlpha: 1 });
    Object.assign(this, { lineCap: "butt", lineJoin: "miter", font: "10px system-ui", textAlign: "left", textBaseline: "alphabetic", dash: [] });
    this.setTransform(1, 0, 0, 1, 0, 0);
    this.beginPath();
  }

  save() {
    this.saved.push(STATE.map((name) => this[name]));
  }

  restore() {
    this.saved.pop().forEach((value, i) => (this[STATE[i]] = value));
  }

  setTransform(scale, _b, _c, _d, x, y) {
    this.at = [scale, this.canvas.left + x, this.canvas.top + y];
  }

  translate(x, y) {
    const [scale, left, top] = this.at;
    this.at = [scale, left + scale * x, top + scale * y];
  }

  scale(factor) {
    const [scale, left, top] = this.at;
    this.at = [scale * factor, left, top];
  }

  setLineDash(dash) {
    this.dash = dash;
  }

  // --- paths --------------------------------------------------------------------------------------------------------

  beginPath() {
    this.codes = [];
    this.points = [];
  }

  add(code, x, y) {
    const [scale, left, top] = this.at;
    this.codes.push(code);
    // A hundredth of a pixel is enough.
    this.points.push(Math.round(100 * (left + scale * x)) / 100, Math.round(100 * (top + scale * y)) / 100);
  }

  moveTo(x, y) {
    this.add(MOVE, x, y);
  }

  lineTo(x, y) {
    this.add(this.codes.length ? LINE : MOVE, x, y);
  }

  quadraticCurveTo(x1, y1, x, y) {
    this.add(CURVE3, x1, y1);
    this.add(CURVE3, x, y);
  }

  closePath() {
    this.codes.push(CLOSE);
    this.points.push(0, 0);
  }

  arc(x, y, radius, from, to) {
    const count = Math.max(Math.ceil((to - from) / (TURN / 4) - 1e-9), 1), step = (to - from) / count, pull = (4 / 3) * Math.tan(step / 4) * radius;
    let [cos, sin] = [Math.cos(from), Math.sin(from)];
    this.lineTo(x + radius * cos, y + radius * sin);
    for (let i = 1; i <= count; i++) {
      const [nextCos, nextSin] = [Math.cos(from + i * step), Math.sin(from + i * step)];
      this.add(CURVE4, x + radius * cos - pull * sin, y + radius * sin + pull * cos);
      this.add(CURVE4, x + radius * nextCos + pull * nextSin, y + radius * nextSin - pull * nextCos);
      this.add(CURVE4, x + radius * nextCos, y + radius * nextSin);
      [cos, sin] = [nextCos, nextSin];
    }
  }

  rect(x, y, wide, high) {
    polygon(this, 1, [[x, y], [x + wide, y], [x + wide, y + high], [x, y + high]]);
  }

  roundRect(x, y, wide, high, radius) {
    const r = Math.min(radius, wide / 2, high / 2), [left, top, right, bottom] = [x + r, y + r, x + wide - r, y + high - r];
    [[right, top, -1], [right, bottom, 0], [left, bottom, 1], [left, top, 2]].forEach(([cx, cy, turn]) => this.arc(cx, cy, r, (turn * TURN) / 4, ((turn + 1) * TURN) / 4));
    this.closePath();
  }

  clip() {
    const xs = this.points.filter((_, i) => i % 2 === 0 && this.codes[i / 2] !== CLOSE), ys = this.points.filter((_, i) => i % 2 && this.codes[(i - 1) / 2] !== CLOSE);
    const [left, top, right, bottom] = this.box || [-Infinity, -Infinity, Infinity, Infinity];
    this.box = [Math.max(left, Math.min(...xs)), Math.max(top, Math.min(...ys)), Math.min(right, Math.max(...xs)), Math.min(bottom, Math.max(...ys))];
  }

  // --- what is seen ---------------------------------------------------------------------------------------------------

  // A picture begins anew.
  clearRect() {
    this.list = [];
  }

  fill() {
    this.list.push({ codes: this.codes, points: this.points, fill: this.fillStyle, stroke: "", alpha: this.globalAlpha, clip: this.box });
  }

  stroke() {
    const { list, codes, points, at: [scale], globalAlpha: alpha } = this, last = list.at(-1);
    const pen = { stroke: this.strokeStyle, width: scale * this.lineWidth, dash: this.dash.map((each) => scale * each), cap: this.lineCap, join: this.lineJoin };
    // What is filled and then stroked is one shape.
    if (last && last.codes === codes && !last.stroke && last.alpha === alpha) Object.assign(last, pen);
    else list.push({ codes, points, fill: "", alpha, clip: this.box, ...pen });
  }

  fillRect(...box) {
    if (!box[2] || !box[3]) return;
    this.beginPath();
    this.rect(...box);
    this.fill();
  }

  strokeRect(...box) {
    this.beginPath();
    this.rect(...box);
    this.stroke();
  }

  createLinearGradient(...ends) {
    const stops = [], [scale, left, top] = this.at;
    return { ends: ends.map((each, i) => scale * each + (i % 2 ? top : left)), stops, addColorStop: (share, colour) => stops.push([share, colour]) };
  }

  // --- words ----------------------------------------------------------------------------------------------------------

  get pixels() {
    return Number(/([0-9.]+)px/.exec(this.font)[1]);
  }

  // Fonts of pictures have two weights.
  get style() {
    return (Number(/(\d00|\d50) /.exec(this.font)?.[1] ?? 400) >= 600 ? 1 : 0) + (this.font.includes("italic") ? 2 : 0);
  }

  measureText(text) {
    const { style } = this, key = `${style} ${text}`;
    if (!this.widths.has(key)) this.widths.set(key, widthOf(String(text), style));
    return { width: this.widths.get(key) * this.pixels };
  }

  letter(text, x, y, most, fill, stroke) {
    const { at: [scale, left, top], pixels, style, textAlign, textBaseline, globalAlpha: alpha, lineWidth, box: clip } = this;
    const down = { middle: 0.346, bottom: -0.236 }[textBaseline] || 0, squeezed = most < this.measureText(text).width ? scale * most : 0;
    const place = { x: left + scale * x, y: top + scale * (y + down * pixels), size: scale * pixels, style, align: textAlign };
    this.list.push({ text: String(text), ...place, fill, stroke, alpha, width: scale * lineWidth, most: squeezed, clip });
  }

  fillText(text, x, y, most = Infinity) {
    this.letter(text, x, y, most, this.fillStyle, "");
  }

  strokeText(text, x, y, most = Infinity) {
    this.letter(text, x, y, most, "", this.strokeStyle);
  }
}
