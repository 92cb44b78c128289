// A stretch of the space–time diagram, drawn once on a canvas of its own and kept while the time moves over it. Where words
// stand is decided here: events and crosses first, then roles, notes and what is small, at last the labels of arrows.

const DENSE = [14, 8, 4, 2], MOST_WORDS = 2000, REPLY = [1.5, 3.5];
// About so many arrows or events are drawn in a step, and so many arrows in one stroke.
const STEP = 16, STROKES = 64;
// Faults of links over which frames still pass, or will.
const PASSING = new Set(["Hold", "LinkChange"]);

// Rectangles (left, top, right, bottom) that are taken, found by cells.
class Boxes {
  constructor() {
    this.cells = new Map();
    this.crosses = 0;
  }

  *near([left, top, right, bottom]) {
    for (let x = Math.floor(left / 64); x <= Math.floor(right / 64); x++) {
      for (let y = Math.floor(top / 64); y <= Math.floor(bottom / 64); y++) yield x * 65536 + y;
    }
  }

  add(box) {
    for (const key of this.near(box)) {
      if (!this.cells.has(key)) this.cells.set(key, []);
      this.cells.get(key).push(box);
    }
    return box;
  }

  free(box) {
    for (const key of this.near(box)) {
      for (const other of this.cells.get(key) || []) {
        if (box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1]) return false;
      }
    }
    return true;
  }
}

// Whether the line from (x1, y1) to (x2, y2) meets a rectangle.
function meets({ x1, y1, x2, y2 }, [left, top, right, bottom]) {
  let from = 0, to = 1;
  for (const [p, d, low, high] of [[x1, x2 - x1, left, right], [y1, y2 - y1, top, bottom]]) {
    if (!d && (p < low || p > high)) return false;
    if (!d) continue;
    const [one, other] = [(low - p) / d, (high - p) / d];
    from = Math.max(from, Math.min(one, other));
    to = Math.min(to, Math.max(one, other));
  }
  return from <= to;
}

class Sheet {
  constructor(view, context, from, to) {
    const { page } = view, { events, look } = page;
    Object.assign(this, { view, page, look, context, from, to, boxes: new Boxes(), arrows: [], dots: [], words: [], labels: [] });
    this.size = 12 * look.scale;
    // Shapes grow less than text does.
    this.big = Math.sqrt(look.scale);
    this.rows = events.overlapping(from, to).slice();
    this.along = (time) => (time - from) * view.scale;
    const seen = Math.min(to, page.span) - Math.max(from, 0);
    this.room = (seen * view.scale) / Math.max(this.rows.length, 1);
    this.level = DENSE.filter((least) => this.room < least).length;
    this.detailed = this.rows.length < 3000;
    this.focus = view.focus;
    this.steps = this.draw();
  }

  // Draw for some milliseconds, or all that is left.
  work(most = Infinity) {
    const until = performance.now() + most;
    while (!this.done && performance.now() < until) {
      this.done = this.steps.next().done;
      // A browser computes what was drawn as it is read: at once for each step, lest all come with the next picture.
      if (most < Infinity) this.context.getImageData(0, 0, 1, 1);
    }
  }

  // In small steps, so that a sheet can be drawn between pictures.
  *draw() {
    this.drawFaults();
    if (this.level === 4 && this.look.kinds.some(({ routine }) => routine)) yield* this.drawTicks();
    yield* this.drawLifelines();
    this.placeEvents();
    yield;
    yield* this.placeArrows();
    yield* this.drawArrows();
    this.placeWords();
    yield;
    yield* this.placeLabels();
    yield* this.drawDots();
    this.drawWords();
  }

  // A place by its time and its lane (a number, also between two lanes).
  xy(time, lane) {
    return this.turned(this.along(time), this.view.cross(lane));
  }

  turned(u, v) {
    return this.view.tall ? [v, u] : [u, v];
  }

  line(u1, v1, u2, v2, style) {
    paint(this.context, (c) => lines(c, 1, [[...this.turned(u1, v1), ...this.turned(u2, v2)]]), style);
  }

  // --- faults: bands and cut lines under all else, links that are cut, agents that are slow --------------------------------

  drawFaults() {
    const { context, look, view, size } = this, { cross, lanes, tall } = view, stroke = look.bandline;
    for (const fault of view.faults) {
      if (fault.begin > this.to || (fault.end ?? Infinity) < this.from) continue;
      const u1 = this.along(Math.max(fault.begin, this.from)), u2 = this.along(Math.min(fault.end ?? view.page.span, this.to));
      if (fault.what === "Partition") {
        context.fillStyle = look.band;
        view.fill(context, u1, u2);
        // Its caption stands there.
        if (tall) this.boxes.add([view.left, u1, view.width, u1 + 1.8 * size]);
        for (const u of [u1, u2]) this.line(u, 0, u, tall ? view.width : view.bottom, { stroke, wide: 1.5, dash: [2, 4] });
        for (const lane of fault.cuts) {
          this.line(u1, cross(lane), u2, cross(lane), { stroke, wide: 2.5, dash: [10, 5] });
          this.boxes.add([...this.turned(u1, cross(lane) - 3), ...this.turned(u2, cross(lane) + 3)]);
        }
      } else if (fault.links.length && !DOWNS.has(fault.what)) {
        for (const [i, j] of fault.links.slice(0, 200)) {
          if (i > j && fault.links.some(([k, l]) => k === j && l === i)) continue;
          this.drawCut(fault, lanes[i], lanes[j], u1, u2);
        }
        this.say(fault.begin, lanes[fault.links[0][0]], fault.text, { kind: "fault", colour: stroke });
      } else if (!DOWNS.has(fault.what)) {
        for (const agent of fault.agents) this.line(u1, cross(lanes[agent]) + 8, u2, cross(lanes[agent]) + 8, { stroke, wide: 3, dash: [1, 3] });
        if (fault.agents.length) this.say(fault.begin, lanes[fault.agents[0]], fault.text, { kind: "fault", colour: stroke });
      }
    }
  }

  // A link that is cut: a line between its agents as long as that lasts, from a boxed cross to a ring. Where frames still
  // pass, or will, there is no cross.
  drawCut({ what, begin, end }, one, other, u1, u2) {
    const { context, look, view } = this, middle = view.cross(view.between(one, other, 0.5)), style = { stroke: look.bandline, wide: 1.5, dash: [4, 3] };
    this.line(u1, middle, u2, middle, style);
    for (const [time, mark] of [[begin, what === "Lose" ? "cross" : PASSING.has(what) ? "ring" : "boxed"], [end, "ring"]]) {
      if (!Number.isFinite(time ?? NaN) || time < this.from || time > this.to) continue;
      this.line(this.along(time), view.cross(one), this.along(time), view.cross(other), style);
      const [x, y] = this.turned(this.along(time), middle);
      look.drawMark(context, mark, look.bandline, x, y, 4.5);
      this.boxes.add([x - 7, y - 7, x + 7, y + 7]);
    }
  }

  // --- lifelines -----------------------------------------------------------------------------------------------------------

  *drawLifelines() {
    const { context, view, page, focus } = this, { meta, states } = page;
    context.globalAlpha = focus ? 0.55 : 1;
    for (let agent = 0; agent < meta.agents.length; agent++) {
      const v = view.cross(view.lanes[agent]), list = view.lifeline(agent);
      const first = Math.max(countUpTo(list.map(({ from }) => from), this.from) - 1, 0);
      for (let i = first; i < list.length && list[i].from < this.to; i++) this.drawSpan(list[i], v);
      if (!states.category && states.shown >= 0 && !states.isTree) this.drawNumbers(agent, v);
      yield;
    }
    context.globalAlpha = 1;
  }

  drawSpan({ from, to, style: { line, colour, weight, dash } }, v) {
    const u1 = this.along(Math.max(from, this.from, 0)), u2 = this.along(Math.min(to, this.to, this.page.span));
    this.line(u1, v, u2, v, { stroke: line || colour, wide: Math.max(Math.min(weight, 0.45 * this.view.thick), 0.7), dash });
  }

  // A state that is a number: its colours from change to change. Of changes within a pixel the last one counts: its value
  // holds from there on, perhaps for long.
  drawNumbers(agent, v) {
    const { context, view, page: { states, span } } = this, { values } = states.list[states.shown], range = states.list[states.shown];
    const rows = states.changes(agent), wide = Math.min(7, Math.max(0.6 * view.thick, 1));
    const stop = this.along(Math.min(this.to, span)), begin = (place) => this.along(states.times[rows[place]]);
    for (let i = Math.max(countUpTo(states.times, this.from, false, rows) - 1, 0); i < rows.length;) {
      const u1 = Math.max(begin(i), 0);
      if (u1 > stop) break;
      let next = i + 1;
      while (next < rows.length && begin(next) < u1 + 1) next++;
      const u2 = Math.min(next < rows.length ? begin(next) : stop, stop), share = states.share(values[rows[next - 1]], range);
      if (!Number.isNaN(share)) {
        context.fillStyle = this.page.look.number(share);
        view.fill(context, u1, u2, v - wide / 2, v + wide / 2);
      }
      i = next;
    }
  }

  // --- events ---------------------------------------------------------------------------------------------------------------

  placeEvents() {
    const { view, page } = this, { lanes } = view;
    this.radius = 0;
    this.causality = this.detailed || this.focus ? view.causality : null;
    if (!this.causality) return;
    const { time, agent } = this.causality, first = countUpTo(time, this.from, true), last = countUpTo(time, this.to);
    const each = ((this.to - this.from) * view.scale * lanes.length) / Math.max(last - first, 1);
    this.radius = Math.min([16, 10, 6, 3].reduce((radius, least) => radius + 0.85 * (each >= least), 0.8) * this.big, 0.35 * view.thick) * (each >= 3);
    if (last - first > 6000) return;
    for (let event = first; event < last; event++) {
      const [x, y] = this.xy(time[event], lanes[agent[event]]), r = this.radius + 1.5;
      this.dots.push({ event, x, y });
      if (this.radius > 1) this.boxes.add([x - r, y - r, x + r, y + r]);
    }
  }

  *drawDots() {
    const { context, look, focus, radius, view } = this, { crashes } = view;
    if (focus && focus.chain) this.drawChain(focus.chain);
    for (const { event, x, y } of this.dots) {
      const mark = focus && focus.marks ? focus.marks[event] : 0, chosen = focus && focus.chosen.indexOf(event);
      const lit = !focus || (focus.marks ? mark || chosen >= 0 : focus.concerns(this.causality.agent[event]));
      context.globalAlpha = lit ? 1 : 0.2;
      if (crashes.has(event)) this.drawFall(x, y, crashes.get(event));
      if (focus && focus.marks && chosen >= 0) this.drawChosen(x, y, focus.chosen.length > 1 ? "AB"[chosen] : "");
      else if (mark === 1 || mark === 2) {
        const [dx, dy] = this.turned(crashes.has(event) ? 14 : 0, 0);
        this.drawArrowhead(x + dx, y + dy, mark === 1 ? -1 : 1, mark === 1 ? look.past : look.future, Math.max(radius, 2.5));
      } else if (radius > 1 && !crashes.has(event)) paint(context, (c) => c.arc(x, y, radius, 0, TURN), { fill: look.paper, stroke: look.ink, wide: 0.4 * radius });
      if (event % STEP === 0) yield;
    }
    context.globalAlpha = 1;
  }

  // The parts of a chain that run along lifelines.
  drawChain({ events }) {
    const { view, causality, look } = this, { agent, time } = causality;
    events.slice(1).forEach((event, i) => {
      if (agent[event] !== agent[events[i]]) return;
      const v = view.cross(view.lanes[agent[event]]);
      this.line(this.along(Math.max(time[events[i]], this.from)), v, this.along(Math.min(time[event], this.to)), v, { stroke: look.accent, wide: 3.5 });
    });
  }

  drawChosen(x, y, letter) {
    const { context, look, size } = this, ring = (c) => c.arc(x, y, 10.5, 0, TURN);
    paint(context, ring, { stroke: look.paper, wide: 6 });
    paint(context, ring, { stroke: look.accent, wide: 2.5 });
    paint(context, (c) => c.arc(x, y, 5.5, 0, TURN), { fill: look.accent });
    if (!letter) return;
    Object.assign(context, { font: look.font(17, "700"), textAlign: "right", textBaseline: "bottom" });
    look.write(context, letter, x - 9, y - 6, 4, look.accent);
    this.boxes.add([x - 10 - size, y - 8 - size, x, y]);
  }

  // Before (◀) or after (▶) the chosen event.
  drawArrowhead(x, y, sign, colour, radius) {
    const corners = [[1.7 * sign, 0], [-1.2 * sign, 1.6], [-1.2 * sign, -1.6]].map(([u, v]) => this.turned(u, v));
    paint(this.context, (c) => polygon(c, radius, corners, x, y), { fill: colour, stroke: this.look.paper, wide: 1.5 });
  }

  // The cross at which an agent goes down, the bar at which it comes back.
  drawFall(x, y, falls) {
    const { context, look } = this, size = Math.min(7, 0.45 * this.view.thick), [dx, dy] = this.turned(0, 1.2);
    context.lineCap = "round";
    paint(context, (c) => lines(c, size, falls ? CROSS : [[-dx, -dy, dx, dy]], x, y), { stroke: look.role("", DOWN).colour, wide: 0.5 * size });
    context.lineCap = "butt";
  }

  // --- arrows ---------------------------------------------------------------------------------------------------------------

  *placeArrows() {
    const { events, look } = this.page, fans = new Map();
    // A tick stands for a routine frame where there is no room for arrows.
    const rows = this.ticked ? this.rows.filter((row) => !look.kind(events.kind[row]).routine || events.cause[row]) : this.rows;
    const drawn = thinned(rows, MOST_DRAWN);
    for (const row of drawn) {
      const key = `${events.sender[row]} ${events.start[row]} ${events.kind[row]} ${events.label[row]}`;
      const fan = fans.get(key) || { rows: [], cut: [] };
      fans.set(key, fan);
      const arrow = this.arrow(row, fan);
      fan.rows.push(arrow);
      if (arrow.cut) fan.cut.push(arrow);
      arrow.fan = fan;
      this.arrows.push(arrow);
      if (arrow.why && this.boxes.crosses++ < 300) this.boxes.add([arrow.x2 - 8 * this.big, arrow.y2 - 8 * this.big, arrow.x2 + 8 * this.big, arrow.y2 + 8 * this.big]);
      if (this.arrows.length % STEP === 0) yield;
    }
    this.drawn = drawn.length + (this.ticked ? this.rows.length - rows.length : 0);
  }

  // Where a row's arrow runs: from its event, past its wait, to its head or its cross.
  arrow(row, fan) {
    const { view, page, look } = this, { start, depart, end, sender, receiver, cause } = page.events;
    const { lanes, cross, scale } = view, why = cause[row], v1 = cross(lanes[sender[row]]), goal = cross(lanes[receiver[row]]);
    const u0 = this.along(start[row]), u1 = this.along(Math.min(depart[row], page.span)), way = Math.sign(goal - v1) || -1;
    let u2 = this.along(Math.min(end[row], page.span)), v2 = goal, cut = false, bow = 0;
    if (why) {
      const share = look.reach[why], name = look.causes[why], border = name === "link_down" ? view.border(row) : null;
      v2 = v1 + (goal - v1) * share;
      // Under way at the end: as far as the mean time of frames takes it.
      if (name === "in_flight") v2 = v1 + (goal - v1) * Math.min(Math.max((u2 - u1) / (view.flight * scale || 1), 0.1), 0.85);
      else if (border !== null) [v2, cut] = [cross(border), true];
      else if (share < 0.2) v2 = v1 + way * Math.min(Math.abs(goal - v1) * share, 0.8 * view.thick, 26);
      else if (share < 0.8) v2 = cross(view.between(lanes[sender[row]], lanes[receiver[row]], share));
      else v2 = goal - way * Math.min(0.15 * Math.abs(goal - v1), 14);
      // What ends the moment it leaves would be hidden under others of its fan: the line leans as if it had flown so far.
      const lean = cut ? 9 + 15 * Math.min(fan.cut.length, 3) : share < 0.2 ? 9 : Math.max(share * view.flight * scale, 9);
      if (u2 - u1 < 2 && name !== "in_flight") u2 = u1 + lean;
    } else if (end[row] === start[row] && this.detailed) bow = Math.min(0.3 * Math.abs(goal - v1), Math.max(40, this.page.meta.rounds ? 0.6 * this.page.meta.round_period * scale : 0));
    const middle = this.turned((u0 + u2) / 2 + 2 * bow, (v1 + v2) / 2), [x1, y1] = this.turned(u0, v1), [x2, y2] = this.turned(u2, v2);
    const wait = u1 - u0 > 3 ? this.turned(u1, v1 + way * Math.min(4, 0.2 * view.thick)) : null;
    return { row, why, cut, bow, x1, y1, x2, y2, middle, wait };
  }

  // A point on an arrow.
  on({ x1, y1, x2, y2, bow, middle: [mx, my] }, share) {
    if (!bow) return [x1 + (x2 - x1) * share, y1 + (y2 - y1) * share];
    const a = (1 - share) ** 2, b = 2 * share * (1 - share), c = share ** 2;
    return [a * x1 + b * mx + c * x2, a * y1 + b * my + c * y2];
  }

  *drawArrows() {
    const { context, look, focus, arrows, page } = this, { kind, cause, reply } = page.events;
    const single = arrows.length < 1500;
    const few = this.level < 3 ? 1 : Math.max(0.35, this.room / 4), paths = new Map();
    for (const arrow of arrows) {
      arrow.lit = focus ? focus.lit(arrow.row) : true;
      arrow.look = look.kind(kind[arrow.row]);
      const key = single ? arrow.row : `${kind[arrow.row]} ${arrow.lit} ${arrow.why > 0} ${reply[arrow.row]}`;
      if (!paths.has(key)) paths.set(key, []);
      paths.get(key).push(arrow);
    }
    // What is lit lies above.
    for (const list of [...paths.values()].sort((one, other) => one[0].lit - other[0].lit)) {
      const { lit, look: style } = list[0];
      context.globalAlpha = lit ? few : 0.2;
      context.strokeStyle = style.colour;
      context.lineWidth = this.big * style.weight * (lit && focus ? 1.7 : this.level > 2 ? 0.6 : 1);
      context.setLineDash(this.level < 4 ? (reply[list[0].row] ? REPLY : style.dash) : []);
      for (let i = 0; i < list.length; i += STROKES) {
        if (i) yield;
        context.beginPath();
        for (const arrow of list.slice(i, i + STROKES)) this.trace(arrow, single);
        context.stroke();
      }
      context.setLineDash([]);
      if (single) for (const arrow of list) this.drawEnd(arrow);
      if (!single || list[0].row % STEP === 0) yield;
    }
    context.globalAlpha = 1;
    if (single) return;
    for (const { row, why, x2, y2, lit } of arrows) {
      context.globalAlpha = lit ? 1 : 0.2;
      if (why && look.causes[why] !== "in_flight") look.mark(context, cause[row], x2, y2, 3);
      if (row % STEP === 0) yield;
    }
    context.globalAlpha = 1;
  }

  trace(arrow, heads) {
    const { context } = this, { x1, y1, x2, y2, bow, middle, wait, why } = arrow;
    const [fx, fy] = bow ? middle : wait || [x1, y1], length = Math.hypot(x2 - fx, y2 - fy) || 1;
    arrow.ux = (x2 - fx) / length;
    arrow.uy = (y2 - fy) / length;
    const pull = why || !heads ? 0 : Math.min(this.radius + 1, 0.3 * length);
    [arrow.tipX, arrow.tipY] = [x2 - pull * arrow.ux, y2 - pull * arrow.uy];
    context.moveTo(x1, y1);
    if (wait) context.lineTo(...wait);
    if (bow) context.quadraticCurveTo(...middle, arrow.tipX, arrow.tipY);
    else context.lineTo(arrow.tipX, arrow.tipY);
  }

  drawEnd(arrow) {
    const { context, look, page: { events } } = this, { row, why, x2, y2, ux, uy } = arrow;
    if (why) {
      if (look.causes[why] !== "in_flight") look.mark(context, events.cause[row], x2, y2, Math.min(5 * this.big, 0.4 * this.view.thick));
      return;
    }
    look.head(context, arrow.look, arrow.tipX, arrow.tipY, ux, uy, [8, 8, 7, 6, 5][this.level] * this.big);
    if (!this.detailed || this.view.page.overtook[row] < 0) return;
    // Two strokes across an arrow that overtook another of its link.
    const [x, y] = this.on(arrow, 0.86), strokes = [0, 4].map((back) => [-back * ux - 5 * uy, -back * uy + 5 * ux, -back * ux + 5 * uy, -back * uy - 5 * ux]);
    paint(context, (c) => lines(c, 1, strokes, x, y), { stroke: look.ink, wide: 1.8 });
    this.boxes.add([x - 6, y - 6, x + 6, y + 6]);
  }

  // Routine frames as ticks where they arrive: a tick for a pixel, however many come there.
  *drawTicks() {
    const { context, view, page: { events, span }, look } = this, { kind, cause, end, receiver } = events;
    const long = Math.ceil((this.to - this.from) * view.scale) + 1, seen = new Uint8Array(long * this.page.meta.agents.length);
    const half = Math.min(8, 0.35 * view.thick);
    this.ticked = true;
    context.globalAlpha = this.focus ? 0.2 : 1;
    context.fillStyle = look.kinds.find(({ routine }) => routine).colour;
    for (const row of this.rows) {
      if (cause[row] || !look.kind(kind[row]).routine || end[row] > Math.min(span, this.to) || end[row] < this.from) continue;
      const u = Math.floor(this.along(end[row])), place = receiver[row] * long + u;
      if (seen[place]) continue;
      seen[place] = 1;
      const v = view.cross(view.lanes[receiver[row]]);
      view.fill(context, u, u + 1, v - half, v + half);
      if (row % STEP === 0) yield;
    }
    context.globalAlpha = 1;
  }

  // --- words ----------------------------------------------------------------------------------------------------------------

  // Keeps a word for an agent's time; they are placed by their kind later.
  say(time, lane, text, options) {
    if (time < this.from || time > this.to || !text) return;
    this.words.push({ time, lane, text, ...options });
  }

  placeWords() {
    const { view, page, look, causality } = this, { meta, states } = page;
    const first = countUpTo(view.wordTimes, this.from, true), last = countUpTo(view.wordTimes, this.to);
    for (const { time, agent, text, kind, colour } of view.words.slice(first, Math.min(last, first + MOST_WORDS))) {
      this.say(time, view.lanes[agent], text, { kind, colour: colour || look.ink, agent });
    }
    if (view.clocked && causality && this.level < 2) this.sayClocks();
    const kinds = ["role", "fault", "note", "minor", "clock"].filter((kind) => this.level < 3 || !["minor", "clock"].includes(kind));
    const list = this.words;
    this.words = [];
    for (const kind of kinds) {
      for (const word of list.filter((each) => each.kind === kind)) this.place(word);
    }
  }

  sayClocks() {
    const { view, causality, look } = this, { clocks } = view, agents = causality.agents;
    if (!clocks) return;
    for (const { event } of this.dots) {
      const clock = clocks.subarray(event * agents, (event + 1) * agents), agent = causality.agent[event];
      this.say(causality.time[event], view.lanes[agent], `[${clock.join(" ")}]`, { kind: "clock", colour: look.soft, agent });
    }
  }

  font(kind) {
    const small = kind === "minor" || kind === "clock";
    return this.look.font(small ? 11 : 12, kind === "role" || kind === "fault" ? "600" : kind === "note" ? "italic" : "");
  }

  wide(text, font) {
    this.context.font = font;
    return this.context.measureText(text).width;
  }

  place(word) {
    const { size, view, look } = this, font = this.font(word.kind), [x, y] = this.xy(word.time, word.lane);
    const most = view.tall ? view.width - 16 : 260 * look.scale;
    let { text } = word;
    while (this.wide(text, font) > most && text.length > 4) text = `${text.slice(0, -2).trimEnd()}…`;
    const w = this.wide(text, font) + 8, h = size + 5, small = word.kind === "minor" || word.kind === "clock", below = word.kind === "note" || word.kind === "clock";
    const gap = Math.max(7, this.radius + 3.5), up = (k) => y - gap - k * (h + 3) + 3, down = (k) => y + gap + (k - 1) * (h + 3), rows = [];
    for (const k of [1, 2, 3]) rows.push(below ? [down(k), up(k)] : [up(k), down(k)]);
    const tries = [];
    if (view.tall) for (const dy of [-h / 2, 7, -h - 7, h + 10, -2 * h - 10]) tries.push([x + 8, y + dy], [x - w - 8, y + dy]);
    else for (const side of [0, 1]) for (const row of rows) for (const top of [row[side]]) tries.push([x + 3, top], [x - w - 3, top], [x - w / 2, top]);
    // Down a narrow page a word may be wider than the room between two lines.
    const large = view.tall && !small && w > view.thick - 6;
    for (const [left, top] of tries) {
      const box = [view.tall ? Math.min(Math.max(left, view.left), view.width - w - 2) : left, top];
      box.push(box[0] + w, top + h);
      if (!this.fits(box, large) || !this.boxes.free([box[0] - 2, box[1] - 1, box[2] + 2, box[3] + 1])) continue;
      this.boxes.add(box);
      this.words.push({ ...word, text, font, box });
      return;
    }
  }

  // Not beyond the picture's rim, nor on another agent's lifeline.
  fits(box, anywhere = false) {
    const { view } = this, [low, high] = view.tall ? [box[0], box[2]] : [box[1], box[3]];
    const [begin, end] = view.tall ? [box[1], box[3]] : [box[0], box[2]];
    if (begin < this.along(Math.max(this.from, -0.02 * view.window)) || end > this.along(Math.min(this.to, this.page.span + 0.02 * view.window)) + 2) return false;
    if (low < (view.tall ? view.left : 0.55 * view.top) || high > (view.tall ? view.width : view.bottom)) return false;
    const lane = view.laneAt((low + high) / 2), v = view.cross(lane);
    return anywhere || high < v - 4 || low > v + 4;
  }

  lights({ agent, time }) {
    const { focus, causality } = this;
    if (!focus || agent === undefined) return true;
    if (!focus.marks) return focus.concerns(agent);
    return causality.at(agent, time).some((event) => focus.marks[event] || focus.chosen.includes(event));
  }

  drawWords() {
    const { context, look } = this;
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const word of this.words) {
      const { kind, text, box: [left, top, right, bottom], colour, font } = word;
      context.globalAlpha = this.lights(word) ? 1 : 0.2;
      context.font = font;
      const boxed = kind === "role" || kind === "note", path = (c) => c.roundRect(left, top, right - left, bottom - top, 4);
      if (boxed) paint(context, path, { fill: look.paper, stroke: colour, wide: 1.3, dash: kind === "note" ? [2, 2] : [] });
      look.write(context, text, left + 4, (top + bottom) / 2 + 0.5, boxed ? 0 : 4, colour, this.ground(word.time));
    }
    context.globalAlpha = 1;
  }

  // The colour of what lies beneath words at a time.
  ground(time) {
    const { look, view } = this, banded = view.faults.some(({ what, begin, end }) => what === "Partition" && begin <= time && time <= (end ?? Infinity));
    return banded ? look.band : look.paper;
  }

  // --- labels of arrows -----------------------------------------------------------------------------------------------------

  *placeLabels() {
    const { view, level, focus, page } = this;
    if (level > 1 || !this.detailed || view.thick < 1.7 * this.size) return;
    const shown = this.arrows.filter((arrow) => !arrow.cut && (level < 1 || !arrow.look.routine || (focus && arrow.lit)));
    const shared = [...new Set(this.arrows.map(({ fan }) => fan))].filter(({ cut }) => cut.length);
    const rank = (arrow) => 2 * !arrow.lit + arrow.look.routine;
    const list = [...shown.map((arrow) => [arrow, null]), ...shared.map((fan) => [fan.cut[0], fan])];
    list.sort(([one], [other]) => rank(one) - rank(other) || one.row - other.row);
    this.context.font = this.look.font(11);
    for (const [arrow, fan] of list) {
      this.label(arrow, fan);
      if (arrow.row % STEP === 0) yield;
    }
    this.context.globalAlpha = 1;
  }

  label(arrow, fan) {
    const { context, view, size, look, page: { meta, events } } = this;
    let text = view.page.title(arrow.row);
    if (fan && !view.tall) {
      const names = fan.cut.map(({ row }) => meta.agents[events.receiver[row]]);
      text += ` to ${names.slice(0, 6).join(" ")}${names.length > 6 ? ` and ${names.length - 6} more` : ""}`;
    }
    if (!text.trim()) return;
    text = clipped(text, 32);
    const w = context.measureText(text).width, h = size + 1;
    // Where a fan is spread: near the heads of one to many, near the tails of many to one.
    const many = arrow.fan.rows.length > 1 && !fan;
    const shares = many ? [0.74, 0.66, 0.82, 0.58, 0.5, 0.9, 0.4] : [0.28, 0.36, 0.2, 0.44, 0.52, 0.6, 0.7];
    const flat = Math.abs(arrow.x2 - arrow.x1) > 2 * Math.abs(arrow.y2 - arrow.y1), tries = [];
    for (const share of shares) {
      const [x, y] = this.on(arrow, share);
      if (flat) tries.push([x - w / 2, y - h - 3], [x - w / 2, y + 3]);
      else tries.push([x + 6, y - h / 2], [x - w - 6, y - h / 2]);
    }
    if (fan) {
      const far = Math.max(...fan.cut.map(({ x2 }) => x2)), { y2 } = fan.cut[0];
      for (const dy of [0, h + 2, -h - 2]) tries.push([far + 12, y2 - h / 2 + dy]);
    }
    const boxes = tries.map(([x, y]) => [x, y, x + w, y + h]).filter((box) => this.fits(box) && this.boxes.free([box[0] - 3, box[1], box[2] + 3, box[3]]));
    // Rather where no other arrow runs.
    const clear = (box) => this.arrows.length > 300 || !this.arrows.some((other) => other !== arrow && !other.bow && meets(other, box));
    const box = boxes.find(clear) || (this.arrows.length < 200 || arrow.lit ? boxes[0] : null);
    if (!box) return;
    this.boxes.add(box);
    this.labels.push({ text, box, row: arrow.row });
    context.globalAlpha = arrow.lit ? 1 : 0.2;
    context.textAlign = "left";
    context.textBaseline = "middle";
    look.write(context, text, box[0], (box[1] + box[3]) / 2 + 0.5, 4, arrow.look.colour, this.ground(events.start[arrow.row]));
  }

  // --- what is at a point ---------------------------------------------------------------------------------------------------

  eventAt(x, y, most = 14) {
    let best = most, found = -1;
    for (const { event, x: atX, y: atY } of this.dots) {
      const away = Math.hypot(x - atX, y - atY);
      if (away < best) [best, found] = [away, event];
    }
    return found;
  }

  rowAt(x, y) {
    let best = 7, found = -1;
    for (const arrow of this.arrows) {
      if (arrow.why && Math.hypot(x - arrow.x2, y - arrow.y2) < 9) return arrow.row;
      for (let share = 0; share < 1; share += arrow.bow ? 0.1 : 1) {
        const [x1, y1] = this.on(arrow, share), [x2, y2] = this.on(arrow, share + (arrow.bow ? 0.1 : 1)), dx = x2 - x1, dy = y2 - y1;
        const place = Math.min(Math.max(((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy || 1), 0), 1);
        const away = Math.hypot(x - x1 - place * dx, y - y1 - place * dy);
        if (away < best) [best, found] = [away, arrow.row];
      }
    }
    return found;
  }
}
