// A run as a stage shows it: frames, states and their drawings, faults, and the film, whose time slows where much happens.

// Faults by which agents are down, and the words at their begin and end.
const DOWNS = new Map([["Crash", ["crash", "restart"]], ["Leave", ["leaves", "is back"]], ["Join", ["", "joins"]], ["Empty", ["battery empty", "charged"]]]);
const DOWN_NOW = { Crash: "down", Leave: "has left", Join: "not there yet", Empty: "battery empty" };
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

  time(film) {
    return this.between(this.films, this.times, film, countUpTo(this.films, film));
  }

  // The run's seconds in a second of the film.
  rate(film) {
    const i = Math.min(Math.max(countUpTo(this.films, film), 1), this.films.length - 1);
    return (this.times[i] - this.times[i - 1]) / (this.films[i] - this.films[i - 1] || Infinity);
  }
}

class Run {
  constructor(root, meta, columns) {
    Object.assign(this, { root, meta, columns, chosen: null });
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

  // Agents by their names, of many their number.
  names(agents) {
    const list = [...new Set(agents)].map((i) => clipped(this.meta.agents[i], 16));
    return list.length > 6 ? `${list.length} agents` : list.length > 1 ? `${list.slice(0, -1).join(", ")} and ${list.at(-1)}` : list[0];
  }

  // What happens at a time of the film, in a sentence: a moment that has just come, else what is under way.
  caption(t, film) {
    const { moments, held } = this.film, { events, meta } = this, last = moments.findLastIndex(({ film: at }) => at <= film + 1e-6);
    if (last >= 0 && film - moments[last].film < held) return [moments.filter(({ time }) => time === moments[last].time).map(({ text }) => text).join(" · "), true];
    const rows = events.overlapping(t, t, events.until), kinds = new Map();
    for (const row of rows.length > 5000 ? [] : rows) if (events.depart[row] <= t) kinds.set(events.kind[row], [...(kinds.get(events.kind[row]) || []), row]);
    const words = [...kinds].slice(0, 2).map(([kind, list]) => {
      const name = meta.kinds[kind], from = this.names(list.map((row) => events.sender[row])), to = this.names(list.map((row) => events.receiver[row]));
      if (new Set(list.map((row) => events.sender[row])).size === 1) return `${from} sends ${name} to ${to}`;
      return new Set(list.map((row) => events.receiver[row])).size === 1 ? `${from} send ${name} to ${to}` : `${list.length} × ${name} under way`;
    });
    return [words.join(" · ") || (rows.length ? `${rows.length} frame${rows.length > 1 ? "s wait" : " waits"}` : "Nothing is under way"), false];
  }
}
