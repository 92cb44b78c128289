// The film's clock: it plays, pauses, and goes on from moment to moment, from arrival to arrival and from round to round.

const SPEEDS = [0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64];
// Seconds in which the film comes to the next moment at most, and to the next arrival.
const TO_MOMENT = 6, TO_ARRIVAL = 0.8, STANDING = 1e-4;

class Player {
  constructor(page) {
    Object.assign(this, { page, time: 0, film: 0, playing: false, speed: 1, goal: null });
  }

  // The film of all runs that are shown.
  get reel() {
    return this.page.reel;
  }

  // Where PageDown and PageUp stop: at moments, or where what is followed arrives.
  get stops() {
    const { trail, events } = this.page;
    return trail ? [...new Set(trail.list.map((row) => events.end[row]))].filter((time) => time < Infinity).sort((one, other) => one - other).map((time) => ({ time, film: this.reel.of(time), weight: 9 })) : this.reel.moments;
  }

  seek(time) {
    const asked = Math.min(Math.max(Number(time) || 0, 0), this.page.limit);
    this.put(this.reel.of(asked), asked);
  }

  put(film, time = this.reel.time(film)) {
    const { limit } = this.page;
    Object.assign(this, time < limit ? { film, time } : { film: Math.min(film, this.reel.length), time: limit });
    this.stands = this.film > this.reel.of(this.time) + 1e-6;
    this.page.draw();
  }

  // Whether the film stands at a time, and has come there before.
  standsAt(time) {
    return time === this.time && this.stands;
  }

  // How new something is: 1 as it happens, 0 after some seconds of film, and before.
  fresh(time, seconds) {
    const age = this.film - this.reel.of(time);
    return age < 0 || age > seconds ? 0 : 1 - age / seconds;
  }

  play(goal = null, seconds = 0) {
    const { page } = this;
    this.goal = goal;
    // To an arrival in just so many seconds, to a moment in at most so many.
    if (goal) this.rush = Math.max(seconds === TO_ARRIVAL ? 0 : 1, (goal.film - this.film) / (seconds * this.speed));
    if (this.playing) return;
    if (this.time >= page.span && !(page.live && page.live.running)) this.put(0);
    this.playing = true;
    this.last = performance.now();
    page.showControls();
    requestAnimationFrame((now) => this.frame(now));
  }

  pause() {
    Object.assign(this, { playing: false, goal: null });
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
    const passed = Math.min(Math.max(now - this.last, 0) / 1000, 0.1), { live, limit } = this.page, { film } = this;
    this.last = now;
    const next = film + passed * this.speed * (this.goal ? this.rush : 1);
    if (this.goal && next >= this.goal.film) return this.arrive();
    // Of a run that goes on: what is no longer there is passed over, and at the newest known time it holds.
    const end = limit < this.page.span ? this.reel.of(limit) : this.reel.length, at = Math.min(Math.max(next, live ? this.reel.of(live.oldest) : 0), end);
    if (at !== film) this.put(at);
    if (at >= end && !(live && live.running)) {
      this.pause();
      if (live) live.next();
      return;
    }
    requestAnimationFrame((then) => this.frame(then));
  }

  arrive() {
    const { goal } = this;
    this.pause();
    this.put(goal.film, goal.time);
  }

  // The film's end is behind what it stands for there.
  goalAt(time, film = time < this.page.span ? this.reel.of(time) : this.reel.length) {
    return { time, film };
  }

  faster(factor) {
    const near = SPEEDS.reduce((best, each) => (Math.abs(Math.log(each / this.speed)) < Math.abs(Math.log(best / this.speed)) ? each : best));
    this.speed = SPEEDS[Math.min(Math.max(SPEEDS.indexOf(near) + (factor > 1 ? 1 : -1), 0), SPEEDS.length - 1)];
    this.page.showControls();
    this.page.draw();
  }

  // Plays on to the next moment, and stands; asked again on the way it is there at once. Backwards it goes at once.
  moment(forward) {
    const { goal, film, stops, page } = this, next = stops.find((each) => each.film > film + 1e-3);
    // As the film stands there: with what comes of the moment.
    if (forward) return goal ? this.arrive() : this.play(next ? this.goalAt(next.time, next.film + STANDING) : this.goalAt(page.span), TO_MOMENT);
    if (this.playing) this.pause();
    const before = stops.findLast((each) => each.film < film - 0.4);
    this.put(before ? before.film + STANDING : 0, before ? before.time : 0);
  }

  // The next end of a shown frame, flown in less than a second, lest nobody sees where it came from; or the one before.
  arrival(forward) {
    if (this.goal) this.arrive();
    if (this.playing) this.pause();
    const found = this.page.shown.map(({ events }) => events.ending(this.time, forward)).filter((time) => !Number.isNaN(time));
    if (!forward) return this.seek(found.length ? Math.max(...found) : 0);
    this.play(this.goalAt(found.length ? Math.min(...found) : this.page.span), TO_ARRIVAL);
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
