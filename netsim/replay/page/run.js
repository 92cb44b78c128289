// A run as a stage shows it: frames, states and their drawings, faults, and the film, whose time slows where much happens.

// Faults by which agents are down, and the words at their begin and end.
const DOWNS = new Map([["Crash", ["crash", "restart"]], ["Leave", ["leaves", "is back"]], ["Join", ["", "joins"]], ["Empty", ["battery empty", "charged"]]]);
const DOWN_NOW = { Crash: "down", Leave: "has left", Join: "not there yet", Empty: "battery empty" };
// What runs side by side are called.
const LETTERS = "ABC";

// From the run's seconds to the film's and back, straight between two knots. Where the film stands, one time has two.
class Film {
  constructor({ time, film, moments, held }) {
    Object.assign(this, { times: time, films: film, moments, held, length: film[film.length - 1] });
  }

  between(from, to, value, place) {
    const i = Math.min(Math.max(place, 1), from.length - 1), wide = from[i] - from[i - 1];
    return wide > 0 ? to[i - 1] + (to[i] - to[i - 1]) * Math.min(Math.max((value - from[i - 1]) / wide, 0), 1) : to[i];
  }

  // When the film first comes to a time.
  of(time) {
    return this.between(this.times, this.films, time, countUpTo(this.times, time, true));
  }

  // When it leaves a time.
  leaves(time) {
    const i = countUpTo(this.times, time) - 1;
    return this.times[i] === time ? this.films[i] : this.of(time);
  }

  time(film) {
    return this.between(this.films, this.times, film, countUpTo(this.films, film));
  }

  // The run's seconds in a second of the film.
  rate(film) {
    const i = Math.min(Math.max(countUpTo(this.films, film), 1), this.films.length - 1);
    return (this.times[i] - this.times[i - 1]) / (this.films[i] - this.films[i - 1] || Infinity);
  }
}

// Films on one clock: at any time the slowest decides.
function together(films) {
  const times = [...new Set(films.flatMap((each) => each.times))].sort((one, other) => one - other), time = [0], film = [0], moments = new Map();
  let last = 0, gone = films.map(() => 0);
  for (const at of times) {
    const come = films.map((each) => each.of(at)), leave = films.map((each) => each.leaves(at));
    last += Math.max(...come.map((each, i) => each - gone[i]));
    time.push(at);
    film.push(last);
    last += Math.max(...leave.map((each, i) => each - come[i]));
    if (last > film.at(-1)) time.push(at), film.push(last);
    gone = leave;
  }
  const both = new Film({ time, film, moments: [], held: films[0].held });
  films.forEach((each, i) => each.moments.forEach((moment) => {
    const key = `${moment.time} ${moment.text}`;
    if (!moments.has(key)) moments.set(key, { ...moment, film: both.of(moment.time), in: [] });
    moments.get(key).in.push(i);
  }));
  both.moments = [...moments.values()].sort((one, other) => one.time - other.time);
  return both;
}

class Run {
  constructor(root, meta, columns) {
    Object.assign(this, { root, meta, columns });
    this.events = new Events(columns, meta);
  }

  // What is read of meta and columns, and again where they have grown.
  read() {
    const { ends } = this.events, x = this.columns["curves x"], known = countUpTo(ends, Number.MAX_VALUE), { meta } = this;
    // How long it all lasts: the strip's length.
    this.span = Math.max(meta.ended_at || 0, known ? ends[known - 1] : 0, x.length ? x[x.length - 1] : 0, this.live ? this.live.length : 0) || 1;
    this.film = new Film(meta.film);
    this.faults = (meta.faults || []).map((fault) => ({ ...fault, links: fault.links || [], agents: fault.agents || [] }));
    this.fallen = new Map();
    for (const { what, agents } of this.faults) if (DOWNS.has(what)) for (const agent of agents) this.fallen.set(agent, null);
    if (this.look) this.look.read();
    else this.look = new Look(this);
    if (this.states) this.states.read();
    else this.states = new States(this);
  }

  // Where an agent is down: {from, to, ended, words, what}.
  downs(agent) {
    const { span } = this;
    return this.faults.filter(({ what, agents }) => DOWNS.has(what) && agents.includes(agent))
      .map(({ what, begin, end }) => ({ from: what === "Join" ? 0 : begin, to: end ?? (what === "Join" ? begin : span), ended: end !== null && end !== undefined, words: DOWNS.get(what), what }));
  }

  downAt(agent, t) {
    if (!this.fallen.has(agent)) return undefined;
    if (!this.fallen.get(agent)) this.fallen.set(agent, this.downs(agent));
    return this.fallen.get(agent).find(({ from, to, ended, what }) => from <= t && (t < to || (!ended && what !== "Join")));
  }

  // A frame in words: its kind and label.
  title(row) {
    const { meta, events } = this, kind = meta.kinds[events.kind[row]], label = (meta.labels || [])[events.label[row]] || "";
    if (!label) return meta.kinds.length > 1 ? kind : "";
    return meta.kinds.length === 1 || label.startsWith(kind) ? label : `${kind} ${label}`;
  }

  // Whether the chosen link is that of two agents, or the chosen agent one of them.
  concerns(i, j) {
    const { link, agent } = this.page.chosen;
    return link ? link.includes(i) && link.includes(j) : i === agent || j === agent;
  }

  // All that is known of a frame, in a sentence or two.
  sentence(row) {
    const { meta, events, look } = this, { start, depart, end, cause, sender, receiver, reply, bits } = events;
    const title = this.title(row) || meta.kinds[events.kind[row]], why = cause[row], name = look.causes[why];
    const parts = [`${title}${reply[row] ? " (reply)" : ""}, ${this.names([sender[row]])} → ${this.names([receiver[row]])}: sent at ${short(start[row], 7)} s`];
    if (depart[row] > start[row]) parts[0] += `, left at ${short(depart[row], 7)} s`;
    if (!why) parts[0] += end[row] > start[row] ? `, arrived at ${short(end[row], 7)} s, after ${short(end[row] - start[row], 3)} s` : ", arrived at once";
    else if (name === "in_flight") parts[0] += ", still under way at the end";
    else parts[0] += `; it did not arrive: ${look.cause(why).words}, ${short(end[row], 7)} s`;
    parts[0] += `. ${bits[row]} bits.`;
    const other = this.overtook ? this.overtook[row] : -1;
    if (other >= 0) parts.push(`It overtook ${this.title(other) || "a frame"} of the same link, sent at ${short(start[other], 7)} s, which arrived at ${short(end[other], 7)} s.`);
    return parts.join(" ");
  }

  // A fault in words, a partition with its sides.
  captionOf({ sides, begin, end, text }, isBrief = false) {
    const { agents } = this.meta;
    const names = (sides || []).map((side) => side.slice(0, 8).map((i) => clipped(agents[i], 8)).join(" ") + (side.length > 8 ? ` and ${side.length - 8} more` : ""));
    const when = end === null || end === undefined ? `from ${short(begin)} s` : `${short(begin)} to ${short(end)} s`;
    return names.length ? `partition: ${names.join(" | ")}${isBrief ? "" : `, ${when}`}` : text;
  }

  // Agents by their names, of many their number.
  names(agents) {
    const list = [...new Set(agents)].map((i) => clipped(this.meta.agents[i], 16));
    return list.length > 6 ? `${list.length} agents` : list.length > 1 ? `${list.slice(0, -1).join(", ")} and ${list.at(-1)}` : list[0];
  }

  // What is under way, in a sentence: of two kinds at most, who sends what to whom.
  underway(t) {
    const { events, meta } = this, rows = events.overlapping(t, t, events.until), kinds = new Map();
    for (const row of rows.length > 5000 ? [] : rows) if (events.depart[row] <= t) kinds.set(events.kind[row], [...(kinds.get(events.kind[row]) || []), row]);
    const words = [...kinds].slice(0, 2).map(([kind, list]) => {
      const name = meta.kinds[kind], [from, to] = ["sender", "receiver"].map((end) => new Set(list.map((row) => events[end][row])));
      if (list.every((row) => events.isCast[row])) return `${this.names(from)} broadcast${from.size > 1 ? "" : "s"} ${name}`;
      if (from.size > 1 && to.size > 1) return `${list.length} × ${name} under way`;
      return `${this.names(from)} send${from.size > 1 ? "" : "s"} ${name} to ${this.names(to)}`;
    });
    return words.join(" · ") || (rows.length ? `${rows.length} frame${rows.length > 1 ? "s wait" : " waits"}` : "Nothing is under way");
  }

  // A state as it can be compared with that of another run.
  valueOf(name, agent, t) {
    const index = this.states.names.indexOf(name), { words } = this.states.list[index] || {}, value = index < 0 ? NaN : this.states.of(index, agent, t);
    return words ? words[value] : value;
  }

  // The frames that carry a thing: one label, or a word of a label, or where no label has it a kind; else one message.
  carrying(thing) {
    const { events, meta } = this, { labels = [] } = meta, order = (rows) => rows.sort((one, other) => events.depart[one] - events.depart[other]), all = [...events.start.keys()];
    const carried = labels.map((text) => text === thing || text.split(/[\s,()[\]{}'"]+/).includes(thing)), rows = all.filter((row) => carried[events.label[row]]);
    return order(rows.length ? rows : all.filter((row) => meta.kinds[events.kind[row]] === thing));
  }
}

// A run as a picture shows it, with a clock and words about it: the page's, or a still's. Others may stand beside it.
class Shown extends Run {
  // The round that is open at a time; 0: none is. At the end of the last one it is that which closes.
  round(time) {
    const { rounds, round_period: period } = this.meta, place = time / period;
    return rounds > 0 && place <= rounds * (1 + 1e-9) ? Math.min(Math.floor(place + 1e-9) + 1, rounds) : 0;
  }

  // A time with as many decimals as tell where a frame is: always as many, or it would jump.
  timeText(time) {
    const seen = this.view === "spacetime" ? Math.min(this.views.spacetime.window, this.span) : this.span;
    this.usual ||= flightOf(this.events) || this.span;
    return time.toFixed(Math.min(Math.max(Math.ceil(-Math.log10(Math.min(seen / 1000, this.usual / 8))), 0), 15));
  }

  // Beside the clock: how fast, which round, how many are under way.
  pace(time) {
    const { player, view, reel, meta } = this, parts = [], round = this.round(time), rate = reel.rate(player.film) * player.speed;
    if (rate > 0) parts.push(rate >= 1 ? `${short(rate, 2)}× as fast` : `slowed ${short(1 / rate, 1 / rate < 10 ? 2 : Math.ceil(Math.log10(1 / rate)))}×`);
    // The number of rounds is known at the run's end only.
    if (round) parts.push(`round ${round}${this.live && this.live.running ? "" : ` of ${meta.rounds}`}`);
    const { underway, spread } = this.drawn;
    if (view !== "map") parts.push(`${underway} frames${this.letter && ` of ${this.letter}`} in view`);
    else if (underway || !spread) parts.push(`${underway} under way`);
    if (spread) parts.push(`${spread} drawn over the round: latency is 0`);
    if (this.shown.length > 1) parts.push(`${meta.agents.filter((name) => this.differs(name, time)).length} of ${meta.agents.length} differ`);
    return parts.join(" · ");
  }

  // What is followed, of what goes from hand to hand its way, and what fails.
  going(time) {
    const { trail, events } = this, failing = this.of((run) => run.stage.failing());
    if (!trail) return failing;
    const gone = trail.list.filter((row) => events.end[row] <= time && !events.cause[row]), path = gone.map((row) => events.receiver[row]);
    const isPath = path.length && path.length <= 12 && gone.every((row, i) => !i || events.sender[row] === path[i - 1]);
    const way = isPath ? `: ${[events.sender[gone[0]], ...path].map((agent) => this.names([agent])).join(" → ")}` : "";
    return [`following “${clipped(trail.thing, 24)}”${way}`, ...failing];
  }

  // What happens at a time of the film: a moment that has just come, else what is under way; and which of the two it is.
  caption(t, film) {
    const { reel: { moments, held } } = this, last = moments.findLast((moment) => moment.film <= film + 1e-6);
    if (last && film - last.film < held) return [moments.filter(({ time }) => time === last.time).map(({ text, in: runs = [0] }) => this.inRuns(runs, text)).join(" · "), true];
    return [this.of((run) => [run.underway(t)]).join(" | "), false];
  }

  // What is so in some of the runs that are shown, by their numbers.
  inRuns(runs, text) {
    return runs.length < this.shown.length ? `${runs.map((i) => LETTERS[i]).join(", ")}: ${text}` : text;
  }

  // The texts that a function gives for each run, with the letters of those that have them.
  of(tell) {
    const found = new Map();
    this.shown.forEach((run, i) => tell(run).forEach((text) => found.set(text, [...(found.get(text) || []), i])));
    return [...found].map(([text, runs]) => this.inRuns(runs, text));
  }

  // The runs beside this one.
  get others() {
    return this.shown.filter((run) => run !== this);
  }

  // This run's, beside others.
  get letter() {
    return this.titles.length ? LETTERS[this.shown.indexOf(this)] : "";
  }

  get stage() {
    return this.views.map;
  }

  // Whether an agent is not in the same state in all runs. What runs on by itself differs all the time: it does not count.
  differs(name, t, only = null) {
    const { states, meta, others } = this, agent = meta.agents.indexOf(name), drawn = only || states.names.filter((_, i) => states.list[i].draw && !["arc", "dim"].includes(states.list[i].draw.as));
    return others.some((run) => {
      const same = run.meta.agents.indexOf(name);
      return same < 0 || Boolean(this.downAt(agent, t)) !== Boolean(run.downAt(same, t)) || drawn.some((each) => !Object.is(this.valueOf(each, agent, t), run.valueOf(each, same, t)));
    });
  }

  // Whether a frame flies in all runs alike.
  isShared(run, row) {
    const { start, sender, receiver, kind } = run.events, names = run.meta.agents;
    return this.shown.every((other) => {
      if (other === run) return true;
      const { events, meta } = other;
      for (let at = countUpTo(events.start, start[row], true); events.start[at] === start[row]; at++) {
        if (meta.agents[events.sender[at]] === names[sender[row]] && meta.agents[events.receiver[at]] === names[receiver[row]] && meta.kinds[events.kind[at]] === run.meta.kinds[kind[row]]) return true;
      }
      return false;
    });
  }
}

// A path through a run that is followed: the frames that carry a thing, and who sends or gets them.
class Trail {
  constructor({ events }, thing, list) {
    Object.assign(this, { thing, list, rows: new Set(list), agents: new Set(list.flatMap((row) => [events.sender[row], events.receiver[row]])) });
  }
}

// Another run beside the page's own, on the page's clock.
class Beside extends Run {
  constructor(page, { meta, columns }, pane) {
    super(page.root, meta, columns);
    this.page = page;
    this.read();
    this.look.scale = page.look.scale;
    this.stage = new Stage(this, pane.querySelector(".over"), pane.querySelector(".under")).listen();
  }

  get player() {
    return this.page.player;
  }

  get chosen() {
    return this.page.chosen;
  }
}
