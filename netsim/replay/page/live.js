// A run that goes on: asks its server for what is new, and lets the page take it up.

const PAUSE = 500, PATIENCE = 20;

// Typed columns one behind the other, and a column's rows in an order.
function joined(one, other) {
  const both = new one.constructor(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}
const inOrder = (column, order) => Float64Array.from(order, (row) => column[row]);

class Live {
  constructor(page) {
    const { length, number } = page.meta.live, period = page.meta.round_period;
    Object.assign(this, { page, number, known: 0, running: true, since: "0.0.0.0.0", oldest: 0, flight: period || 1, runs: [], over: false, failures: 0 });
    this.length = length || 0;
    // What has ended, in the order in which the server sent it.
    this.ended = Object.fromEntries(EVENT_COLUMNS.map((name) => [name, new Float64Array(0)]));
  }

  begin() {
    const { page } = this;
    page.part("live").hidden = false;
    page.part("runs").addEventListener("change", () => this.go(Number(page.part("runs").value)));
    this.showState();
    page.player.play();
    this.ask();
  }

  async ask() {
    let spent = 0;
    try {
      const answer = await fetch(`more?since=${this.since}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const news = await answer.json(), begun = performance.now();
      await this.take(news);
      spent = performance.now() - begun;
      this.failures = 0;
    } catch (error) {
      this.failures++;
    }
    this.showState();
    // Once all is over and here there is nothing more to ask.
    if (this.over && !this.running) return;
    if (this.failures <= (this.running ? PATIENCE : 3)) setTimeout(() => this.ask(), Math.max(PAUSE, 4 * spent));
    else if (this.running) {
      Object.assign(this, { running: false, why: "the run's program has gone" });
      this.showState();
    }
  }

  async take(news) {
    Object.assign(this, { runs: news.runs, over: news.over });
    if (!this.running) return;
    const { page } = this, found = await unpack(news.packed);
    const { meta, shown } = this.merge(news, found);
    Object.assign(this, { since: news.since, known: news.known, running: news.running, why: news.why });
    meta.ended_at = news.known;
    if (!news.running) this.length = 0;
    page.renew(meta, { ...shown, ...this.rows(news, found) });
  }

  // The frames that have ended, the newest of them, with those under way, by their starts.
  merge(news, found) {
    const { page } = this, shown = {}, excess = Math.max(0, this.ended.start.length + found.start.length - news.most);
    for (const name of EVENT_COLUMNS) this.ended[name] = joined(this.ended[name], found[name]).slice(excess);
    const order = orderOf(joined(this.ended.start, found["open start"]));
    for (const name of EVENT_COLUMNS) shown[name] = inOrder(joined(this.ended[name], found[`open ${name}`]), order);
    const notes = [...news.notes], total = news.total, { start, depart, end, cause } = this.ended;
    this.flight = flightOf({ count: start.length, cause, depart, end }) || this.flight;
    const there = order.length;
    if (there < total) {
      this.oldest = start.length ? start.reduce((least, time) => Math.min(least, time), Infinity) : news.known;
      notes.unshift(`The newest ${there} of ${total} frames are shown, from ${short(this.oldest)} s on; counts are of all.`);
    }
    const { kinds, curves, counts, rounds, paths, labels, marks, faults, words, draw, film } = news;
    const meta = { ...page.meta, kinds, curves, counts, rounds, paths, labels, marks, faults, words, draw, film, total, shown: there, notes };
    return { meta, shown };
  }

  // Curves and states: from a row or a change on they are new.
  rows(news, found) {
    const { columns, meta } = this.page, kept = {};
    const extended = (name, from) => {
      const before = columns[name] || new Float64Array(columns["curves x"].length).fill(NaN);
      kept[name] = found[name] ? joined(before.slice(0, from), found[name]) : before;
    };
    for (const name of ["curves x", ...news.curves.map((_, i) => `curve ${i}`)]) extended(name, news.row);
    for (const name of ["times", "agents", "sent", ...meta.states.keys()]) extended(`state ${name}`, news.change);
    return kept;
  }

  showState() {
    const { page } = this, state = this.running ? "running" : "ended";
    const place = page.part("live"), parts = [state];
    place.dataset.state = state;
    if (this.running && this.failures) parts.push("no answer from the run");
    else if (this.running) parts.push(`known to ${short(this.known)} s`);
    if (this.why) parts.push(this.why);
    page.part("running").textContent = parts.join(" · ");
    const list = page.part("runs");
    list.hidden = this.runs.length < 2;
    if (list.options.length !== this.runs.length) {
      list.replaceChildren(...this.runs.map(([number, title]) => element("option", title, { value: number })));
      list.value = String(this.number);
    }
  }

  // The next run, if there is one, a moment after this one's end.
  next() {
    const after = this.number + 1;
    if (this.leaving) return;
    this.leaving = setInterval(() => {
      if (this.page.player.time < this.page.span) this.leaving = clearInterval(this.leaving);
      else if (this.runs.some(([number]) => number === after)) this.go(after);
    }, 1500);
  }

  go(number) {
    if (number !== this.number) location.assign(`../${number}/`);
  }
}
