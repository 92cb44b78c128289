// The sequence view (a Lamport diagram): a line for each agent, time across, an arrow for each frame.

class SequenceView {
  constructor(page, canvas) {
    Object.assign(this, { page, canvas });
    this.zoomed = false;
    this.fit();
    this.resize();
  }

  fit() {
    if (this.zoomed) return;
    const { span, meta, events } = this.page;
    // So much time that some 300 frames are seen, but no less than a round has where there are few.
    const few = span * Math.min(1, 300 / Math.max(events.count, 1)), round = meta.rounds ? meta.round_period : 0;
    this.window = Math.min(span, Math.max(few, Math.min(1.25 * round, 4 * few))) || 1;
  }

  resize() {
    this.surface = fitted(this.canvas);
  }

  zoom(factor) {
    this.zoomed = true;
    this.window = Math.min(Math.max(this.window * factor, this.page.span * 1e-9), this.page.span * 1.5);
  }

  // Where things are: the cursor stands at two thirds.
  measure(t, width, height) {
    this.left = Math.min(110, 0.16 * width);
    this.top = 14;
    this.rowHeight = (height - this.top - 34) / Math.max(this.page.meta.agents.length, 1);
    this.from = t - (2 * this.window) / 3;
    this.scale = (width - this.left - 12) / this.window;
    this.across = (time) => this.left + (time - this.from) * this.scale;
    this.row = (agent) => this.top + (agent + 0.5) * this.rowHeight;
  }

  draw(t) {
    const { context, width, height } = this.surface, { look, events } = this.page;
    this.measure(t, width, height);
    context.clearRect(0, 0, width, height);
    this.drawGrid(context, width, height);
    context.save();
    context.beginPath();
    context.rect(this.left, 0, width - this.left, height - 24);
    context.clip();
    const rows = events.overlapping(this.from, this.from + this.window);
    const drawn = this.drawArrows(context, rows);
    // What is yet to come is pale.
    context.fillStyle = look.paper;
    context.globalAlpha = 0.6;
    context.fillRect(this.across(t), 0, width, height);
    context.globalAlpha = 1;
    context.restore();
    context.fillStyle = look.accent;
    context.fillRect(this.across(t) - 1, 0, 2, height - 24);
    return { shown: rows.length, underway: rows.length, spread: 0, drawn, marks: 0, shownMarks: 0 };
  }

  drawGrid(context, width, height) {
    const { look, meta, chosen, span } = this.page, bottom = height - 24;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    const every = Math.ceil(13 / this.rowHeight);
    meta.agents.forEach((name, i) => {
      const mine = chosen && (chosen.agent === i || (chosen.link && chosen.link.includes(i)));
      context.fillStyle = mine ? look.accent : look.line;
      context.fillRect(this.left, this.row(i) - (mine ? 1 : 0.5), width - this.left - 12, mine ? 2 : 1);
      if (i % every && !mine) return;
      context.fillStyle = mine ? look.accent : look.ink;
      context.fillText(clipped(name, 13), this.left - 8, this.row(i), this.left - 12);
    });
    context.textAlign = "center";
    const round = meta.round_period;
    if (meta.rounds > 0 && round * this.scale > 14) {
      const to = Math.min(this.from + this.window, span, meta.rounds * round);
      for (let k = Math.max(0, Math.ceil(this.from / round)); k * round <= to; k++) {
        context.fillStyle = look.line;
        context.fillRect(this.across(k * round), 0, 2, bottom);
      }
    }
    context.fillStyle = look.soft;
    const digits = Math.max(5, Math.ceil(Math.log10(span / this.window)) + 3);
    for (const time of ticks(this.from, this.from + this.window, width / 130)) {
      if (time < 0 || time > span || this.across(time) < this.left + 14) continue;
      context.fillRect(this.across(time), bottom, 1, 5);
      context.fillText(`${short(time, digits)} s`, this.across(time), bottom + 14);
    }
  }

  drawArrows(context, rows) {
    const { events, look, chosen } = this.page, { depart, end, sender, receiver, cause, reply } = events;
    const heads = rows.length < 900, marked = rows.length < 2500;
    const few = Math.min(1, 500 / Math.max(rows.length, 1));
    return new Thinned(rows, MOST_DRAWN).forEach((row) => {
      const why = cause[row], reach = why ? Math.min(look.reach[why], 0.9) : 1;
      const x = this.across(depart[row]), y = this.row(sender[row]), yes = !chosen || this.page.concerns(sender[row], receiver[row]);
      let toX = this.across(Math.min(end[row], this.page.span)), toY = y + (this.row(receiver[row]) - y) * reach;
      if (why && toX - x < 1) {
        // What ended at once, as a loss that is decided when it is sent: a stub, or many would hide one another.
        toX = x + 9;
        toY = y + Math.sign(toY - y) * Math.min(Math.abs(toY - y), 0.9 * this.rowHeight, 26);
      }
      context.globalAlpha = yes ? (why ? 1 : 0.25 + 0.65 * few) : 0.07;
      context.strokeStyle = context.fillStyle = why ? look.colours[why] : look.kind(events.kind[row]).colour;
      context.lineWidth = yes && chosen ? 1.8 : 1.1;
      context.setLineDash(reply[row] ? [4, 3] : []);
      context.beginPath();
      context.moveTo(x, y);
      context.lineTo(toX, toY);
      context.stroke();
      if (why && yes && marked && look.causes[why] !== "in_flight") look.mark(context, why, toX, toY, 4.5);
      else if (!why && heads && yes) this.head(context, x, y, toX, toY);
    });
  }

  head(context, x, y, toX, toY) {
    const length = Math.hypot(toX - x, toY - y) || 1, ux = (toX - x) / length, uy = (toY - y) / length;
    context.beginPath();
    context.moveTo(toX, toY);
    context.lineTo(toX - 7 * ux - 3 * uy, toY - 7 * uy + 3 * ux);
    context.lineTo(toX - 7 * ux + 3 * uy, toY - 7 * uy - 3 * ux);
    context.closePath();
    context.fill();
  }

  pick(x, y) {
    const agent = Math.floor((y - this.top) / this.rowHeight);
    return agent >= 0 && agent < this.page.meta.agents.length ? { agent } : null;
  }
}
