// The space–time diagram (Lamport's): a lifeline for each agent, time across, or down where it is narrow, an arrow for each
// frame. A chosen event shows its causal past and future; a second one how the two are ordered.

const NARROW = 760;
// Milliseconds of a picture's sixteen in which the next sheet is drawn.
const AHEAD = 4;

class SpaceTime {
  // `under` and `spare` are the canvas of the sheet that is shown, and of the one after it.
  constructor(page, canvas, under, spare) {
    Object.assign(this, { page, canvas, under, spare, zoomed: false, comparing: false, clocked: false, key_: "" });
    this.fit();
    this.resize();
  }

  // As much time as leaves some 12 pixels to a frame, but no less than a round has where there are few; all where that is
  // not much more.
  fit() {
    if (this.zoomed) return;
    const { span, meta, events } = this.page, { width, height } = this.surface || { width: 1000, height: 600 };
    const long = width < NARROW ? 0.5 * height : width - 200;
    const few = span * Math.min(1, long / 12 / Math.max(events.count, 1)), round = meta.rounds ? meta.round_period : 0;
    const some = Math.max(few, Math.min(1.25 * round, 10 * few));
    this.window = (some > 0.6 * span ? 1.03 * span : some) || 1;
  }

  resize() {
    this.surface = fitted(this.canvas);
    this.tall = this.surface.width < NARROW;
    this.key_ = "";
    this.fit();
  }

  zoom(factor) {
    this.zoomed = true;
    this.window = Math.min(Math.max(this.window * factor, this.page.span * 1e-9), this.page.span * 1.03);
  }

  // --- what does not change with the time shown: order, lifelines, words, events -------------------------------------------

  // Taken up anew where the run goes on, or the colours, the states or the filters are others.
  read() {
    const { page } = this, { meta, events, states, look } = page;
    const key = [states.shown, [...(states.beside || [])], look.dark, look.scale, page.span, this.tall].join();
    if (this.readOf === events && this.readAs === key) return;
    if (this.readOf !== events) this.known = null;
    Object.assign(this, { readOf: events, readAs: key, key_: "" });
    this.faults = page.faults;
    this.readOrder();
    // What is lost leans as if it had flown the mean time of frames.
    this.flight = flightOf(events);
    this.lines = new Map();
    this.words = [];
    for (let agent = 0; agent < meta.agents.length; agent++) this.words.push(...this.wordsOf(agent));
    const { times = [], agents = [], texts = [] } = meta.marks || {};
    times.forEach((time, i) => this.words.push({ time, agent: agents[i], text: `“${clipped(texts[i], 40)}”`, kind: "note", deed: "notes " }));
    this.words.sort((one, other) => one.time - other.time);
    this.wordTimes = Float64Array.from(this.words, ({ time }) => time);
    this.widest = 0;
  }

  // Agents of one side of a partition are neighbours.
  readOrder() {
    const { agents } = this.page.meta, partitions = this.faults.filter(({ what }) => what === "Partition");
    for (const fault of partitions) fault.side = agents.map((_, i) => (fault.sides || []).findIndex((side) => side.includes(i)));
    const order = agents.map((_, i) => i).sort((i, j) => {
      for (const { side } of partitions) if (side[i] !== side[j]) return side[i] - side[j];
      return i - j;
    });
    this.order = order;
    this.lanes = Int32Array.from(order);
    order.forEach((agent, lane) => (this.lanes[agent] = lane));
    this.moved = order.some((agent, i) => agent !== i);
    for (const fault of partitions) {
      fault.cuts = order.slice(1).map((_, i) => i + 0.5).filter((lane) => fault.side[order[lane - 0.5]] !== fault.side[order[lane + 0.5]]);
    }
  }

  // An agent's line: {from, to, style, word, rest}, down where it is down.
  lifeline(agent) {
    if (this.lines.has(agent)) return this.lines.get(agent);
    const { states, look, span } = this.page, category = states.category || "";
    const plain = { colour: look.line, weight: 1.4, dash: [] }, spans = category ? states.spans(agent) : [];
    let list = spans.map(({ from, to, word, rest }) => ({ from, to, word, rest, style: word ? look.role(category, word) : plain }));
    if (!list.length || list[0].from > 0) list.unshift({ from: 0, to: list.length ? list[0].from : span, word: "", rest: "", style: plain });
    for (const { from, to, ended } of this.page.downs(agent)) {
      const down = { from, to, word: "down", rest: "", style: look.role(category, DOWN) };
      const cut = (each) => [{ ...each, to: Math.min(each.to, from) }, { ...each, from: Math.max(each.from, to) }].filter((part) => part.to > part.from);
      // A change in the run's last instant has no length, yet it is what the run ends with: nothing may be cut from it.
      list = list.flatMap((each) => (each.to <= from || (ended && each.from >= to) ? [each] : cut(each)));
      list = [...list, down].sort((one, other) => one.from - other.from);
    }
    this.lines.set(agent, list);
    return list;
  }

  // The words at an agent's line: where its role changes, where only the rest does, where it goes down and comes back.
  wordsOf(agent) {
    const { look, states } = this.page, found = [], downs = this.page.downs(agent), colour = look.role(states.category, DOWN).colour;
    const list = this.lifeline(agent), back = new Map(downs.filter(({ ended }) => ended).map(({ to, words }) => [to, words[1]]));
    for (const { from, words, what } of downs) if (what !== "Join") found.push({ time: from, agent, text: words[0], kind: "role", colour });
    let last = list[0];
    for (const each of list.slice(1)) {
      const { from, word, rest, style } = each, text = `${word} ${rest}`.trim();
      if (word === "down") continue;
      if (back.has(from)) found.push({ time: from, agent, text: [back.get(from), text].filter((part) => part).join(", "), kind: "role", colour: look.ink });
      else if (word !== last.word) found.push({ time: from, agent, text, kind: "role", colour: look.ink, deed: "becomes " });
      else if (rest !== last.rest) found.push({ time: from, agent, text: rest, kind: "minor", colour: look.soft, deed: "now " });
      back.delete(from);
      last = each;
    }
    for (const [time, text] of back) found.push({ time, agent, text, kind: "role", colour });
    return found;
  }

  // What agents did besides sending and getting frames: notes, words that change, going down and coming back.
  get causality() {
    if (this.known) return this.known;
    const { meta, events, states, columns } = this.page, local = [], { times = [], agents = [], sent = [] } = meta.marks || {};
    times.forEach((time, i) => local.push({ time, agent: agents[i], sent: sent[i] }));
    for (const { words, values } of states.list) {
      for (let agent = 0; words && agent < meta.agents.length; agent++) {
        const rows = states.changes(agent);
        for (let i = 1; i < rows.length; i++) {
          if (values[rows[i]] !== values[rows[i - 1]] && values[rows[i]] >= 0) local.push({ time: states.times[rows[i]], agent, sent: states.sent[rows[i]] });
        }
      }
    }
    const falls = [];
    for (let agent = 0; agent < meta.agents.length; agent++) {
      for (const { from, to, ended, what } of this.page.downs(agent)) {
        if (what !== "Join") falls.push({ time: from, agent, falls: true });
        if (ended || what === "Join") falls.push({ time: to, agent, falls: false });
      }
    }
    local.push(...falls);
    local.sort((one, other) => one.time - other.time);
    this.known = new Causality(events, meta.agents.length, local.filter(({ time }) => Number.isFinite(time)));
    this.page.overtook = overtakings(events, meta.agents.length);
    this.crashes = new Map(falls.map((fall) => [this.known.at(fall.agent, fall.time).at(-1), fall.falls]));
    this.clocks = null;
    return this.known;
  }

  // A lane at a share of the way, but on no other agent's line.
  between(one, other, share) {
    const lane = one + (other - one) * share, floor = Math.floor(lane);
    return Math.abs(other - one) < 2 || Math.abs(lane - floor - 0.5) < 0.3 ? lane : floor + 0.5;
  }

  // The lane on which the line of the fault stands that stopped a frame; null: there is none.
  border(row) {
    const { sender, receiver, start } = this.page.events, [i, j] = [sender[row], receiver[row]];
    const now = ({ begin, end }) => begin <= start[row] && start[row] <= (end ?? Infinity);
    const fault = this.faults.find((each) => each.side && now(each) && each.side[i] !== each.side[j]);
    if (!fault) {
      const cut = this.faults.some((each) => now(each) && each.links.some(([from, to]) => from === i && to === j));
      return cut ? this.between(this.lanes[i], this.lanes[j], 0.5) : null;
    }
    const cuts = fault.cuts.filter((lane) => (lane - this.lanes[i]) * (lane - this.lanes[j]) < 0);
    return cuts.length ? cuts.reduce((best, lane) => (Math.abs(lane - this.lanes[i]) < Math.abs(best - this.lanes[i]) ? lane : best)) : null;
  }

  // --- what is chosen -------------------------------------------------------------------------------------------------------

  // What is lit: {chosen, marks of events, lit(row), concerns(agent)}; null: all is.
  get focus() {
    const { chosen, events } = this.page;
    if (!chosen) return null;
    if (chosen.event === undefined) {
      const concerns = (agent) => (chosen.link ? chosen.link.includes(agent) : agent === chosen.agent);
      return { chosen: [], marks: null, lit: (row) => this.page.concerns(events.sender[row], events.receiver[row]), concerns };
    }
    const { event, with: second } = chosen, key = `${event} ${second}`;
    if (!(Math.max(event, second ?? 0) < this.causality.count)) return null;
    if (this.focused && this.focused.key === key && this.focused.of === this.causality) return this.focused;
    const { sent, got } = this.causality, past = this.causality.past(event), future = this.causality.future(event);
    const count = (marks) => marks.reduce((sum, mark) => sum + mark, 0), numbers = { past: count(past), future: count(future) };
    this.focused = { key, of: this.causality, chosen: [event], ...numbers, clock: this.causality.clock(event, past) };
    if (second !== undefined && second !== event) {
      const chain = this.causality.chain(event, second) || this.causality.chain(second, event), rows = new Set(chain ? chain.rows : []);
      const marks = new Uint8Array(this.causality.count);
      for (const each of chain ? chain.events : []) marks[each] = 3;
      Object.assign(this.focused, { chosen: [event, second], marks, chain, lit: (row) => rows.has(row), withClock: this.causality.clock(second) });
      return this.focused;
    }
    const marks = past.map((mark, i) => mark || 2 * future[i]), is = (at, mark) => at === event || marks[at] === mark;
    const lit = (row) => got[row] >= 0 && ((is(sent[row], 1) && is(got[row], 1)) || (is(sent[row], 2) && is(got[row], 2)));
    return Object.assign(this.focused, { marks, lit });
  }

  // Choose an event, or a second one to compare.
  take(event, second = false) {
    if (!(event >= 0 && event < this.causality.count)) return;
    // The time shown follows only to what is not in view.
    const time = this.causality.time[event];
    if (time < this.start || time > this.start + this.window) this.page.player.time = Math.min(time, this.page.limit);
    this.page.choose(this.choiceOf(event, second));
  }

  // An event by itself, or as a second one beside that which is chosen.
  choiceOf(event, second) {
    const { chosen } = this.page, both = second && chosen && chosen.event !== undefined;
    this.comparing = false;
    return both ? { agent: chosen.agent, event: chosen.event, with: event } : { agent: this.causality.agent[event], event };
  }

  // Events that a page's address chooses: #event=20&with=34.
  follow(link) {
    const [one, other] = ["event", "with"].map((name) => (/^\d+$/.test(link.get(name) || "") ? Number(link.get(name)) : -1));
    if (one < 0 || one >= this.causality.count) return;
    const chosen = { agent: this.causality.agent[one], event: one };
    if (!link.has("t")) this.page.player.time = Math.min(this.causality.time[one], this.page.limit);
    this.page.choose(other >= 0 && other < this.causality.count ? { ...chosen, with: other } : chosen);
  }

  // An event of one's own line further on; of others the nearest in time.
  move(along, across) {
    const { chosen } = this.page, { causality, lanes, order } = this, second = this.comparing || this.second;
    const from = second && chosen.with !== undefined ? chosen.with : chosen.event, agent = causality.agent[from];
    if (along) return this.take(along > 0 ? causality.after[from] : causality.before[from], second);
    for (let lane = lanes[agent] + across; lane >= 0 && lane < order.length; lane += across) {
      const line = causality.line(order[lane]), place = countUpTo(causality.time, causality.time[from], false, line);
      const near = [line[place - 1], line[place]].filter((event) => event !== undefined);
      if (near.length) return this.take(near.sort((one, other) => Math.abs(causality.time[one] - causality.time[from]) - Math.abs(causality.time[other] - causality.time[from]))[0], second);
    }
  }

  // Whether a key was for the diagram.
  key(event) {
    const { page } = this, { chosen } = page, has = chosen && chosen.event !== undefined;
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Enter" && ["BUTTON", "A", "INPUT", "SUMMARY"].includes(event.target.tagName)) return false;
    if (ways && has) {
      this.second = event.shiftKey;
      this.move(...(this.tall ? ways.toReversed() : ways));
      this.second = false;
    } else if (event.key === "Enter" || (ways && ways[1])) {
      if (!has) this.take(Math.max(countUpTo(this.causality.time, page.player.time) - 1, 0));
    } else if (event.key === "c") this.compare();
    else if (event.key === "v") this.showClocks();
    else if (event.key === "Escape" && (this.comparing || (has && chosen.with !== undefined))) {
      if (this.comparing) this.compare();
      else page.choose({ agent: chosen.agent, event: chosen.event });
    } else return false;
    return true;
  }

  compare() {
    const { chosen } = this.page;
    this.comparing = !this.comparing && Boolean(chosen && chosen.event !== undefined);
    this.tell();
  }

  showClocks() {
    const { causality } = this;
    this.clocked = !this.clocked;
    // Of very many only that of the chosen event.
    if (this.clocked && !this.clocks && causality.agents <= 12 && causality.count * causality.agents < 4e6) this.clocks = causality.clocks();
    this.key_ = "";
    this.page.draw();
  }

  // The event, lifeline or link at a point.
  pick(x, y, second = false) {
    if (!this.sheet) return null;
    const [atX, atY] = this.onSheet(x, y), event = this.sheet.eventAt(atX, atY);
    if (event >= 0) {
      if (this.page.player.playing) this.page.player.pause();
      return this.choiceOf(event, second || this.comparing);
    }
    const row = this.sheet.rowAt(atX, atY), { sender, receiver } = this.page.events;
    if (row >= 0) return { link: [sender[row], receiver[row]] };
    const lane = this.laneAt(this.tall ? x : y), away = Math.abs((this.tall ? x : y) - this.cross(lane));
    return away <= Math.max(10, 0.5 * this.thick * (this.thick < 20)) || (!this.tall && x < this.left) ? { agent: this.order[lane] } : null;
  }

  // What is seen, for tests and talks: places of events (px, on the canvas), and what words and crosses stand where.
  seen() {
    const shift = (this.start - this.sheet.from) * this.scale, { causality, sheet } = this, { events, meta } = this.page;
    const on = (x, y) => (this.tall ? [x, y + this.top - shift] : [x + this.left - shift, y]);
    const dots = sheet.dots.map(({ event, x, y }) => ({ event, agent: causality.agent[event], time: causality.time[event], place: on(x, y) }));
    const boxed = ({ text, box }) => ({ text, box: [...on(box[0], box[1]), ...on(box[2], box[3])] });
    const crosses = sheet.arrows.filter(({ why }) => why).map(({ row, why, x2, y2 }) => ({ row, cause: meta.causes[why], receiver: events.receiver[row], place: on(x2, y2) }));
    const marks = this.focus && this.focus.marks ? Array.from(this.focus.marks) : null;
    return { tall: this.tall, level: sheet.level, dots, words: sheet.words.map(boxed), labels: sheet.labels.map(boxed), crosses, marks, order: this.order };
  }

  // --- measures and drawing -------------------------------------------------------------------------------------------------

  measure(t) {
    const { width, height } = this.surface, { look, meta, span } = this.page, { context } = this.surface, size = 12 * look.scale;
    const count = Math.max(meta.agents.length, 1), wide = this.window;
    const start = this.held ?? (wide >= span ? -0.01 * wide : Math.min(Math.max(t - (2 * wide) / 3, -0.02 * wide), span - 0.98 * wide));
    Object.assign(this, { width, height, size, start });
    const names = this.widestOf(meta.agents.slice(0, 500).map((name) => clipped(name, 13)), look.font(13, "600"), 10);
    if (this.tall) {
      Object.assign(this, { left: 40 * look.scale, top: 1.9 * size, right: 4, under_: 1.8 * size });
      this.thick = (width - this.left - this.right) / count;
      this.cross = (lane) => this.left + (lane + 0.5) * this.thick;
      this.bottom = height - this.under_;
      this.long = this.bottom - this.top;
    } else {
      this.ends = this.endWords();
      const ends = this.page.states.shown < 0 ? 0 : this.widestOf(this.ends.map(({ text }) => text), look.font(12, "600"));
      // In large steps: each is a new sheet.
      this.widest = Math.max(this.widest || 0, Math.min(24 * Math.ceil(ends / 24), 0.16 * width));
      Object.assign(this, { left: Math.min(names + 18, 0.2 * width), top: 1.9 * size, right: this.widest + 18, under_: 2.1 * size });
      this.bottom = height - this.under_;
      this.thick = (this.bottom - this.top) / count;
      this.cross = (lane) => this.top + (lane + 0.5) * this.thick;
      this.long = width - this.left - this.right;
    }
    this.laneAt = (v) => Math.min(Math.max(Math.floor((v - (this.tall ? this.left : this.top)) / this.thick), 0), count - 1);
    this.scale = this.long / this.window;
  }

  // The width of the widest of some texts: each is measured once, not in each picture.
  widestOf(texts, font, least = 0) {
    const { context } = this.surface;
    this.widths ||= new Map();
    if (this.widths.size > 20000) this.widths.clear();
    context.font = font;
    for (const text of texts) {
      const key = `${font} ${text}`;
      if (!this.widths.has(key)) this.widths.set(key, context.measureText(text).width);
      least = Math.max(least, this.widths.get(key));
    }
    return least;
  }

  // Along the page, of a time.
  at(time) {
    return (this.tall ? this.top : this.left) + (time - this.start) * this.scale;
  }

  // A point of the canvas on the sheet.
  onSheet(x, y) {
    const shift = (this.start - this.sheet.from) * this.scale;
    return this.tall ? [x, y - this.top + shift] : [x - this.left + shift, y];
  }

  // What moves lies on a sheet of its own, drawn anew only when the time leaves it, or what it shows has changed. Where the
  // time leaves it at once, the sheet is the canvas.
  drawSheet() {
    const { page, window: wide, surface, start } = this, { events, chosen } = page, { context } = surface, ratio = window.devicePixelRatio || 1;
    const all = wide >= page.span, hasty = !all && !(Math.abs(start - this.last) < wide / 4), onward = start > this.last;
    const kept = this.sheet && (all ? this.sheet.from === start : this.sheet.from <= start && start + wide <= this.sheet.to);
    const key = [wide, this.scale, surface.width, surface.height, ratio, this.left, this.thick, this.clocked, JSON.stringify(chosen), events.keptKinds.join(""), events.keptCauses.join("")].join();
    this.last = start;
    if (this.key_ !== key || !kept) {
      if (hasty) return this.drawDirectly();
      const from = all ? start : Math.floor(start / (wide / 2)) * (wide / 2), { next } = this;
      if (this.key_ === key && next && next.from <= start && start + wide <= next.to) [this.sheet, this.under, this.spare] = [next, this.spare, this.under];
      else this.sheet = this.sheetOn(this.under, from, from + (all ? 1 : 2) * wide, ratio);
      this.sheet.work();
      this.next = null;
      this.key_ = key;
    } else if (onward && page.player.playing && this.sheet.to < page.span) {
      // Between pictures, a little of the sheet after this one.
      this.next ||= this.sheetOn(this.spare, this.sheet.from + wide, this.sheet.to + wide, ratio);
      this.next.work(AHEAD);
    }
    // Whole pixels: what moves stays sharp.
    const { under } = this, shift = Math.round((start - this.sheet.from) * this.scale * ratio), long = Math.round(this.long * ratio);
    const [w, h] = this.tall ? [under.width, Math.min(long, under.height - shift)] : [Math.min(long, under.width - shift), Math.round(this.bottom * ratio)];
    if (this.tall) context.drawImage(under, 0, shift, w, h, 0, this.top, w / ratio, h / ratio);
    else context.drawImage(under, shift, 0, w, h, this.left, 0, w / ratio, h / ratio);
  }

  // What is in view, on the canvas itself.
  drawDirectly() {
    const { context } = this.surface;
    context.save();
    context.beginPath();
    if (this.tall) context.rect(0, this.top, this.width, this.long);
    else context.rect(this.left, 0, this.long, this.bottom);
    context.clip();
    context.translate(this.tall ? 0 : this.left, this.tall ? this.top : 0);
    this.sheet = new Sheet(this, context, this.start, this.start + this.window);
    this.sheet.work();
    context.restore();
    this.key_ = "";
  }

  // A sheet that is yet to be drawn on a cleared canvas.
  sheetOn(canvas, from, to, ratio) {
    const { surface } = this, long = (to - from) * this.scale, large = (size) => Math.ceil(size * ratio);
    const [w, h] = this.tall ? [large(surface.width), large(long)] : [large(long), large(surface.height)];
    // The sheet is copied at every picture: where there is no GPU, a canvas in memory is copied faster.
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    // A new size also clears.
    if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, w, h);
    return new Sheet(this, pen, from, to);
  }

  draw(t) {
    this.read();
    this.measure(t);
    const { context, width, height } = this.surface, { events } = this.page;
    context.clearRect(0, 0, width, height);
    this.drawGrid(context, width, height);
    this.drawSheet();
    this.drawCursor(context, t);
    this.drawNames(context, t);
    this.tell();
    const rows = events.overlapping(this.start, this.start + this.window).length, drawn = this.sheet.drawn;
    return { shown: rows, underway: rows, spread: 0, drawn: drawn < this.sheet.rows.length ? Math.min(drawn, rows) : rows, marks: 0, shownMarks: 0 };
  }

  // A stretch that does not move, without a cursor.
  drawStill(t) {
    const { context, width, height } = this.surface;
    this.read();
    this.measure(t);
    this.drawGrid(context, width, height);
    this.drawDirectly();
  }

  // What is yet to come is pale, unless a chosen event shows its future.
  drawCursor(context, t) {
    const { look, chosen } = this.page;
    const at = this.at(t), end = (this.tall ? this.top : this.left) + this.long;
    context.fillStyle = look.paper;
    context.globalAlpha = 0.6;
    if (!chosen || chosen.event === undefined) this.fill(context, at, end);
    context.globalAlpha = 1;
    context.fillStyle = look.accent;
    if (at <= end + 1) this.fill(context, at - 1, at + 1);
  }

  // A rectangle from one place along the time to another, by default across all lanes.
  fill(context, from, to, low = 0, high = this.tall ? this.width : this.bottom) {
    if (this.tall) context.fillRect(low, from, high - low, to - from);
    else context.fillRect(from, low, to - from, high - low);
  }

  drawGrid(context, width, height) {
    const { look, meta, span } = this.page, { start, window: wide, size } = this, to = start + wide;
    const across = (time, thick, long) => {
      if (this.tall) context.fillRect(long ? 0 : this.left - 5, this.at(time), long ? width : 5, thick);
      else context.fillRect(this.at(time), long ? 0 : this.bottom, thick, long ? this.bottom : 5);
    };
    const round = meta.round_period;
    context.fillStyle = look.line;
    if (meta.rounds > 0 && round * this.scale > 14) {
      for (let k = Math.max(0, Math.ceil(start / round)); k * round <= Math.min(to, span, meta.rounds * round); k++) across(k * round, 1, true);
    }
    context.font = look.font(12);
    context.textBaseline = "middle";
    const digits = Math.max(5, Math.ceil(Math.log10(span / wide)) + 3), room = this.tall ? 60 : 90 * look.scale;
    for (const time of ticks(start, to, this.long / room)) {
      if (time < 0 || time > span * 1.0001) continue;
      context.fillStyle = look.faint;
      if (!(meta.rounds > 0)) across(time, 1, true);
      context.fillStyle = look.soft;
      context.textAlign = this.tall ? "right" : "center";
      if (this.tall && this.at(time) > this.top + size) context.fillText(`${short(time, digits)}`, this.left - 4, this.at(time));
      if (this.tall) continue;
      const text = `${short(time, digits)} s`, half = context.measureText(text).width / 2;
      across(time, 1, false);
      if (this.at(time) + half < width) context.fillText(text, this.at(time), this.bottom + 1.1 * size);
    }
  }

  // Agents' names, what they are at the right edge, and the captions of partitions: they stay where they are.
  drawNames(context, t) {
    const { look, meta, chosen } = this.page, { size, thick, order } = this, letters = thick < 70 ? 6 : 13;
    context.textBaseline = "middle";
    context.font = look.font(13, "600");
    const widest = this.widestOf(meta.agents.slice(0, 500).map((name) => clipped(name, letters)), look.font(13, "600"), 1);
    const every = Math.ceil((this.tall ? widest + 4 : 1.1 * size) / thick);
    this.drawCaptions(context, t);
    if (this.tall) {
      context.fillStyle = look.paper;
      context.fillRect(0, 0, this.width, this.top - 1);
      context.fillRect(0, this.bottom, this.width, this.under_ + 1);
      context.fillStyle = look.line;
      context.fillRect(0, this.top - 1, this.width, 1);
      context.fillStyle = look.soft;
      context.font = look.font(11);
      context.textAlign = "right";
      context.fillText("s", this.left - 4, this.top / 2);
    }
    order.forEach((agent, lane) => {
      const mine = chosen && (chosen.agent === agent || (chosen.link && chosen.link.includes(agent))), v = this.cross(lane);
      context.font = look.font(13, "600");
      context.fillStyle = mine ? look.accent : look.ink;
      if (this.tall) {
        context.textAlign = "center";
        if (lane % every === 0 || mine) context.fillText(clipped(meta.agents[agent], letters), v, this.top / 2);
      } else if (lane % every === 0 || mine) {
        context.textAlign = "right";
        context.fillText(clipped(meta.agents[agent], 13), this.left - 9, v, this.left - 12);
      }
    });
    if (this.tall) this.ends = this.endWords();
    context.font = look.font(this.tall ? 11 : 12, "600");
    const fits = (text) => context.measureText(text).width < thick - 2;
    const texts = this.ends.map(({ text, word }) => (!this.tall || fits(text) ? text : word));
    if (!this.tall || texts.every(fits)) this.ends.forEach(({ colour }, lane) => {
      const text = texts[lane];
      const v = this.cross(lane);
      context.fillStyle = colour;
      context.textAlign = this.tall ? "center" : "left";
      if (this.tall) context.fillText(text, v, this.bottom + this.under_ / 2);
      else if (lane % every === 0) context.fillText(text, this.left + this.long + 8, v, this.right - 10);
    });
  }

  // What agents are at the edge of what is shown, by lane.
  endWords() {
    const { look, states, span } = this.page, to = Math.min(this.start + this.window, span);
    return this.order.map((agent) => {
      const list = this.lifeline(agent), place = Math.max(list.findLastIndex(({ from }) => from <= to), 0), { word, rest, style } = list[place];
      if (word === "down" || states.category) return { text: clipped(`${word} ${rest}`.trim(), 24), word, colour: word ? look.ink : look.soft };
      return { text: states.shown < 0 ? "" : short(states.of(states.shown, agent, to), 4), word: "", colour: look.soft };
    });
  }

  drawCaptions(context, t) {
    const { look } = this.page, { size } = this;
    let free = -Infinity;
    for (const fault of this.faults) {
      const to = fault.end ?? this.page.span;
      if (fault.what !== "Partition" || fault.begin > this.start + this.window || to < this.start) continue;
      context.font = look.font(12, "600");
      context.textAlign = "left";
      context.globalAlpha = fault.begin <= t || this.focus ? 1 : 0.4;
      const from = Math.max(this.at(fault.begin), this.tall ? this.top : this.left), text = this.page.captionOf(fault, this.tall);
      const x = this.tall ? this.left + 6 : Math.max(from + 8, free), y = this.tall ? from + size : 0.9 * size, w = context.measureText(text).width;
      context.fillStyle = look.band;
      context.fillRect(x - 4, y - 0.75 * size, w + 8, 1.5 * size);
      context.fillStyle = look.bandline;
      context.fillText(text, x, y + 0.5);
      free = x + w + 14;
    }
    context.globalAlpha = 1;
  }

  // --- words about what is chosen -------------------------------------------------------------------------------------------

  // What an agent did in an event, a line for each.
  deeds(event) {
    const { causality } = this, { meta, events, look } = this.page, agent = causality.agent[event], time = causality.time[event], lines = [];
    const grouped_ = (rows, names) => {
      const found = new Map();
      for (const row of rows) {
        const title = this.page.title(row) || meta.kinds[events.kind[row]];
        found.set(title, [...(found.get(title) || []), names(row)]);
      }
      return [...found].map(([title, list]) => [title, list.length > 8 ? `${list.slice(0, 8).join(", ")} and ${list.length - 8} more` : list.join(", ")]);
    };
    for (const [title, list] of grouped_(causality.arrivals(event), (row) => this.page.names([events.sender[row]]))) lines.push(`gets ${title} from ${list}`);
    const last = causality.at(agent, time).at(-1) === event;
    if (last) {
      for (const word of this.words) if (word.time === time && word.agent === agent) lines.push(`${word.deed || ""}${word.text}`);
    }
    const ends = (row) => {
      const why = events.cause[row];
      return this.page.names([events.receiver[row]]) + (why ? ` (${look.causes[why] === "in_flight" ? "under way" : look.cause(why).words})` : "");
    };
    for (const [title, list] of grouped_(causality.sendings(event), ends)) lines.push(`sends ${title} to ${list}`);
    return lines;
  }

  clockText(clock) {
    const { agents } = this.page.meta;
    if (clock.length <= 16) return `[${clock.join(" ")}]`;
    const known = [...clock.keys()].filter((i) => clock[i]);
    return `${known.slice(0, 12).map((i) => `${clipped(agents[i], 8)}: ${clock[i]}`).join(", ")}${known.length > 12 ? ` and ${known.length - 12} more` : ""}; 0 for all others`;
  }

  // How two events are ordered, in a sentence.
  verdict({ chosen: [one, other], chain }) {
    const { causality } = this;
    if (!chain) {
      const same = causality.time[one] === causality.time[other] ? " They are at the same instant." : "";
      return `A and B are concurrent: no chain of frames leads from one to the other, so neither can have caused the other.${same}`;
    }
    const [first, second] = chain.events[0] === one ? ["A", "B"] : ["B", "A"], { rows } = chain;
    if (!rows.length) return `${first} happened before ${second}: it is earlier on the same lifeline.`;
    const steps = rows.slice(0, 6).map((row) => `${this.page.names([this.page.events.sender[row]])} → ${this.page.names([this.page.events.receiver[row]])}`);
    return `${first} happened before ${second}, by a chain of ${rows.length} frame${rows.length > 1 ? "s" : ""}: ${steps.join(", ")}${rows.length > 6 ? ", …" : ""}.`;
  }

  heading(event) {
    const { causality } = this, agent = causality.agent[event], list = causality.at(agent, causality.time[event]);
    const which = list.length > 1 ? ` (${list.indexOf(event) + 1} of ${list.length} at this instant)` : "";
    return `Agent ${this.page.names([agent])} at ${short(causality.time[event], 7)} s${which}`;
  }

  // The panel below the diagram.
  tell() {
    const { page, focus, bar } = this, { chosen, meta } = page, key = [JSON.stringify(chosen), this.comparing, this.clocked, this.moved, page.events.count].join();
    if (bar.told === key) return;
    bar.told = key;
    const text = [], has = focus && focus.marks;
    if (!has) {
      if (this.moved) text.push("Agents are in an order in which the sides of a partition are neighbours. ");
      text.push("Click an event, or press Enter: what could have caused it and what it could have caused stay bright.");
    } else {
      for (const [i, event] of focus.chosen.entries()) {
        const heading = `${focus.chosen.length > 1 ? `${"AB"[i]}: ` : ""}${this.heading(event)}`;
        const deeds = `${this.deeds(event).map((deed, k) => (k ? ", " : ": ") + deed).join("")}.`;
        const clock = element("span", ` vector clock ${this.clockText(i ? focus.withClock : focus.clock)}`, { class: "clockline" });
        text.push(element("p", [element("b", heading), deeds, clock]));
      }
      const line = element("p");
      if (focus.chosen.length > 1) line.append(element("strong", this.verdict(focus)));
      else {
        const { past, future } = focus, others = this.causality.count - 1 - past - future;
        line.append(element("span", "◀ ", { class: "past" }), `${past} events before it, `, element("span", "▶ ", { class: "future" }), `${future} after it, ${others} concurrent with it`);
        line.append(meta.shown < meta.total ? ", in the frames that are shown." : ".");
        if (this.comparing) line.append(element("strong", " Now choose the second event."));
      }
      text.unshift(line);
    }
    bar.output.replaceChildren(...text);
    bar.compare.setAttribute("aria-pressed", String(this.comparing));
    bar.clocks.setAttribute("aria-pressed", String(this.clocked));
    bar.compare.disabled = !has;
    bar.clear.disabled = !chosen;
  }

  addBar() {
    const output = element("div", "", { role: "status", "data-part": "event-text" });
    const compare = newButton("compare", () => this.compare(), { title: "The next event is compared with this one (c, or Shift + click)" });
    const clocks = newButton("clocks", () => this.showClocks(), { title: "Vector clocks at events (v)" });
    const clear = newButton("clear", () => this.page.choose(null), { title: "Nothing chosen (Esc)" });
    const buttons = element("div", [compare, clocks, clear], { class: "buttons", role: "group", "aria-label": "Events" });
    this.bar = { output, compare, clocks, clear };
    this.tip = new Tip(this.canvas);
    this.canvas.after(element("div", [output, buttons], { class: "eventbar", "data-part": "event" }));
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => (this.drag = { x: event.offsetX, y: event.offsetY, time: this.page.player.time, far: false }));
    canvas.addEventListener("pointermove", (event) => {
      if (this.drag && event.buttons) this.pull(event);
      else this.hover(event.offsetX, event.offsetY);
    });
    // A drag is no click.
    canvas.addEventListener("click", (event) => {
      if (this.drag && this.drag.far) event.stopImmediatePropagation();
      this.drag = null;
    }, { capture: true });
  }

  // Dragged, the time moves with the pointer.
  pull(event) {
    const { drag, page } = this, way = this.tall ? event.offsetY - drag.y : event.offsetX - drag.x;
    if (Math.abs(way) > 5) drag.far = true;
    if (!drag.far || this.window >= page.span) return;
    this.tip.show("");
    page.player.seek(drag.time - way / this.scale);
  }

  hover(x, y) {
    const { sheet } = this;
    if (!sheet) return;
    const [atX, atY] = this.onSheet(x, y), event = sheet.eventAt(atX, atY, 9), row = event < 0 ? sheet.rowAt(atX, atY) : -1;
    this.canvas.style.cursor = event >= 0 || row >= 0 ? "pointer" : "";
    this.tip.show(event >= 0 ? [this.heading(event), ...this.deeds(event)].join("\n") : row >= 0 ? this.page.sentence(row) : "", x, y);
  }
}
