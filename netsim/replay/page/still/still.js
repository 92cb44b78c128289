// Pictures of a run without a page, on canvases that record: the stage or the diagram with its title, clock, caption and
// legend, as netsim/replay/still.py asks for them. What they show is drawn by the page's own code.

const grouped3 = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, ",");

class Still extends Shown {
  constructor({ meta, columns, theme, width, height, k, view, begin, end }) {
    super({ dataset: { theme } }, meta, columns);
    Object.assign(this, { page: this, width, height, view, begin, end, u: 13 * k, off: new Set(), chosen: null, trail: null, live: null, presenting: false, shown: [this], titles: [] });
    this.read();
    this.reel = this.film;
    this.look.scale = k;
    this.player = new Player(this);
    const { follow } = meta.film;
    if (follow) this.trail = new Trail(this, follow.thing, follow.rows);
    [this.frame, this.words] = [new Surface(width, height), new Surface(width, height)];
    const isMap = view === "map", top = this.drawHead(), bottom = this.drawLegend(), room = Math.max(bottom - top, 1), high = isMap ? Math.min(4.6 * this.u, 0.2 * room) : 0;
    [this.under, this.over] = [0, 1].map(() => new Surface(width, room - high, 0, top));
    this.layers = [[this.frame, this.under], [this.over, this.words]];
    if (isMap) {
      this.views = { map: new Stage(this, this.over, this.under) };
      this.strip = new Strip(this, ...[0, 1].map(() => new Surface(width, high, 0, bottom - high)));
      // Links of agents that move change all the time.
      const still = [this.frame, this.strip.under], moving = [this.over, this.strip.canvas, this.words];
      this.layers = Object.keys(meta.paths).length ? [still, [this.under, ...moving]] : [[...still, this.under], moving];
    } else {
      this.diagram = new SpaceTime(this, this.under, null, null);
      Object.assign(this.diagram, { tall: false, held: begin - 0.01 * (end - begin), window: 1.03 * (end - begin), zoomed: true });
      this.diagram.drawStill(end);
    }
  }

  // What is drawn at a time of the film, as lists of what is below, null where it has not changed, and of what is above.
  // Of a diagram without a time all is there at once.
  at(film) {
    const { words, over, strip } = this, time = film === null ? this.end : this.film.time(film);
    Object.assign(this.player, { film, time });
    for (const { context } of [words, over, ...(strip ? [strip.canvas] : [])]) context.clearRect();
    if (strip) {
      this.drawn = this.views.map.draw(time);
      strip.drawCursor();
      this.drawWords(words.context, time, film);
    } else {
      if (film !== null) this.diagram.drawCursor(over.context, time);
      this.diagram.drawNames(over.context, time);
    }
    const [below, above] = this.layers.map((layer) => layer.map(({ context }) => context.list)), same = this.kept?.every((list, i) => list === below[i]);
    this.kept = below;
    return { below: same ? null : below.flat(), above: above.flat() };
  }

  // A text, or as much of it as there is room for.
  cut(context, text, room) {
    if (context.measureText(text).width <= room) return text;
    let low = 0, high = text.length;
    // By halves: to try each length in turn takes minutes for names of some thousand letters.
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (context.measureText(`${text.slice(0, middle)}…`).width <= room) low = middle;
      else high = middle - 1;
    }
    return low ? `${text.slice(0, low)}…` : "";
  }

  say(context, text, x, y, size, { style = "450", colour = this.look.ink, align = "left", rim = 0, room = this.width - 2 * this.u } = {}) {
    Object.assign(context, { font: `${style} ${size}px system-ui, sans-serif`, textAlign: align });
    this.look.write(context, this.cut(context, text, room), x, y, rim, colour);
  }

  // Title, and the command or what the diagram shows.
  drawHead() {
    const { u, meta, events, begin, end } = this, { context } = this.frame;
    let about = meta.command;
    if (this.view !== "map") {
      const rows = events.overlapping(begin, end), lost = rows.filter((row) => events.cause[row] && meta.causes[events.cause[row]] !== "in_flight").length;
      const when = begin <= 0 && end >= this.span ? `${short(end)} s` : `${short(begin)} to ${short(end)} s of ${short(this.span)} s`;
      about = `${when}, ${grouped3(rows.length)} frames, ${grouped3(lost)} of them did not arrive`;
    }
    this.about = about;
    this.say(context, meta.title, u, 2 * u, 1.35 * u, { style: "700" });
    if (about) this.say(context, about, u, 3.4 * u, 0.95 * u, { colour: this.look.soft });
    return (about ? 4.1 : 2.8) * u;
  }

  // What happens, as on a page: the time, how fast it goes, what fails; the caption.
  drawWords(context, time, film) {
    const { u, look, over: { top, height } } = this, clock = `${this.timeText(time)} s`, rim = 0.3 * u;
    this.say(context, clock, u, top + 1.6 * u, 1.7 * u, { style: "700", rim });
    // As wide as the last time, or what follows would jump.
    const wide = Math.max(...[time, this.span].map((each) => context.measureText(`${this.timeText(each)} s`).width));
    this.say(context, this.pace(time), 2 * u + wide, top + 1.6 * u, 0.95 * u, { colour: look.soft, rim, room: this.width - 3 * u - wide });
    this.going(time).forEach((text, i) => this.say(context, text, u, top + (3.1 + 1.25 * i) * u, 0.95 * u, { style: "600", colour: look.bandline, rim }));
    const [words, news] = this.caption(time, film), style = news ? "650" : "450", lines = this.broken(context, words, `${style} ${1.35 * u}px system-ui, sans-serif`);
    lines.forEach((line, i) => this.say(context, line, this.width / 2, top + height - (0.7 + 1.6 * (lines.length - 1 - i)) * u, 1.35 * u, { style, align: "center", rim }));
  }

  // A text on one line or two.
  broken(context, text, font) {
    context.font = font;
    const room = this.width - 2 * this.u, words = text.split(" ");
    let count = words.length;
    while (count > 1 && context.measureText(words.slice(0, count).join(" ")).width > room) count--;
    return [words.slice(0, count).join(" "), ...(count < words.length ? [words.slice(count).join(" ")] : [])];
  }

  // --- the legend -----------------------------------------------------------------------------------------------------

  // Entries in rows at the bottom; returns where they begin.
  drawLegend() {
    const { u, frame: { context }, height } = this, size = 0.95 * u, k = u / 13, rows = [];
    let left = Infinity;
    context.font = `450 ${size}px system-ui, sans-serif`;
    for (const [sign, words, long = 18] of this.entries()) {
      const text = this.cut(context, words, 0.4 * this.width), wide = long * k + 0.5 * u + context.measureText(text).width + 1.3 * u;
      if (left + wide > this.width - u) rows.push([]), (left = u);
      rows.at(-1).push({ sign, text, x: left, long });
      left += wide;
    }
    const top = height - (rows.length ? 1.7 * u * rows.length + 0.4 * u : 0);
    rows.forEach((row, i) => row.forEach(({ sign, text, x, long }) => {
      const y = top + (1.7 * i + 0.85) * u;
      context.save();
      context.translate(x, y - 9 * k);
      context.scale(k, k);
      context.beginPath();
      Object.assign(context, { fillStyle: this.look.soft, strokeStyle: this.look.soft, lineWidth: 1 });
      sign(context);
      context.restore();
      this.say(context, text, x + long * k + 0.5 * u, y + 0.35 * size, size);
    }));
    return top;
  }

  // What stands in the legend: [a sign, words, how long the sign is].
  entries() {
    const { events, meta, look, states, view, drawings } = this, isMap = view === "map", rows = events.overlapping(this.begin, this.end), found = [];
    const kinds = new Set(), causes = new Set(), has = { reply: false };
    for (const row of rows) kinds.add(events.kind[row]), causes.add(events.cause[row]), (has.reply ||= events.reply[row] > 0);
    const line = (c, { colour, weight }, dash, long = 34, across = []) => paint(c, () => lines(c, 1, [...across, [0, 9, long, 9]]), { stroke: colour, wide: weight, dash });
    const scale = this.scale();
    if (scale) found.push(scale);
    if (isMap) found.push(...drawings.legend().filter(([sign]) => sign));
    else {
      const roles = states.category ? states.order(states.category).slice(0, MOST_IN_LEGEND) : [];
      for (const word of [...roles, ...(this.fallen.size ? [DOWN] : [])]) {
        const style = look.role(states.category, word);
        found.push([(c) => line(c, { colour: style.line, weight: style.weight }, style.dash), word === DOWN ? "down" : drawings.wordOf(word), 34]);
      }
      found.push(...drawings.letters());
    }
    for (const kind of [...kinds].sort((one, other) => one - other)) {
      const style = look.kind(kind);
      if (isMap) found.push([(c) => paint(c, () => SHAPES[style.shape](c, 9, 9, 5), { fill: style.colour }), meta.kinds[kind]]);
      else found.push([(c) => (line(c, style, style.dash, 27), look.head(c, style, 34, 9, 1, 0)), meta.kinds[kind], 34]);
    }
    const overtook = isMap || rows.length >= 3000 ? [] : overtakings(events, meta.agents.length);
    if (rows.some((row) => overtook[row] >= 0)) {
      const across = [20, 24].map((x) => [x, 4, x, 14]);
      found.push([(c) => line(c, { colour: look.soft, weight: 1.3 }, [], 34, across), "overtook another of its link", 34]);
    }
    if (has.reply) found.push(isMap ? [(c) => (SHAPES.circle(c, 9, 9, 4.5), (c.lineWidth = 1.6), c.stroke()), "reply"] : [(c) => line(c, { colour: look.soft, weight: 1.5 }, REPLY), "reply", 34]);
    for (const cause of [...causes].sort((one, other) => one - other)) {
      if (cause && meta.causes[cause] !== "in_flight") found.push([(c) => look.mark(c, cause, 9, 9, 5), look.cause(cause).words]);
    }
    return found;
  }

  // The colours of numbers.
  scale() {
    const { states, look, view } = this, list = states.list[states.shown];
    if (!list || states.category || (states.isTree && view !== "map")) return null;
    const { low, high, log } = states.range(null), long = 60, one = high <= low, steps = one ? 1 : states.isTree && high < 12 ? high + 1 : 20;
    if (!(low <= high)) return null;
    const sign = (c) => {
      for (let i = 0; i < steps; i++) {
        c.fillStyle = look.number(one ? 0.5 : i / (steps - 1));
        // A little wider, or the ground would shine through between two.
        c.fillRect((long * i) / steps, 4, long / steps + (i < steps - 1 ? 0.4 : 0), 10);
      }
      c.strokeRect(0, 4, long, 10);
    };
    const name = states.isTree ? "hops" : states.names[states.shown];
    return [sign, `${name}: ${short(low, 3)}${one ? "" : ` to ${short(high, 3)}`}${log ? ", logarithmic" : ""}`, long];
  }
}
