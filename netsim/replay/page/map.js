// The map: agents at their places, frames flying along the links between them.

const MOST_DRAWN = 6000, MOST_MARKS = 1500;

class MapView {
  constructor(page, under, canvas) {
    Object.assign(this, { page, under, canvas });
    const seen = new Set();
    this.pairs = page.meta.links.filter(([i, j]) => {
      const key = Math.min(i, j) * page.meta.agents.length + Math.max(i, j);
      return i !== j && !seen.has(key) && seen.add(key);
    });
    this.resize();
  }

  resize() {
    const { positions, paths } = this.page.meta;
    this.paths = paths;
    const everywhere = [...positions, ...Object.values(paths).flatMap((path) => path.map(([, x, y]) => [x, y]))];
    this.surface = fitted(this.canvas);
    this.underneath = fitted(this.under);
    const { width, height } = this.surface;
    const ends = (k) => everywhere.reduce(([low, high], p) => [Math.min(low, p[k]), Math.max(high, p[k])], [Infinity, -Infinity]);
    const [left, right] = ends(0), [bottom, top] = ends(1);
    const room = Math.min(44, 0.09 * Math.min(width, height) + 8);
    // The clock has the uppermost part for itself.
    const clock = 34, middle = (height + clock) / 2;
    const scale = Math.min((width - 2 * room) / (right - left || 1e-300), (height - clock - 2 * room) / (top - bottom || 1e-300));
    const finite = Number.isFinite(scale) && (right > left || top > bottom) ? scale : 0;
    this.toX = (x) => width / 2 + (x - (left + right) / 2) * finite;
    this.toY = (y) => middle - (y - (bottom + top) / 2) * finite;
    this.x = Float64Array.from(positions, ([x]) => this.toX(x));
    this.y = Float64Array.from(positions, ([, y]) => this.toY(y));
    this.radius = Math.max(4, Math.min(13, 0.28 * Math.sqrt((width * height) / Math.max(positions.length, 12)) - 3));
    this.drawUnder();
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

  // The links, on a canvas of their own: they are drawn anew only if somebody moves.
  drawUnder() {
    const { context, width, height } = this.underneath, { look, chosen } = this.page;
    context.clearRect(0, 0, width, height);
    const stroke = (list, colour, thick) => {
      context.beginPath();
      for (const [i, j] of list) {
        context.moveTo(this.x[i], this.y[i]);
        context.lineTo(this.x[j], this.y[j]);
      }
      context.strokeStyle = colour;
      context.lineWidth = thick;
      context.stroke();
    };
    stroke(this.pairs, look.line, this.pairs.length > 1500 ? 0.4 : 1.3);
    if (chosen) {
      stroke(this.pairs.filter(([i, j]) => this.page.concerns(i, j)), look.soft, chosen.link ? 4 : 2);
    }
  }

  draw(t) {
    this.walk(t);
    const { context, width, height } = this.surface;
    context.clearRect(0, 0, width, height);
    const { events } = this.page, rows = events.overlapping(t, t, events.until);
    const drawn = this.drawFrames(context, t, rows), spread = rows.reduce((sum, row) => sum + (events.end[row] <= t), 0);
    const { marks, shown } = this.drawMarks(context, t);
    this.drawAgents(context, t);
    this.drawNames(context);
    return { shown: rows.length, underway: rows.length - spread, spread, drawn, marks, shownMarks: shown };
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
    // One path for each look: by kind, flying or still waiting; a reply is hollow.
    const paths = new Map();
    const size = rows.length > 1500 ? 2.2 : rows.length > 300 ? 3 : 4;
    const drawn = new Thinned(rows, MOST_DRAWN).forEach((row) => {
      this.place(row, t);
      const key = kind[row] * 4 + (t < depart[row] ? 2 : 0) + (reply[row] ? 1 : 0);
      if (!paths.has(key)) paths.set(key, []);
      paths.get(key).push(this.atX, this.atY);
    });
    for (const [key, places] of paths) {
      const { shape, colour } = look.kind(key >> 2), dot = SHAPES[shape];
      context.beginPath();
      for (let i = 0; i < places.length; i += 2) dot(context, places[i], places[i + 1], size);
      context.fillStyle = key & 1 ? look.paper : key & 2 ? look.soft : colour;
      context.strokeStyle = key & 2 ? look.soft : key & 1 ? colour : look.paper;
      context.lineWidth = key & 1 ? 1.6 : 1;
      if (rows.length <= 1500 || key & 1) context.stroke();
      context.fill();
    }
    return drawn;
  }

  drawAgents(context, t) {
    const { look, states, chosen, meta } = this.page;
    const values = states.at(t), range = states.range(values), ring = chosen && chosen.agent !== undefined ? chosen.agent : -1;
    for (let i = 0; i < meta.agents.length; i++) {
      const value = values ? values[i] : NaN, share = values ? states.share(value, range) : NaN;
      context.beginPath();
      context.arc(this.x[i], this.y[i], this.radius, 0, TURN);
      context.fillStyle = Number.isNaN(share) ? look.panel : `rgb(${cividis(share)})`;
      context.fill();
      context.lineWidth = 1.5;
      context.strokeStyle = look.ink;
      context.stroke();
      if (i !== ring) continue;
      context.beginPath();
      context.arc(this.x[i], this.y[i], this.radius + 4.5, 0, TURN);
      context.lineWidth = 3;
      context.strokeStyle = look.accent;
      context.stroke();
    }
  }

  // Above all else: a name under a mark could not be read.
  drawNames(context) {
    const { look, meta } = this.page;
    if (meta.agents.length > 60) return;
    context.font = `${this.radius > 8 ? 12 : 11}px system-ui, sans-serif`;
    context.textAlign = "center";
    meta.agents.forEach((name, i) => look.write(context, clipped(name, 14), this.x[i], this.y[i] + this.radius + 13, 4));
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
      look.mark(context, cause[row], this.atX, this.atY, shown > 400 ? 4 : 6);
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
