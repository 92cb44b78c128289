// The strip below, even in the film's time: when frames ended, delivered ones above, others by cause below, or of several
// runs how many agents differ; the run's own seconds, which stand far apart where the film is slow; moments; and the slider.

class Strip {
  constructor(page, canvas, under) {
    Object.assign(this, { page, canvas, under });
    this.resize();
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.dragging = true;
      this.drag(event);
    });
    canvas.addEventListener("pointermove", (event) => this.dragging && this.drag(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => (this.dragging = false));
  }

  drag(event) {
    const box = this.canvas.getBoundingClientRect(), { player } = this.page;
    player.goal = null;
    player.put(Math.min(Math.max((event.clientX - box.left - 8) / (box.width - 16), 0), 1) * player.reel.length);
  }

  at(film) {
    return 8 + (film / this.page.player.reel.length) * (this.surface.width - 16);
  }

  // Counts of ended, kept frames by bin of the film and cause.
  histogram(bins) {
    const { events, player: { reel } } = this.page, counts = new Float64Array(bins * events.causes);
    for (let bin = 0, place = 0; bin < bins; bin++) {
      const until = bin === bins - 1 ? countUpTo(events.ends, Number.MAX_VALUE) : countUpTo(events.ends, reel.time(((bin + 1) / bins) * reel.length));
      for (; place < until; place++) if (events.keeps(events.order[place])) counts[bin * events.causes + events.cause[events.order[place]]]++;
    }
    return counts;
  }

  resize() {
    const { width, height } = (this.surface = fitted(this.canvas)), { page } = this, { look, events } = page;
    this.size = 0.95 * page.u;
    this.foot = 4 + 1.25 * this.size;
    this.under.width = this.canvas.width;
    this.under.height = this.canvas.height;
    const context = this.under.getContext("2d");
    context.scale(this.canvas.width / width, this.canvas.height / height);
    const inner = width - 16, bins = Math.max(1, Math.floor(inner / 3)), causes = events.causes, half = (height - this.foot) / 2, bar = inner / bins;
    if (page.shown.length > 1) {
      const { reel } = page.player, { agents } = page.meta;
      context.fillStyle = look.accent;
      const shares = Float64Array.from({ length: bins }, (_, bin) => agents.reduce((sum, name) => sum + page.differs(name, reel.time(((bin + 0.5) / bins) * reel.length)), 0) / agents.length);
      shares.forEach((share, bin) => context.fillRect(8 + bin * bar, half - 0.6 * half * share, bar + 0.5, 0.6 * half * share));
      return this.drawAxis(context, half, inner, height, null, [`agents that differ, of ${agents.length}`, new Float64Array(bins)]);
    }
    const counts = this.histogram(bins), ill = Float64Array.from({ length: bins }, (_, bin) => counts.subarray(bin * causes + 1, (bin + 1) * causes).reduce((sum, each) => sum + each, 0));
    const most = [counts.reduce((best, each, i) => (i % causes ? best : Math.max(best, each)), 0), Math.max(...ill)];
    for (let bin = 0; bin < bins; bin++) {
      const x = 8 + bin * bar, well = (half * counts[bin * causes]) / (most[0] || 1);
      context.fillStyle = look.colours[0];
      context.globalAlpha = 0.75;
      context.fillRect(x, half - well, bar, well);
      context.globalAlpha = 1;
      for (let cause = 1, y = half + 1; cause < causes; cause++) {
        const size = ((half - 1) * counts[bin * causes + cause]) / (most[1] || 1);
        context.fillStyle = look.colours[cause];
        context.fillRect(x, y, bar, size);
        y += size;
      }
    }
    const well = ill.map((_, bin) => counts[bin * causes] / most[0]);
    this.drawAxis(context, half, inner, height, most[0] ? [`delivered, at most ${most[0]}`, well] : null, most[1] ? [`other ends, at most ${most[1]}`, ill.map((each) => each / most[1])] : null);
  }

  drawAxis(context, half, inner, height, above, below) {
    const { look, span, player: { reel } } = this.page, room = 0.6 * this.size;
    context.fillStyle = look.soft;
    context.fillRect(8, half, inner, 1);
    context.font = `${this.size}px system-ui, sans-serif`;
    context.textBaseline = "alphabetic";
    let free = 0;
    for (const time of ticks(0, span, inner / (6 * this.size))) {
      const x = this.at(reel.of(time)), text = `${short(time)} s`, wide = context.measureText(text).width, left = Math.min(Math.max(x - wide / 2, 2), inner + 14 - wide);
      context.fillRect(x, height - this.foot, 1, 4);
      if (left < free) continue;
      context.textAlign = "left";
      context.fillText(text, left, height - 3);
      free = left + wide + room;
    }
    // Both stand at the axis: moments are marked above.
    if (above && !this.page.presenting) this.say(context, inner, above, half - 3);
    if (below && !this.page.presenting) this.say(context, inner, below, half + 0.95 * this.size);
    for (const { film, weight } of this.page.player.stops) {
      const x = this.at(film), size = (weight >= 7 ? 0.5 : 0.3) * this.size;
      paint(context, (c) => polygon(c, size, [[-1, 0], [1, 0], [0, 1.5]], x), { fill: weight >= 7 ? look.accent : look.soft });
    }
  }

  // A text where least of bars is behind it; at the right if it may be.
  say(context, inner, [text, shares], y) {
    const bar = inner / shares.length, wide = Math.ceil((context.measureText(text).width + 8) / bar);
    let least = Infinity, right = shares.length;
    for (let end = shares.length; end >= wide; end--) {
      const cost = shares.subarray(end - wide, end).reduce((sum, each) => sum + each, 0);
      if (cost < least - 1e-9) [least, right] = [cost, end];
    }
    context.textAlign = "right";
    this.page.look.write(context, text, 8 + right * bar - 4, y, 3);
  }

  draw(t) {
    const { context, width, height } = this.surface;
    context.clearRect(0, 0, width, height);
    context.drawImage(this.under, 0, 0, width, height);
    this.drawCursor();
    this.canvas.setAttribute("aria-valuenow", String(t));
    this.canvas.setAttribute("aria-valuetext", `${short(t)} seconds`);
  }

  drawCursor() {
    const { context, height } = this.surface, { look, player } = this.page, x = this.at(player.film);
    context.fillStyle = look.accent;
    context.fillRect(x - 1.5, 0, 3, height - this.foot + 2);
    paint(context, (c) => c.arc(x, (height - this.foot) / 2, 6, 0, TURN), { fill: look.accent, stroke: look.paper, wide: 2 });
  }
}
