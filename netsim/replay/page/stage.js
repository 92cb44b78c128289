// The stage: agents at their places, frames between them, what fails and what is lost. All lengths are in u, the unit of
// the screen, and what fades does so in the film's time: a picture depends on nothing else.

const MOST_DRAWN = 6000, MOST_MARKS = 1500;
// Agents up to which they have names, and are pushed apart; frames up to which they have labels, and tails; cut links marked.
const MOST_NAMED = 60, MOST_PUSHED = 400, MOST_LABELLED = 24, MOST_TAILS = 60, MOST_CUTS = 80;
// Seconds of film in which what is new, lost or noted fades.
const NEW = 1.2, LOST = 1.5, NOTED = 4;
// Faults that cut links while they last.
const CUTS = new Set(["LinkDown", "Partition", "SetLink"]);
// Whether a fault is of agents that are up: slow, or with a wrong clock.
const isStray = ({ what, links, agents, sides }) => !DOWNS.has(what) && !links.length && !sides && agents.length > 0;

class Stage {
  constructor(run, canvas, under) {
    Object.assign(this, { run, canvas, under });
    const seen = new Set();
    this.pairs = run.meta.links.filter(([i, j]) => i !== j && !seen.has(this.pairKey(i, j)) && seen.add(this.pairKey(i, j)));
    this.resize();
  }

  // On a page: words at the pointer.
  listen() {
    this.tip = new Tip(this.canvas);
    this.canvas.addEventListener("pointermove", (event) => this.hover(event.offsetX, event.offsetY));
    return this;
  }

  pairKey(i, j) {
    return Math.min(i, j) * this.run.meta.agents.length + Math.max(i, j);
  }

  // A font of a size in u.
  font(size, style = "600") {
    return `${style} ${Math.max(size * this.u, 9.5).toFixed(1)}px system-ui, sans-serif`;
  }

  resize() {
    const { positions, paths } = this.run.meta, { u, presenting, off, shown } = this.run.page, count = positions.length;
    Object.assign(this, { paths, u, k: u / 14, surface: fitted(this.canvas), underneath: fitted(this.under), context: this.canvas.getContext("2d"), sides: null });
    const { width, height } = this.surface, legend = presenting && shown.length === 1 && !this.run.meta.lab && !off.has("legend") && width > 50 * u ? 15 * u : 0;
    // The clock, and what fails, have the uppermost part for themselves, the caption the lowest.
    this.box = [u, (shown.some(({ faults }) => faults.length) ? 4.4 : 3.2) * u, width - legend - u, height - (shown.length > 1 ? (presenting ? 6.9 : 6.2) : 4.6) * u];
    this.placeRows(this.run.drawings.rows);
    const [left, top, right, bottom] = this.box, room = Math.max(Math.min(right - left, bottom - top), 1);
    const everywhere = [...positions, ...Object.values(paths).flatMap((path) => path.map(([, x, y]) => [x, y]))];
    const [[x0, x1], [y0, y1]] = [0, 1].map((k) => everywhere.reduce(([low, high], p) => [Math.min(low, p[k]), Math.max(high, p[k])], [Infinity, -Infinity]));
    const pad = Math.min((count <= 8 ? 4.2 : 2.6) * u, 0.2 * room), scale = Math.min((right - left - 2 * pad) / (x1 - x0 || 1e-300), (bottom - top - 2 * pad) / (y1 - y0 || 1e-300));
    const finite = Number.isFinite(scale) && (x1 > x0 || y1 > y0) ? scale : 0;
    this.toX = (x) => (left + right) / 2 + (x - (x0 + x1) / 2) * finite;
    this.toY = (y) => (top + bottom) / 2 - (y - (y0 + y1) / 2) * finite;
    this.x = Float64Array.from(positions, ([x]) => this.toX(x));
    this.y = Float64Array.from(positions, ([, y]) => this.toY(y));
    // Nodes as large as the usual distance of neighbours allows.
    const area = Math.sqrt(((right - left) * (bottom - top)) / Math.max(count, 1)), near = count > MOST_PUSHED ? [] : Array.from(this.x, (x, i) => this.x.reduce((best, a, j) => (i === j ? best : Math.min(best, Math.hypot(a - x, this.y[j] - this.y[i]))), Infinity)).sort((a, b) => a - b);
    const usual = Number.isFinite(near[count >> 1]) ? near[count >> 1] : area;
    this.radius = Math.max(Math.min(Math.max(0.36 * usual, 0.95 * u), count <= 8 ? Math.min(2.3 * u, 0.085 * room) : 1.35 * u, 0.2 * area), 2);
    if (count <= MOST_PUSHED) this.push();
    this.named = count <= MOST_NAMED;
    this.nameSize = Math.min(Math.max((0.95 * this.radius) / u, 0.92), 1.9);
    this.context.font = this.font(this.nameSize);
    // Names that fit stand on their agents, others below.
    this.inside = this.run.meta.agents.map((name) => this.named && this.context.measureText(clipped(name, 14)).width < 1.8 * this.radius);
    this.drawUnder();
  }

  // The room of agents' logs: a table at the right, or below.
  placeRows(rows) {
    const { u, box } = this, { off } = this.run.page;
    this.strips = null;
    if (!rows || !rows.agents.length || off.has("logs")) return;
    const wide = box[2] - box[0], high = box[3] - box[1], tall = high > 0.9 * wide;
    const cell = Math.min(2.6 * u, ((tall ? 1 : wide < 1.6 * high ? 0.4 : 0.46) * wide - 3.2 * u) / rows.most), pitch = Math.max(1.35 * cell, 2.7 * u), table = pitch * (rows.agents.length + 1), across = cell * rows.most + 3.2 * u;
    this.strips = { left: tall ? box[0] : box[2] - across, top: tall ? box[3] - table : (box[1] + box[3] - table) / 2, cell, pitch };
    if (tall) box[3] -= table + u;
    else box[2] -= across + 1.5 * u;
  }

  // Agents that would hide one another are pushed apart, those at one place by their numbers; but none that moves.
  push() {
    const { x, y, radius, box } = this, gap = 2.5 * radius, still = [...x.keys()].filter((i) => !this.paths[i]);
    for (let turn = 0, close = true; close && turn < 60; turn++) {
      const oldX = x.slice(), oldY = y.slice();
      close = false;
      for (const i of still) {
        for (const j of still) {
          if (i === j) continue;
          const dx = oldX[i] - oldX[j], dy = oldY[i] - oldY[j], far = Math.hypot(dx, dy);
          if (far >= gap) continue;
          close = true;
          const [awayX, awayY] = far > 1e-9 ? [dx / far, dy / far] : [Math.cos(2.4 * i), Math.sin(2.4 * i)];
          x[i] += 0.5 * (gap - far) * awayX;
          y[i] += 0.5 * (gap - far) * awayY;
        }
      }
      for (const i of still) {
        x[i] = Math.min(Math.max(x[i], box[0] + 1.6 * radius), box[2] - 1.6 * radius);
        y[i] = Math.min(Math.max(y[i], box[1] + 1.6 * radius), box[3] - 1.8 * radius);
      }
    }
  }

  // Those that move are on the straight line between two points of their paths, each (time, x, y).
  walk(t) {
    const { paths } = this.run.meta;
    // A run that goes on has news of them.
    if (paths !== this.paths) this.resize();
    for (const [agent, path] of Object.entries(paths)) {
      let last = path.findIndex(([time]) => time > t) - 1;
      if (last < -1) last = path.length - 1;
      const [time, x, y] = path[Math.max(last, 0)], next = path[last + 1];
      const share = next && t > time ? (t - time) / (next[0] - time) : 0;
      this.x[agent] = this.toX(next ? x + share * (next[1] - x) : x);
      this.y[agent] = this.toY(next ? y + share * (next[2] - y) : y);
    }
    if (Object.keys(paths).length) this.drawUnder();
  }

  // The faults that hold at a time, and the links that they cut, as keys of pairs.
  readFaults(t) {
    this.going = this.run.faults.filter(({ begin, end }) => begin <= t && (end ?? Infinity) > t);
    const key = this.going.map(({ what, begin, links }) => (CUTS.has(what) ? `${begin} ${links.length}` : "")).join();
    if (key === this.cutKey) return;
    this.cutKey = key;
    this.cuts = new Set();
    for (const { what, links } of this.going) if (CUTS.has(what)) for (const [i, j] of links) this.cuts.add(this.pairKey(i, j));
    this.drawUnder();
  }

  // The straight line between the two sides of a partition with the widest margin, {ux, uy, at}; null: there is none.
  border(sides) {
    const middle = sides.map((side) => [this.x, this.y].map((list) => side.reduce((sum, i) => sum + list[i], 0) / side.length));
    const angle = Math.atan2(middle[0][1] - middle[1][1], middle[0][0] - middle[1][0]);
    let best = null;
    for (let turn = -60; turn <= 60; turn++) {
      const [ux, uy] = [Math.cos(angle + (turn * Math.PI) / 120), Math.sin(angle + (turn * Math.PI) / 120)], [low, high] = [sides[0].map((i) => this.x[i] * ux + this.y[i] * uy), sides[1].map((i) => this.x[i] * ux + this.y[i] * uy)];
      const margin = Math.min(...low) - Math.max(...high);
      if (margin > (best ? best.margin : 0)) best = { ux, uy, margin, at: Math.max(...high) + margin / 2 };
    }
    return best;
  }

  // The links, on a canvas of their own: they are drawn anew only if somebody moves, or links fail.
  drawUnder() {
    const { context, width, height } = this.underneath, { look, chosen, page } = this.run, { cuts = new Set(), u, going = [] } = this;
    context.clearRect(0, 0, width, height);
    const stroke = (list, colour, wide, dash) => {
      const ends = list.map(([i, j]) => [this.x[i], this.y[i], this.x[j], this.y[j]]);
      paint(context, (c) => lines(c, 1, ends), { stroke: colour, wide, dash });
    };
    const isCut = ([i, j]) => cuts.has(this.pairKey(i, j)), [cut, whole] = cuts.size ? [this.pairs.filter(isCut), this.pairs.filter((pair) => !isCut(pair))] : [[], this.pairs];
    if (!page.off.has("links")) stroke(whole, look.line, this.pairs.length > 1500 ? 0.4 : Math.max(0.07 * u, 1.3));
    stroke(cut, look.bandline, 0.09 * u, [0.2 * u, 0.35 * u]);
    if (chosen && chosen.event === undefined) {
      // A link that is cut stays dashed.
      const near = this.pairs.filter(([i, j]) => this.run.concerns(i, j)), thick = (chosen.link ? 0.28 : 0.14) * u;
      stroke(near.filter((pair) => !isCut(pair)), look.soft, thick);
      stroke(near.filter(isCut), look.bandline, 2 * thick, [0.2 * u, 0.35 * u]);
    }
    const sides = going.filter(({ sides: parts }) => parts && parts.length === 2 && parts.every((side) => side.length)).map((fault) => fault.sides);
    this.border_ = sides.length === 1 ? this.border(sides[0]) : null;
    if (this.border_) {
      const { ux, uy, at } = this.border_, [left, top, right, bottom] = this.box, far = Math.hypot(width, height), off = at - (ux * (left + right) + uy * (top + bottom)) / 2, [x, y] = [(left + right) / 2 + ux * off, (top + bottom) / 2 + uy * off];
      context.save();
      context.beginPath();
      context.rect(left, top, right - left, bottom - top);
      context.clip();
      paint(context, (c) => lines(c, far, [[-uy, ux, uy, -ux]], x, y), { stroke: look.accent, wide: 0.3 * u, dash: [0.9 * u, 0.55 * u] });
      context.restore();
    } else if (cut.length <= MOST_CUTS) for (const [i, j] of cut) look.drawMark(context, "boxed", look.bandline, (this.x[i] + this.x[j]) / 2, (this.y[i] + this.y[j]) / 2, 0.35 * u);
  }

  draw(t) {
    this.walk(t);
    this.readFaults(t);
    const { surface: { width, height }, context, run: { drawings, events, trail } } = this;
    // A run that goes on has longer logs.
    if (this.strips && drawings.rows.most !== this.most) this.resize();
    this.most = drawings.rows?.most;
    context.clearRect(0, 0, width, height);
    this.boxes = new Boxes();
    const rows = (this.rows = events.overlapping(t, t, events.until)), spread = rows.reduce((sum, row) => sum + (events.end[row] <= t), 0);
    drawings.drawEdges(context, this, t);
    if (trail) this.drawTrail(context, t);
    const drawn = this.drawFrames(context, t, rows);
    const { marks, shown } = this.drawMarks(context, t);
    this.drawAgents(context, t);
    this.drawLabels(context, t, rows);
    this.drawNotes(context, t);
    if (this.strips) drawings.drawStrips(context, this, t);
    return { shown: rows.length, underway: rows.length - spread, spread, drawn, marks, shownMarks: shown };
  }

  // What fails at the time shown, in words.
  failing() {
    const { run, going = [] } = this, list = [], strays = going.filter(isStray);
    if (strays.length > 3) list.push(`${strays.length} agents are slow, or their clocks wrong`);
    for (const fault of going) {
      if (strays.length > 3 && isStray(fault)) continue;
      if (fault.sides) list.push(run.captionOf(fault));
      else if (fault.what !== "Join") list.push(fault.text);
      else if (fault.agents.length) list.push(`${run.names(fault.agents)} joins`);
    }
    return list.length > 3 ? [...list.slice(0, 3), `and ${list.length - 3} more`] : list;
  }

  // Where a row's frame is, or was when it ended; lanes keep the two directions of a link apart. What a partition stopped
  // ends at its line.
  place(row, t) {
    const { start, depart, until: ends, sender, receiver, cause } = this.run.events, { look } = this.run;
    const i = sender[row], j = receiver[row], dx = this.x[j] - this.x[i], dy = this.y[j] - this.y[i], length = Math.hypot(dx, dy) || 1;
    // When one under way will end is not known yet: it flies as long as others did.
    const until = ends[row] < Infinity ? ends[row] : depart[row] + this.run.live.flight;
    const share = t >= until ? 1 : t < depart[row] || start[row] === until ? 0 : Math.min((t - depart[row]) / (until - depart[row] || 1), 1);
    const rim = Math.min(this.radius, length / 3), lane = Math.min(0.22 * this.radius, 0.35 * this.u), { border_: line } = this;
    let reach = look.reach[cause[row]];
    if (line && look.causes[cause[row]] === "link_down") {
      const [from, to] = [i, j].map((agent) => this.x[agent] * line.ux + this.y[agent] * line.uy);
      if ((from - line.at) * (to - line.at) < 0) reach = Math.min(Math.max(((line.at - from) / (to - from) * length - rim) / (length - 2 * rim), 0.05), 0.95);
    }
    const along = rim + (length - 2 * rim) * share * reach;
    this.atX = this.x[i] + (dx * along - dy * lane) / length;
    this.atY = this.y[i] + (dy * along + dx * lane) / length;
    // A third of the way behind it, for its tail.
    const back = Math.max(along - 0.3 * length, rim);
    this.tailX = this.x[i] + (dx * back - dy * lane) / length;
    this.tailY = this.y[i] + (dy * back + dx * lane) / length;
  }

  // The path of what is followed, as far as it has come.
  drawTrail(context, t) {
    const { events, look, trail } = this.run, { u } = this, gone = trail.list.filter((row) => events.depart[row] <= t);
    const way = gone.map((row) => {
      this.place(row, t);
      return [this.x[events.sender[row]], this.y[events.sender[row]], this.atX, this.atY];
    });
    Object.assign(context, { lineCap: "round", globalAlpha: 0.4 });
    paint(context, (c) => lines(c, 1, way), { stroke: look.accent, wide: 0.5 * u });
    Object.assign(context, { lineCap: "butt", globalAlpha: 1 });
  }

  // How strong a frame is drawn: what is not on the path that is followed is pale, and what flies in both runs alike.
  strength(row) {
    const { page, trail } = this.run;
    if (trail) return trail.rows.has(row) ? 1 : 0.2;
    return page.shown.length > 1 && page.isShared(this.run, row) ? 0.4 : 1;
  }

  drawFrames(context, t, rows) {
    const { events, look, drawings, page, live } = this.run, { depart, kind, reply, sender, number, receiver, until } = events, { u } = this;
    // One path for each look: by kind; a reply is hollow. What still waits is a pile at its sender, and a broadcast
    // that several hear on one medium a ring.
    const paths = new Map(), casts = new Map(), queued = new Set(), key = (row) => sender[row] * 2 ** 32 + number[row], quiet = page.off.has("routine");
    this.waiting = new Map();
    for (const row of rows) {
      if (!events.isCast[row] || t < depart[row]) continue;
      if (!casts.has(key(row))) casts.set(key(row), []);
      casts.get(key(row)).push(row);
    }
    for (const heard of casts.values()) {
      const [row] = heard, from = sender[row], end = until[row] < Infinity ? until[row] : depart[row] + live.flight;
      if (quiet) continue;
      const reach = Math.max(...heard.map((each) => Math.hypot(this.x[receiver[each]] - this.x[from], this.y[receiver[each]] - this.y[from])), this.radius + 4);
      drawings.drawRing(context, this, from, reach - this.radius, Math.min((t - depart[row]) / (end - depart[row] || 1), 1), look.kind(kind[row]).colour, this.strength(row));
    }
    const drawn = thinned(rows, MOST_DRAWN), tails = rows.length <= MOST_TAILS, many = rows.length > 1500 ? 0.16 : rows.length > 300 ? 0.22 : 0;
    for (const row of drawn) {
      if (t < depart[row]) {
        if (!queued.has(key(row))) this.waiting.set(sender[row], (this.waiting.get(sender[row]) || 0) + 1);
        queued.add(key(row));
        continue;
      }
      const { routine, colour } = look.kind(kind[row]);
      if (events.isCast[row] || (quiet && routine)) continue;
      this.place(row, t);
      const size = Math.min((many || (routine ? 0.36 : 0.62)) * u, 0.5 * this.radius), strong = this.strength(row);
      if (rows.length <= MOST_LABELLED) this.boxes.add([this.atX - size, this.atY - size, this.atX + size, this.atY + size]);
      if (tails) {
        const fade = context.createLinearGradient(this.tailX, this.tailY, this.atX, this.atY);
        fade.addColorStop(0, `${colour}00`);
        fade.addColorStop(1, `${colour}cc`);
        context.globalAlpha = strong;
        paint(context, (c) => lines(c, 1, [[this.tailX, this.tailY, this.atX, this.atY]]), { stroke: fade, wide: 0.7 * size });
      }
      const group = `${kind[row]} ${reply[row] ? 1 : 0} ${strong}`;
      if (!paths.has(group)) paths.set(group, { row, size, strong, places: [] });
      paths.get(group).places.push([this.atX, this.atY]);
    }
    for (const { row, size, strong, places } of paths.values()) {
      const { shape, colour } = look.kind(kind[row]), hollow = reply[row], rim = rows.length <= 1500 ? look.paper : "";
      const dots = (c) => places.forEach(([x, y]) => SHAPES[shape](c, x, y, size));
      context.globalAlpha = strong;
      paint(context, dots, hollow ? { fill: look.paper, stroke: colour, wide: 0.14 * u } : { fill: colour, stroke: rim, wide: 0.08 * u });
    }
    context.globalAlpha = 1;
    return drawn.length;
  }

  // What an agent is at t: its colours, its shape, and the words beside it.
  looksOf(agent, t, range = this.range) {
    const { run } = this, { look, states, drawings } = run, { shown, category } = states, words = states.badges(agent, t), down = run.downAt(agent, t);
    if (down) return { fill: look.paper, ink: look.ink, shape: "", words: DOWN_NOW[down.what] };
    const none = { fill: look.panel, ink: look.ink, shape: drawings.has("star", agent, t) ? "star" : "circle", words, pale: drawings.has("dim", agent, t) };
    const value = shown < 0 ? NaN : states.coloured(agent, t);
    if (category) {
      const word = states.text(shown, value);
      if (!word) return none;
      const { colour, shape } = look.role(category, word);
      return { ...none, fill: colour, ink: inkOn(colour), shape: none.shape === "star" ? "star" : shape, words: words ? `${word} · ${words}` : word };
    }
    const share = range ? states.share(value, range) : NaN;
    if (Number.isNaN(share)) return { ...none, dashed: states.isTree && states.isWatched(agent) };
    const fill = look.number(share), said = states.isShort(shown) ? `${states.names[shown]} ${short(value, 3)}` : "";
    return { ...none, fill, ink: inkOn(fill), words: [said, words].filter((text) => text).join(" · ") };
  }

  drawAgents(context, t) {
    const { run, radius, u, k } = this, { look, states, drawings, chosen, meta, page, trail, player } = run, ring = chosen && chosen.agent !== undefined ? chosen.agent : -1;
    this.range = states.shown < 0 ? null : states.range(states.momentary ? states.at(t) : null);
    const slow = new Set(this.going.filter(isStray).flatMap(({ agents }) => agents));
    const circle = (x, y, far, wide, stroke, dash) => paint(context, (c) => c.arc(x, y, far, 0, TURN), { stroke, wide, dash });
    this.looks = meta.agents.map((_, i) => {
      const looks = this.looksOf(i, t), x = this.x[i], y = this.y[i], far = radius * (looks.shape === "star" || looks.shape === "square" ? 1.1 : 1), strong = trail && !trail.agents.has(i) ? 0.3 : 1;
      context.globalAlpha = strong;
      if (page.shown.length > 1 && page.differs(meta.agents[i], t)) circle(x, y, 1.65 * radius, 0.28 * u, look.accent);
      // What colours it has just changed.
      const news = states.shown >= 0 && !states.momentary && (states.category || states.isTree) ? drawings.since(states.shown, i, t) : { from: 0 }, fresh = news.from > 0 ? player.fresh(news.from, NEW) : 0;
      if (fresh) {
        context.globalAlpha = strong * fresh;
        circle(x, y, radius * (1.3 + 1.1 * (1 - fresh)), 0.18 * u, look.accent);
        context.globalAlpha = strong;
      }
      if (looks.shape) drawings.drawBeside(context, this, i, t, (this.waiting && this.waiting.get(i)) || 0);
      const path = (c) => (SHAPES[looks.shape] || SHAPES.circle)(c, x, y, far);
      if (looks.pale || strong < 1) {
        context.globalAlpha = 1;
        paint(context, path, { fill: look.paper });
        looks.ink = look.ink;
        context.globalAlpha = looks.pale ? 0.4 * strong : strong;
      }
      paint(context, path, { fill: looks.fill, stroke: look.ink, wide: Math.max(0.1 * u, 1), dash: !looks.shape || looks.dashed ? [0.2 * u, 0.25 * u] : [] });
      context.globalAlpha = strong;
      if (!looks.shape) look.drawMark(context, "cross", look.accent, x, y, 1.05 * radius, 0.28 * u);
      if (slow.has(i)) circle(x, y, radius + 4 * k, 3 * k, look.bandline, [k, 4 * k]);
      if (i === ring) circle(x, y, radius + 6 * k, 3 * k, look.accent);
      if (this.named) this.boxes.add([x - radius - 2, y - radius - 2, x + radius + 2, y + radius + 2]);
      return looks;
    });
    context.globalAlpha = 1;
    if (this.named) this.drawNames(context);
  }

  // Names on the agents, or below them with what they are. Above all else: a name under a mark could not be read.
  drawNames(context) {
    const { look, meta } = this.run, { inside, u, looks } = this, { width } = this.surface;
    this.sides ||= this.findSides(context);
    looks.forEach(({ ink, words, shape }, i) => {
      const name = clipped(meta.agents[i], 14), side = this.sides[i], said = side.bare ? "" : clipped(words, 32), text = inside[i] ? said : `${name} ${said}`.trim();
      if (inside[i]) {
        context.font = this.font(this.nameSize, "650");
        context.textAlign = "center";
        context.textBaseline = "middle";
        look.write(context, name, this.x[i], this.y[i] + 0.05 * u, shape ? 0 : 0.3 * u, ink);
        context.textBaseline = "alphabetic";
      }
      if (!text) return;
      context.font = this.font(1.05);
      const { x, y, align } = side, wide = context.measureText(text).width, left = align === "center" ? x - wide / 2 : align === "left" ? x : x - wide;
      const shift = Math.max(2 - left, 0) + Math.min(width - 2 - left - wide, 0);
      context.textAlign = align;
      look.write(context, text, x + shift, y, 0.32 * u);
      this.boxes.add([left + shift - 2, y - 1.05 * u, left + shift + wide + 2, y + 0.25 * u]);
    });
  }

  // On which side of each agent its words have room: below, above, right or left of it.
  findSides(context) {
    const { meta, states, drawings } = this.run, { radius, inside, u, box: [boxLeft, , boxRight, boxBottom] } = this, high = 1.05 * u, boxes = new Boxes(), far = radius * (drawings.all("arc").length ? 1.45 : 1.1) + 0.4 * u;
    for (let i = 0; i < this.x.length; i++) boxes.add([this.x[i] - radius, this.y[i] - radius, this.x[i] + radius, this.y[i] + radius]);
    context.font = this.font(1.05);
    const { category } = states, words = category ? states.list[states.shown].words.slice(0, 50) : states.isShort(states.shown) ? [`${states.names[states.shown]} 0000`] : [""];
    const badges = drawings.all("badge").map((i) => (states.list[i].words ? " · mmmm" : ` · ${states.names[i]} 00`)).join("");
    const widest = Math.min(Math.max(...words.map((word) => context.measureText(`${clipped(word, 20)}${badges}`).width)), 14 * u);
    return Array.from(this.x, (x, i) => {
      const y = this.y[i], wide = widest + (inside[i] ? 0 : context.measureText(`${clipped(meta.agents[i], 14)} `).width);
      const middle = Math.min(Math.max(x - wide / 2, 2), Math.max(boxRight + u - wide, 2)), places = [[middle, y + far, "center"], [middle, y - far - high - 2, "center"], [x + far, y - high / 2, "left"], [x - far - wide, y - high / 2, "right"]];
      const place = places.find(([left, top]) => left > 0 && left + wide < Math.max(boxRight, boxLeft + wide + 2) + 1.5 * u && top > 0 && top + high < boxBottom + u && boxes.free([left, top, left + wide, top + high]));
      // Without room only a name stands there: words are at the pointer, too.
      if (!place) return { x, y: y + far + 0.86 * high, align: "center", bare: true };
      const [left, top, align] = place;
      boxes.add([left, top, left + wide, top + high]);
      return { x: align === "center" ? left + wide / 2 : align === "left" ? left : left + wide, y: top + 0.86 * high, align };
    });
  }

  // A text near a point, where there is room: right of it, left, above or below.
  label(context, text, x, y, away, colour) {
    const high = 1.05 * this.u, wide = context.measureText(text).width;
    const places = [[x + away, y], [x - away - wide, y], [x - wide / 2, y - away - 0.5 * high], [x - wide / 2, y + away + 0.5 * high]];
    const place = places.find(([left, at]) => left > 0 && left + wide < this.surface.width && this.boxes.free([left, at - 0.6 * high, left + wide, at + 0.6 * high]));
    if (!place) return;
    const [left, at] = place;
    this.boxes.add([left, at - 0.6 * high, left + wide, at + 0.6 * high]);
    context.textAlign = "left";
    this.run.look.write(context, text, left, at + 0.36 * high, 0.3 * this.u, colour);
  }

  // Why frames were lost, and what others are, beside them, where there is room: what is routine only if little else flies.
  drawLabels(context, t, rows) {
    const { look, events } = this.run, { said } = this;
    context.font = this.font(1.05);
    if (said.size <= 3) for (const [why, [x, y, strong]] of said) {
      context.globalAlpha = strong;
      this.label(context, look.cause(why).words, x, y, 0.9 * this.u, look.colours[why]);
    }
    context.globalAlpha = 1;
    if (rows.length > MOST_LABELLED) return;
    context.font = this.font(1.05, "500");
    for (const row of rows) {
      const text = clipped(this.run.title(row), 24), { routine, colour } = look.kind(events.kind[row]);
      if (!text || t < events.depart[row] || events.isCast[row] || (routine && rows.length > 6) || this.strength(row) < 1) continue;
      this.place(row, t);
      this.label(context, text, this.atX, this.atY, 0.8 * this.u, colour);
    }
  }

  // Agents' notes, above them for a while.
  drawNotes(context, t) {
    const { look, meta, player } = this.run, { times = [], agents = [], texts = [] } = meta.marks || {}, { u, radius } = this, { width, height } = this.surface, latest = new Map();
    for (let i = countUpTo(times, t) - 1; i >= 0 && player.fresh(times[i], NOTED) && latest.size < 30; i--) if (!latest.has(agents[i])) latest.set(agents[i], texts[i]);
    context.font = this.font(1.05, "italic 500");
    for (const [agent, text] of latest) {
      const shown = `“${clipped(text, 40)}”`, wide = context.measureText(shown).width + 0.8 * u, high = 1.6 * u;
      const left = Math.min(Math.max(this.x[agent] - wide / 2, 4), Math.max(width - wide - 4, 4)), above = this.y[agent] - 1.4 * radius - high;
      const top = [above, this.y[agent] + 1.4 * radius + 1.3 * u].find((each) => each > 2 * u && each + high < height - 3 * u && this.boxes.free([left, each, left + wide, each + high])) ?? above;
      this.boxes.add([left, top, left + wide, top + high]);
      paint(context, (c) => c.roundRect(left, top, wide, high, 0.3 * u), { fill: look.paper, stroke: look.ink, wide: 0.09 * u, dash: [2, 2] });
      context.textAlign = "left";
      look.write(context, shown, left + 0.4 * u, top + 0.7 * high, 0);
    }
  }

  // Frames that did not arrive, for a moment, fading; of each cause one says why.
  drawMarks(context, t) {
    const { events, look, player } = this.run, { order, ends, cause } = events, { u } = this, said = new Map();
    let shown = 0, marks = 0;
    for (let i = countUpTo(ends, t) - 1; i >= 0; i--) {
      const row = order[i], fresh = player.fresh(ends[i], LOST);
      if (!fresh) break;
      if (cause[row] === 0 || look.causes[cause[row]] === "in_flight" || events.isCast[row] || !events.keeps(row)) continue;
      marks++;
      if (shown >= MOST_MARKS) continue;
      shown++;
      context.globalAlpha = Math.min(1, 2 * fresh) * this.strength(row);
      this.place(row, t);
      look.mark(context, cause[row], this.atX, this.atY, (shown > 400 ? 0.3 : 0.5) * u);
      if (!said.has(cause[row])) said.set(cause[row], [this.atX, this.atY, context.globalAlpha]);
    }
    context.globalAlpha = 1;
    this.said = said;
    return { marks, shown };
  }

  // The frame at a point; -1 for none.
  frameAt(x, y) {
    const rows = this.rows || [], { events, player } = this.run;
    let best = 0.8 * this.u, found = -1;
    for (const row of rows.length <= 2000 ? rows : []) {
      if (events.isCast[row]) continue;
      this.place(row, player.time);
      const away = Math.hypot(this.atX - x, this.atY - y);
      if (away < best) [best, found] = [away, row];
    }
    return found;
  }

  // What can be followed at a point, [its text, its frames]: the label of a frame, a frame without one, an entry of a log.
  thingAt(x, y) {
    const { run, strips, u } = this, { events, meta } = run, row = this.frameAt(x, y), label = row < 0 ? "" : (meta.labels || [])[events.label[row]];
    if (row >= 0) return label ? [label] : [run.title(row) || meta.kinds[events.kind[row]], [...events.sentBy(events.sender[row])].filter((each) => events.number[each] === events.number[row])];
    if (!strips) return null;
    const { index, agents } = run.drawings.rows, agent = agents[Math.floor((y - strips.top) / strips.pitch) - 1], cell = Math.floor((x - strips.left - 2.6 * u) / strips.cell);
    if (agent === undefined) return null;
    const { cells } = run.drawings.cells(index, run.drawings.since(index, agent, run.player.time).value);
    return cells[cell] && run.carrying(cells[cell].text).length ? [cells[cell].text] : null;
  }

  // What is under the pointer, in words: a frame, or an agent.
  hover(x, y) {
    const { run } = this, found = this.frameAt(x, y), target = found < 0 ? this.pick(x, y) : null;
    this.canvas.style.cursor = target || found >= 0 ? "pointer" : "";
    this.tip.show(found >= 0 ? `${run.sentence(found)}\nA click follows it.` : target && target.agent !== undefined ? this.tell(target.agent, run.player.time) : "", x, y);
  }

  tell(agent, t) {
    const { run } = this, { states } = run, said = states.names.map((name, i) => `${name}: ${states.text(i, states.of(i, agent, t)) || "–"}`), down = run.downAt(agent, t);
    return [`Agent ${clipped(run.meta.agents[agent], 40)}${down ? `, ${DOWN_NOW[down.what]}` : ""}`, ...said].join("\n");
  }

  // The agent or else the link at a point.
  pick(x, y) {
    let best = this.radius + 8, found = null;
    for (let i = 0; i < this.x.length; i++) {
      const away = Math.hypot(x - this.x[i], y - this.y[i]);
      if (away < best) [best, found] = [away, { agent: i }];
    }
    if (found) return found;
    best = 9;
    for (const [i, j] of this.pairs) {
      const dx = this.x[j] - this.x[i], dy = this.y[j] - this.y[i];
      const share = ((x - this.x[i]) * dx + (y - this.y[i]) * dy) / (dx * dx + dy * dy || 1);
      if (share < 0 || share > 1) continue;
      const away = Math.hypot(x - this.x[i] - share * dx, y - this.y[i] - share * dy);
      if (away < best) [best, found] = [away, { link: [i, j] }];
    }
    return found;
  }
}
