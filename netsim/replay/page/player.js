// The clock of the page: plays, pauses, steps from event to event and from round to round.

class Player {
  constructor(page) {
    this.page = page;
    this.time = 0;
    this.playing = false;
    this.speed = (page.live && page.live.pace) || this.first();
  }

  // At which one can follow: a round in a second; without rounds the run in half a minute, but a frame flies for a third of
  // a second, as long as the run does not take more than five minutes. In a round number of simulated seconds a second.
  first() {
    const { span, meta: { rounds, round_period: period } } = this.page;
    if (rounds > 0 && period > 0) return Math.min(period, span);
    const flight = flightOf(this.page.events), speed = Math.max(Math.min(span / 30, 3 * flight || Infinity), span / 300);
    return Number(speed.toPrecision(1)) || speed;
  }

  seek(time) {
    this.time = Math.min(Math.max(Number(time) || 0, 0), this.page.limit);
    this.page.draw();
  }

  play() {
    if (this.playing) return;
    if (this.time >= this.page.span && !(this.page.live && this.page.live.running)) this.time = 0;
    this.playing = true;
    this.last = performance.now();
    this.page.showControls();
    requestAnimationFrame((now) => this.frame(now));
  }

  pause() {
    this.playing = false;
    this.page.showControls();
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
    const { live, limit } = this.page, before = this.time;
    // Of a run that goes on: what is no longer there is passed over, and at the newest known time it holds.
    this.time = Math.min(Math.max(before + passed * this.speed, live ? live.oldest : 0), limit);
    if (this.time >= limit && !(live && live.running)) {
      this.pause();
      if (live) live.next();
      return;
    }
    if (this.time !== before) this.page.draw();
    requestAnimationFrame((next) => this.frame(next));
  }

  faster(factor) {
    this.speed = Math.min(Math.max(this.speed * factor, this.page.span * 1e-9), this.page.span * 10);
    this.page.showControls();
    this.page.draw();
  }

  // To the next time, or the one before, at which a shown frame is sent or ends.
  step(forward) {
    if (this.playing) this.pause();
    const time = forward ? this.page.events.later(this.time) : this.page.events.earlier(this.time);
    this.seek(Number.isNaN(time) ? (forward ? this.page.limit : 0) : time);
  }

  round(forward) {
    const { round_period: period, rounds } = this.page.meta;
    if (!(rounds > 0)) return;
    if (this.playing) this.pause();
    // A time that is a round's opening but for rounding is that opening.
    const place = this.time / period, slack = 1e-9 * Math.max(1, place);
    const number = forward ? Math.floor(place + slack) + 1 : Math.ceil(place - slack) - 1;
    this.seek(Math.min(number, Math.max(rounds, place)) * period);
  }
}
