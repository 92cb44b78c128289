// The clock of the page: plays, pauses, steps from event to event and from round to round.

class Player {
  constructor(page) {
    this.page = page;
    this.time = 0;
    this.playing = false;
    // The whole run in half a minute, in a round number of simulated seconds a second.
    this.speed = Number((page.span / 30).toPrecision(1)) || page.span / 30;
  }

  seek(time) {
    this.time = Math.min(Math.max(Number(time) || 0, 0), this.page.span);
    this.page.draw();
  }

  play() {
    if (this.playing) return;
    if (this.time >= this.page.span) this.time = 0;
    this.playing = true;
    this.last = performance.now();
    this.page.told();
    requestAnimationFrame((now) => this.frame(now));
  }

  pause() {
    this.playing = false;
    this.page.told();
    this.page.draw();
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  frame(now) {
    if (!this.playing) return;
    // A hidden tab gets no frames: what passed meanwhile is not made up for.
    const passed = Math.min(Math.max(now - this.last, 0) / 1000, 0.1);
    this.last = now;
    this.time = Math.min(this.time + passed * this.speed, this.page.span);
    if (this.time >= this.page.span) return this.pause();
    this.page.draw();
    requestAnimationFrame((next) => this.frame(next));
  }

  faster(factor) {
    this.speed = Math.min(Math.max(this.speed * factor, this.page.span * 1e-9), this.page.span * 10);
    this.page.told();
    this.page.draw();
  }

  // To the next time, or the one before, at which a shown frame is sent or ends.
  step(forward) {
    if (this.playing) this.pause();
    const time = forward ? this.page.events.later(this.time) : this.page.events.earlier(this.time);
    this.seek(Number.isNaN(time) ? (forward ? this.page.span : 0) : time);
  }

  round(forward) {
    const period = this.page.meta.round_period;
    if (!(period > 0)) return;
    if (this.playing) this.pause();
    // A time that is a round's opening but for rounding is that opening.
    const place = this.time / period, slack = 1e-9 * Math.max(1, place);
    const number = forward ? Math.floor(place + slack) + 1 : Math.ceil(place - slack) - 1;
    this.seek(number * period);
  }
}
