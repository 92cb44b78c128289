// The map: agents at their places, frames flying along the links between them; what fails, what is noted, what is labelled.

const MOST_DRAWN = 6000, MOST_MARKS = 1500;
// Agents up to which they have names, and are pushed apart; frames up to which they have labels; cut links with a mark.
const MOST_NAMED = 60, MOST_PUSHED = 400, MOST_LABELLED = 24, MOST_CUTS = 80;
// Faults that cut links while they last.
const CUTS = new Set(["LinkDown", "Partition", "SetLink"]);

class MapView {
  constructor(page, under, canvas) {
    Object.assign(this, { page, under, canvas });
    const seen = new Set();
    this.pairs = page.meta.links.filter(([i, j]) => {
      const key = Math.min(i, j) * page.meta.agents.length + Math.max(i, j);
      return i !== j && !seen.has(key) && seen.add(key);
    });
    this.tip = element("div", "", { class: "tip", "aria-hidden": "true" });
    this.tip.hidden = true;
    canvas.after(this.tip);
    canvas.addEventListener("pointermove", (event) => this.hover(event.offsetX, event.offsetY));
    canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    this.resize();
  }

  resize() {
    const { positions, paths } = this.page.meta;
    this.paths = paths;
    const everywhere = [...positions, ...Object.values(paths).flatMap((path) => path.map(([, x, y]) => [x, y]))];
    this.surface = fitted(this.canvas);
    this.underneath = fitted(this.under);
    const { height } = this.surface, rows = this.page.drawings.rows;
    const width = (this.width = this.surface.width - this.reserve(rows));
    const ends = (k) => everywhere.reduce(([low, high], p) => [Math.min(low, p[k]), Math.max(high, p[k])], [Infinity, -Infinity]);
    const [left, right] = ends(0), [bottom, top] = ends(1);
    const k = (this.k = this.page.look.scale);
    this.radius = Math.max(4, Math.min(19 * Math.sqrt(k), 0.2 * Math.sqrt((width * height) / Math.max(positions.length, 6))));
    const room = Math.min(this.radius + 24 * k, 0.16 * Math.min(width, height));
    // The clock has the uppermost part for itself.
    const clock = 34 * k, middle = (height + clock) / 2;
    const scale = Math.min((width - 2 * room) / (right - left || 1e-300), (height - clock - 2 * room) / (top - bottom || 1e-300));
    const finite = Number.isFinite(scale) && (right > left || top > bottom) ? scale : 0;
    this.toX = (x) => width / 2 + (x - (left + right) / 2) * finite;
    this.toY = (y) => middle - (y - (bottom + top) / 2) * finite;
    this.x = Float64Array.from(positions, ([x]) => this.toX(x));
    this.y = Float64Array.from(positions, ([, y]) => this.toY(y));
    if (positions.length <= MOST_PUSHED && !Object.keys(paths).length) this.push(room, clock);
    this.context = this.surface.context;
    this.named = positions.length <= MOST_NAMED;
    this.context.font = this.nameFont;
    const wide = this.page.meta.agents.slice(0, MOST_NAMED + 1).map((name) => this.context.measureText(clipped(name, 14)).width);
    this.inside = this.named && this.radius > 9 && wide.every((each) => each < 1.7 * this.radius);
    this.sides = null;
    this.drawUnder();
  }

  // The room of agents' logs: a table at the right, or below.
  reserve(rows) {
    const { width, height } = this.surface, { scale: k } = this.page.look;
    this.strips = null;
    if (!rows || !rows.agents.length) return 0;
    const wide = Math.min(0.46 * width, (30 + 52 * rows.most) * k);
    this.strips = [width - wide - 8 * k, 34 * k, width - 8 * k, height - 8 * k];
    return wide + 8 * k;
  }

  get nameFont() {
    return `600 ${Math.max(11 * this.k, Math.min(14 * this.k, 0.8 * this.radius))}px system-ui, sans-serif`;
  }

  // Agents that would hide one another are pushed apart; those at one place by their numbers.
  push(room, clock) {
    const { x, y, radius, width } = this, { height } = this.surface, gap = 2.3 * radius, count = x.length;
    for (let turn = 0, close = true; close && turn < 60; turn++) {
      const oldX = x.slice(), oldY = y.slice();
      close = false;
      for (let i = 0; i < count; i++) {
        for (let j = 0; j < count; j++) {
          if (i === j) continue;
          const dx = oldX[i] - oldX[j], dy = oldY[i] - oldY[j], far = Math.hypot(dx, dy);
          if (far >= gap) continue;
          close = true;
          const [awayX, awayY] = far > 1e-9 ? [dx / far, dy / far] : [Math.cos(2.4 * i), Math.sin(2.4 * i)];
          x[i] += 0.5 * (gap - far) * awayX;
          y[i] += 0.5 * (gap - far) * awayY;
        }
      }
      for (let i = 0; i < count; i++) {
        x[i] = Math.min(Math.max(x[i], room), Math.max(width - room, room));
        y[i] = Math.min(Math.max(y[i], clock + room), Math.max(height - room, clock + room));
      }
    }
  }

  // Those that move are on the straight line between two points of their paths, each (time, x, y).
  walk(t) {
    const { paths } = this.page.meta;
    // A run that goes on has news of them.
    if (paths !== this.paths) this.resize();
    for (const [agent, path] of Object.entries(paths)) {
      let last = 0, high = path.length - 1;
      while (last < high) {
        const middle = (last + high + 1) >> 1;
        if (path[middle][0] <= t) last = middle;
        else high = middle - 1;
      }
      const [time, x, y] = path[last], next = path[last + 1];
      const share = next && t > time ? (t - time) / (next[0] - time) : 0;
      this.x[agent] = this.toX(next ? x + share * (next[1] - x) : x);
      this.y[agent] = this.toY(next ? y + share * (next[2] - y) : y);
    }
    if (Object.keys(paths).length) this.drawUnder();
  }

  // The faults that hold at a time, and the links that they cut, as keys of pairs.
  readFaults(t) {
    const { spacetime } = this.page.views;
    if (!spacetime) return (this.going = []);
    spacetime.readFaults();
    this.going = spacetime.faults.filter(({ begin, end }) => begin <= t && (end ?? Infinity) > t);
    const key = this.going.map(({ what, begin, links }) => (CUTS.has(what) ? `${begin} ${links.length}` : "")).join();
    if (key === this.cutKey) return;
    this.cutKey = key;
    this.cuts = new Set();
    for (const { what, links } of this.going) if (CUTS.has(what)) for (const [i, j] of links) this.cuts.add(this.pairKey(i, j));
    this.drawUnder();
  }

  pairKey(i, j) {
    return Math.min(i, j) * this.page.meta.agents.length + Math.max(i, j);
  }

  // The links, on a canvas of their own: they are drawn anew only if somebody moves, or links fail.
  drawUnder() {
    const { context, width, height } = this.underneath, { look, chosen } = this.page, { cuts = new Set() } = this;
    context.clearRect(0, 0, width, height);
    const stroke = (list, colour, thick, dash = []) => {
      context.beginPath();
      for (const [i, j] of list) {
        context.moveTo(this.x[i], this.y[i]);
        context.lineTo(this.x[j], this.y[j]);
      }
      context.strokeStyle = colour;
      context.lineWidth = thick;
      context.setLineDash(dash);
      context.stroke();
      context.setLineDash([]);
    };
    const cut = cuts.size ? this.pairs.filter(([i, j]) => cuts.has(this.pairKey(i, j))) : [];
    stroke(cut.length ? this.pairs.filter(([i, j]) => !cuts.has(this.pairKey(i, j))) : this.pairs, look.line, this.pairs.length > 1500 ? 0.4 : 1.3);
    stroke(cut, look.bandline, 1.5, [3, 5]);
    if (chosen && chosen.event === undefined) {
      // A link that is cut stays dashed.
      const near = this.pairs.filter(([i, j]) => this.page.concerns(i, j)), thick = chosen.link ? 4 : 2;
      stroke(near.filter(([i, j]) => !cuts.has(this.pairKey(i, j))), look.soft, thick);
      stroke(near.filter(([i, j]) => cuts.has(this.pairKey(i, j))), look.bandline, 2 * thick, [3, 5]);
    }
    if (cut.length <= MOST_CUTS) for (const [i, j] of cut) look.drawMark(context, "boxed", look.bandline, (this.x[i] + this.x[j]) / 2, (this.y[i] + this.y[j]) / 2, 4.5 * Math.sqrt(this.k));
  }

  draw(t) {
    this.walk(t);
    this.readFaults(t);
    const { context, width, height } = this.surface, { drawings } = this.page;
    // A run that goes on has longer logs.
    if (this.strips ? drawings.rows.most !== this.most : drawings.rows?.agents.length) this.resize();
    this.most = drawings.rows?.most;
    context.clearRect(0, 0, width, height);
    this.boxes = new Boxes();
    const { events } = this.page, rows = (this.rows = events.overlapping(t, t, events.until)), spread = rows.reduce((sum, row) => sum + (events.end[row] <= t), 0);
    drawings.drawEdges(context, this, t);
    const drawn = this.drawFrames(context, t, rows);
    const { marks, shown } = this.drawMarks(context, t);
    this.drawAgents(context, t);
    if (rows.length <= MOST_LABELLED) this.drawLabels(context, t, rows);
    this.drawNotes(context, t);
    if (this.strips) drawings.drawStrips(context, { box: this.strips, k: this.k }, t);
    return { shown: rows.length, underway: rows.length - spread, spread, drawn, marks, shownMarks: shown };
  }

  // What fails at the time shown, in words.
  failing() {
    const { spacetime } = this.page.views, { agents } = this.page.meta, list = [];
    for (const fault of this.going || []) {
      if (fault.sides) list.push(spacetime.captionOf(fault));
      else if (fault.what !== "Join") list.push(fault.text);
      else if (fault.agents.length) list.push(`${fault.agents.map((i) => clipped(agents[i], 12)).join(", ")} joins`);
    }
    return list.length > 3 ? [...list.slice(0, 3), `and ${list.length - 3} more`] : list;
  }

  // Where a row's frame is, or was when it ended; lanes keep the two directions of a link apart.
  place(row, t) {
    const { start, depart, until: ends, sender, receiver, cause } = this.page.events;
    const i = sender[row], j = receiver[row];
    const dx = this.x[j] - this.x[i], dy = this.y[j] - this.y[i], length = Math.hypot(dx, dy) || 1;
    // When one under way will end is not known yet: it flies as long as others did.
    const until = ends[row] < Infinity ? ends[row] : depart[row] + this.page.live.flight;
    const share = t < depart[row] || start[row] === until ? 0 : Math.min((t - depart[row]) / (until - depart[row] || 1), 1);
    const way = t >= until ? this.page.look.reach[cause[row]] : share * this.page.look.reach[cause[row]];
    const rim = Math.min(this.radius, length / 3), along = rim + (length - 2 * rim) * way, lane = Math.min(5, this.radius * 0.5);
    this.atX = this.x[i] + (dx * along - dy * lane) / length;
    this.atY = this.y[i] + (dy * along + dx * lane) / length;
  }

  drawFrames(context, t, rows) {
    const { events, look, meta } = this.page, { depart, kind, reply } = events;
    // One path for each look: by kind; a reply is hollow. What still waits is a pile at its sender, and a broadcast
    // that several hear on one medium a ring.
    const paths = new Map(), casts = new Map(), queued = new Set(), { sender, number, receiver } = events, key = (row) => `${sender[row]} ${number[row]}`;
    this.waiting = new Map();
    for (const row of meta.medium === "shared" ? rows : []) {
      if (t < depart[row]) continue;
      if (!casts.has(key(row))) casts.set(key(row), []);
      casts.get(key(row)).push(row);
    }
    for (const heard of casts.values()) {
      if (heard.length < 2) continue;
      const [row] = heard, from = sender[row], until = events.until[row] < Infinity ? events.until[row] : depart[row] + this.page.live.flight;
      const reach = Math.max(...heard.map((each) => Math.hypot(this.x[receiver[each]] - this.x[from], this.y[receiver[each]] - this.y[from]))) - this.radius;
      this.page.drawings.drawRing(context, this, from, Math.max(reach, 4), Math.min((t - depart[row]) / (until - depart[row] || 1), 1), look.kind(kind[row]).colour);
    }
    const size = (rows.length > 1500 ? 2.2 : rows.length > 300 ? 3 : 5) * Math.sqrt(this.k);
    const drawn = thinned(rows, MOST_DRAWN);
    for (const row of drawn) {
      if (t < depart[row]) {
        if (!queued.has(key(row))) this.waiting.set(sender[row], (this.waiting.get(sender[row]) || 0) + 1);
        queued.add(key(row));
        continue;
      }
      if ((casts.get(key(row)) || []).length > 1) continue;
      this.place(row, t);
      if (rows.length <= MOST_LABELLED) this.boxes.add([this.atX - size, this.atY - size, this.atX + size, this.atY + size]);
      const group = kind[row] * 2 + (reply[row] ? 1 : 0);
      if (!paths.has(group)) paths.set(group, []);
      paths.get(group).push(this.atX, this.atY);
    }
    for (const [group, places] of paths) {
      const { shape, colour } = look.kind(group >> 1), dot = SHAPES[shape];
      context.beginPath();
      for (let i = 0; i < places.length; i += 2) dot(context, places[i], places[i + 1], size);
      context.fillStyle = group & 1 ? look.paper : colour;
      context.strokeStyle = group & 1 ? colour : look.paper;
      context.lineWidth = group & 1 ? 1.6 : 1;
      if (rows.length <= 1500 || group & 1) context.stroke();
      context.fill();
    }
    return drawn.length;
  }

  // What an agent is at t: its colours, its shape, and the words beside it.
  looksOf(agent, t, range = this.range) {
    const { look, states, views, drawings } = this.page, { shown, category } = states, words = states.badges(agent, t);
    if (views.spacetime.downAt(agent, t)) return { fill: look.paper, ink: look.ink, shape: "", words: this.down(agent, t) };
    const none = { fill: look.panel, ink: look.ink, shape: drawings.has("star", agent, t) ? "star" : "circle", words, pale: drawings.has("dim", agent, t) };
    const value = shown < 0 ? NaN : states.coloured(agent, t);
    if (category) {
      const word = states.text(shown, value);
      if (!word) return none;
      const { colour, shape } = look.role(category, word);
      return { ...none, fill: colour, ink: inkOn(colour), shape: none.shape === "star" ? "star" : shape, words: words ? `${word} · ${words}` : word };
    }
    const share = range ? states.share(value, range) : NaN;
    if (Number.isNaN(share)) return { ...none, dashed: states.isTree };
    const fill = look.number(share), said = states.isShort(shown) ? `${states.names[shown]} ${short(value, 3)}` : "";
    return { ...none, fill, ink: inkOn(fill), words: [said, words].filter((text) => text).join(" · ") };
  }

  // What became of an agent that is down.
  down(agent, t) {
    const { what } = this.page.views.spacetime.downAt(agent, t);
    return { Crash: "down", Leave: "has left", Join: "not there yet", Empty: "battery empty" }[what];
  }

  drawAgents(context, t) {
    const { look, states, chosen, meta } = this.page, { radius, k } = this, count = meta.agents.length;
    this.range = states.shown < 0 ? null : states.range(states.momentary ? states.at(t) : null);
    const { drawings } = this.page, ring = chosen && chosen.agent !== undefined ? chosen.agent : -1;
    const drawn = [];
    const slow = new Map(), strays = this.going.filter(({ what, links, agents, sides }) => !DOWNS.has(what) && !links.length && !sides && agents.length);
    for (const fault of strays) for (const agent of fault.agents) slow.set(agent, fault);
    for (let i = 0; i < count; i++) {
      const looks = this.looksOf(i, t), x = this.x[i], y = this.y[i];
      drawn.push(looks);
      if (looks.shape) drawings.drawBeside(context, this, i, t, (this.waiting && this.waiting.get(i)) || 0);
      if (looks.pale) {
        context.beginPath();
        SHAPES[looks.shape](context, x, y, radius);
        context.fillStyle = look.paper;
        context.fill();
        looks.ink = look.ink;
        context.globalAlpha = 0.4;
      }
      context.beginPath();
      context.fillStyle = looks.fill;
      context.strokeStyle = look.ink;
      context.lineWidth = 1.5;
      if (looks.shape && looks.shape !== "circle") SHAPES[looks.shape](context, x, y, radius);
      else context.arc(x, y, radius, 0, TURN);
      if (!looks.shape || looks.dashed) context.setLineDash([2, 4]);
      context.fill();
      context.stroke();
      context.setLineDash([]);
      context.globalAlpha = 1;
      if (!looks.shape) look.drawMark(context, "cross", look.ink, x + 0.75 * radius, y - 0.75 * radius, Math.max(4, 0.4 * radius));
      if (slow.has(i)) {
        context.beginPath();
        context.arc(x, y, radius + 4, 0, TURN);
        context.setLineDash([1, 4]);
        context.lineWidth = 3;
        context.strokeStyle = look.bandline;
        context.stroke();
        context.setLineDash([]);
      }
      if (i === ring) {
        context.beginPath();
        context.arc(x, y, radius + 6, 0, TURN);
        context.lineWidth = 3;
        context.strokeStyle = look.accent;
        context.stroke();
      }
      if (this.named) this.boxes.add([x - radius - 2, y - radius - 2, x + radius + 2, y + radius + 2]);
    }
    if (this.named) this.drawNames(context, drawn);
    this.looks = drawn;
  }

  // Names on the agents, or below them with what they are. Above all else: a name under a mark could not be read.
  drawNames(context, drawn) {
    const { look, meta } = this.page, { k, inside, radius } = this, high = 12 * k;
    this.sides ||= this.findSides(context);
    drawn.forEach(({ ink, words }, i) => {
      const name = clipped(meta.agents[i], 14), side = this.sides[i], said = side.bare ? "" : clipped(words, 32), text = inside ? said : `${name} ${said}`.trim();
      if (inside) {
        context.font = this.nameFont;
        context.textAlign = "center";
        context.textBaseline = "middle";
        context.fillStyle = ink;
        context.fillText(name, this.x[i], this.y[i] + 1);
        context.textBaseline = "alphabetic";
      }
      if (!text) return;
      context.font = `600 ${high}px system-ui, sans-serif`;
      const { x, y, align } = side, wide = context.measureText(text).width, left = align === "center" ? x - wide / 2 : align === "left" ? x : x - wide;
      const shift = Math.max(2 - left, 0) + Math.min(this.width - 2 - left - wide, 0);
      context.textAlign = align;
      look.write(context, text, x + shift, y, 4);
      this.boxes.add([left + shift - 2, y - high, left + shift + wide + 2, y + 3]);
    });
  }

  // On which side of each agent its words have room: below, above, right or left of it.
  findSides(context) {
    const { meta, states } = this.page, { radius, k, inside } = this, high = 12 * k, boxes = new Boxes(), far = radius + 4 * k;
    for (let i = 0; i < this.x.length; i++) boxes.add([this.x[i] - radius, this.y[i] - radius, this.x[i] + radius, this.y[i] + radius]);
    context.font = `600 ${high}px system-ui, sans-serif`;
    const { category } = states, words = category ? states.list[states.shown].words.slice(0, 50) : states.isShort(states.shown) ? [`${states.names[states.shown]} 0000`] : [""];
    const badges = this.page.drawings.all("badge").map((i) => (states.list[i].words ? " · mmmm" : ` · ${states.names[i]} 00`)).join("");
    const widest = Math.min(Math.max(...words.map((word) => context.measureText(`${clipped(word, 20)}${badges}`).width)), 200 * k);
    return Array.from(this.x, (x, i) => {
      const y = this.y[i], wide = widest + (inside ? 0 : context.measureText(`${clipped(meta.agents[i], 14)} `).width);
      const places = [[x - wide / 2, y + far, "center"], [x - wide / 2, y - far - high - 2, "center"], [x + far, y - high / 2, "left"], [x - far - wide, y - high / 2, "right"]];
      const place = places.find(([left, top]) => left > 0 && left + wide < this.width && top > 0 && top + high < this.surface.height && boxes.free([left, top, left + wide, top + high]));
      // Without room only a name stands there: words are at the pointer, too.
      if (!place) return { x, y: y + far + 0.86 * high, align: "center", bare: true };
      const [left, top, align] = place;
      boxes.add([left, top, left + wide, top + high]);
      return { x: align === "center" ? x : align === "left" ? left : left + wide, y: top + 0.86 * high, align };
    });
  }

  // What frames under way are, beside them, where there is room.
  drawLabels(context, t, rows) {
    const { look, events, views } = this.page, high = 11 * this.k;
    context.font = `${high}px system-ui, sans-serif`;
    context.textAlign = "left";
    for (const row of rows) {
      const text = clipped(views.spacetime.title(row), 24);
      if (!text) continue;
      this.place(row, t);
      const wide = context.measureText(text).width, [x, y] = [this.atX, this.atY], away = 8 * this.k;
      const places = [[x + away, y], [x - away - wide, y], [x - wide / 2, y - 1.4 * high], [x - wide / 2, y + 1.4 * high]];
      const place = places.find(([left, at]) => left > 0 && left + wide < this.surface.width && this.boxes.free([left, at - 0.6 * high, left + wide, at + 0.6 * high]));
      if (!place) continue;
      const [left, at] = place;
      this.boxes.add([left, at - 0.6 * high, left + wide, at + 0.6 * high]);
      look.write(context, text, left, at + 0.36 * high, 3, look.kind(events.kind[row]).colour);
    }
  }

  // Agents' notes, above them for a while.
  drawNotes(context, t) {
    const { look, meta, player } = this.page, { times = [], agents = [], texts = [] } = meta.marks || {}, { k, radius } = this, { width } = this.surface;
    const hold = player.speed * 2.5, latest = new Map();
    for (let i = countUpTo(times, t) - 1; i >= 0 && times[i] > t - hold && latest.size < 30; i--) if (!latest.has(agents[i])) latest.set(agents[i], texts[i]);
    context.font = `italic ${11 * k}px system-ui, sans-serif`;
    for (const [agent, text] of latest) {
      const shown = `“${clipped(text, 40)}”`, wide = context.measureText(shown).width + 10 * k, high = 17 * k;
      const left = Math.min(Math.max(this.x[agent] - wide / 2, 4), Math.max(width - wide - 4, 4));
      const top = [this.y[agent] - radius - high - 5, this.y[agent] + radius + 18 * k].find((each) => each > 30 * k && each + high < this.surface.height && this.boxes.free([left, each, left + wide, each + high])) ?? this.y[agent] - radius - high - 5;
      this.boxes.add([left, top, left + wide, top + high]);
      context.beginPath();
      context.roundRect(left, top, wide, high, 4 * k);
      context.fillStyle = look.paper;
      context.fill();
      context.strokeStyle = look.ink;
      context.lineWidth = 1.2;
      context.setLineDash([2, 2]);
      context.stroke();
      context.setLineDash([]);
      context.textAlign = "left";
      context.fillStyle = look.ink;
      context.fillText(shown, left + 5 * k, top + 0.72 * high);
    }
  }

  // What is under the pointer, in words: a frame, or an agent.
  hover(x, y) {
    const { tip, page } = this, { spacetime } = page.views, t = page.player.time, rows = this.rows || [];
    let best = 9, found = -1;
    if (rows.length <= 2000) {
      for (const row of rows) {
        this.place(row, t);
        const away = Math.hypot(this.atX - x, this.atY - y);
        if (away < best) [best, found] = [away, row];
      }
    }
    const target = found < 0 ? this.pick(x, y) : null;
    this.canvas.style.cursor = target ? "pointer" : "";
    tip.hidden = found < 0 && !(target && target.agent !== undefined);
    if (tip.hidden) return;
    setText(tip, found >= 0 ? spacetime.sentence(found) : this.tell(target.agent, t));
    tip.style.left = `${Math.max(4, Math.min(x + 14, this.surface.width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${y + 18 + tip.offsetHeight > this.surface.height ? Math.max(y - tip.offsetHeight - 8, 0) : y + 18}px`;
  }

  tell(agent, t) {
    const { states, meta, views } = this.page, said = states.names.map((name, i) => `${name}: ${states.text(i, states.of(i, agent, t)) || "–"}`);
    return [`Agent ${clipped(meta.agents[agent], 40)}${views.spacetime.downAt(agent, t) ? `, ${this.down(agent, t)}` : ""}`, ...said].join("\n");
  }

  // Frames that did not arrive, for a moment, fading.
  drawMarks(context, t) {
    const { events, look, player } = this.page, { order, ends, cause } = events;
    const hold = player.speed * 0.9, first = countUpTo(ends, t - hold), last = countUpTo(ends, t);
    let shown = 0, marks = 0;
    for (let i = last - 1; i >= first; i--) {
      const row = order[i];
      if (cause[row] === 0 || look.causes[cause[row]] === "in_flight" || !events.keeps(row)) continue;
      marks++;
      if (shown >= MOST_MARKS) continue;
      shown++;
      context.globalAlpha = Math.max(0.15, Math.min(1, 1.3 - (t - ends[i]) / hold));
      this.place(row, t);
      look.mark(context, cause[row], this.atX, this.atY, (shown > 400 ? 4 : 6) * Math.sqrt(this.k));
    }
    context.globalAlpha = 1;
    return { marks, shown };
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
