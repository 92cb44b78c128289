// Happened-before, from the columns of frames alone. An event is what one agent does at one instant: it gets frames, notes
// something, takes another word, crashes or restarts, and sends. On its lifeline an event follows the one before it; a
// frame's arrival follows its sending; and what follows from these two. A frame that does not arrive orders nothing.
//
// Frames that take no time need more, as the trace does not say what came first within an instant. It is taken so: agents of
// rounds send first what answers nothing; of the others those begin to which no such frame comes, or an earlier one just came
// (if there is none: the first). Whoever gets a frame sends next, until it would address somebody a second time. A
// frame that arrives at an instant at which its receiver has already sent is an event of its own.

class Causality {
  // `local`: {time, agent, sent} of notes and such in order of time; sent (how many transmissions came first) may be missing.
  constructor(columns, agents, local = []) {
    Object.assign(this, { columns, agents });
    const { start, end, cause } = columns, arrived = orderOf(end).filter((row) => cause[row] === 0);
    const most = start.length + arrived.length + local.length;
    Object.assign(this, { count: 0, time: new Float64Array(most), agent: new Int32Array(most), before: new Int32Array(most) });
    // The events at which a row was sent and arrived (-1: it did not).
    this.sent = new Int32Array(start.length);
    this.got = new Int32Array(start.length).fill(-1);
    this.last = new Int32Array(agents).fill(-1);
    this.spoke = new Int32Array(agents).fill(-1);
    for (let s = 0, a = 0, l = 0; s < start.length || a < arrived.length || l < local.length;) {
      const now = Math.min(start[s] ?? Infinity, a < arrived.length ? end[arrived[a]] : Infinity, l < local.length ? local[l].time : Infinity);
      const [sends, arrivals, locals] = [s, a, l];
      let swift = false;
      for (; start[s] === now; s++) swift ||= cause[s] === 0 && end[s] === now;
      while (a < arrived.length && end[arrived[a]] === now) a++;
      while (l < local.length && local[l].time === now) l++;
      for (let i = arrivals; i < a; i++) if (start[arrived[i]] < now) this.receive(arrived[i], now);
      if (swift) new Instant(this, now, sends, s, local.slice(locals, l));
      else {
        for (let i = locals; i < l; i++) this.current(local[i].agent, now);
        for (let row = sends; row < s; row++) this.send(row, now);
      }
      if (!(now < Infinity)) break;
    }
    for (const name of ["time", "agent", "before"]) this[name] = this[name].slice(0, this.count);
    this.arrivals = grouped(this.got, this.count, arrived);
    this.sendings = grouped(this.sent, this.count);
    this.line = grouped(this.agent, this.agents);
    this.after = new Int32Array(this.count).fill(-1);
    this.before.forEach((before, event) => before >= 0 && (this.after[before] = event));
  }

  // The event of an agent at a time, a new one if it has none yet.
  current(agent, now, anew = false) {
    const last = this.last[agent];
    if (last >= 0 && this.time[last] === now && !anew) return last;
    const event = this.count++;
    this.time[event] = now;
    this.agent[event] = agent;
    this.before[event] = last;
    return (this.last[agent] = event);
  }

  receive(row, now) {
    const agent = this.columns.receiver[row];
    this.got[row] = this.current(agent, now, this.last[agent] >= 0 && this.spoke[agent] === this.last[agent]);
  }

  send(row, now) {
    const agent = this.columns.sender[row];
    this.sent[row] = this.spoke[agent] = this.current(agent, now);
  }

  // The events of an agent at a time: mostly one.
  at(agent, time) {
    const line = this.line(agent), first = countUpTo(this.time, time, true, line), found = [];
    for (let i = first; i < line.length && this.time[line[i]] === time; i++) found.push(line[i]);
    return found;
  }

  // Marks of the events before one, and of those after it.
  past(event) {
    return this.reached(event, -1, this.before, this.arrivals, this.sent);
  }

  future(event) {
    return this.reached(event, 1, this.after, this.sendings, this.got);
  }

  // Marks of the events that chains from one lead to. Events are numbered so that none is before one with a lower number.
  reached(event, step, next, rows, ends) {
    const marks = new Uint8Array(this.count);
    marks[event] = 1;
    for (let at = event; at >= 0 && at < this.count; at += step) {
      if (!marks[at]) continue;
      if (next[at] >= 0) marks[next[at]] = 1;
      for (const row of rows(at)) if (ends[row] >= 0) marks[ends[row]] = 1;
    }
    marks[event] = 0;
    return marks;
  }

  // The vector clock: of each agent the number of its events that are before this one, or this one.
  clock(event, past = this.past(event)) {
    const clock = new Int32Array(this.agents);
    for (let at = 0; at <= event; at++) if (past[at] || at === event) clock[this.agent[at]]++;
    return clock;
  }

  // The clocks of all events, one after the other.
  clocks() {
    const { agents, before, sent } = this, clocks = new Int32Array(this.count * agents);
    for (let event = 0; event < this.count; event++) {
      const own = clocks.subarray(event * agents, (event + 1) * agents);
      if (before[event] >= 0) own.set(clocks.subarray(before[event] * agents, (before[event] + 1) * agents));
      for (const row of this.arrivals(event)) {
        const from = sent[row] * agents;
        for (let i = 0; i < agents; i++) if (clocks[from + i] > own[i]) own[i] = clocks[from + i];
      }
      own[this.agent[event]]++;
    }
    return clocks;
  }

  // From one event to a later one with as few frames as possible: {events, rows}; null if the one is not before the other.
  chain(from, to) {
    const { before, sent } = this, hops = new Float64Array(to + 1).fill(Infinity), way = new Int32Array(to + 1).fill(-1);
    if (from > to) return null;
    hops[from] = 0;
    for (let at = from + 1; at <= to; at++) {
      if (before[at] >= from) hops[at] = hops[before[at]];
      for (const row of this.arrivals(at)) {
        if (sent[row] < from || hops[sent[row]] + 1 >= hops[at]) continue;
        hops[at] = hops[sent[row]] + 1;
        way[at] = row;
      }
    }
    if (hops[to] === Infinity) return null;
    const events = [to], rows = [];
    for (let at = to; at !== from; events.unshift(at)) {
      if (way[at] >= 0) rows.unshift(way[at]);
      at = way[at] >= 0 ? sent[way[at]] : before[at];
    }
    return { events, rows };
  }
}

// One instant at which frames take no time.
class Instant {
  constructor(causality, now, first, last, local) {
    Object.assign(this, { causality, now, lists: new Map(), local: new Map(), flying: [] });
    const { start, end, cause, sender, receiver, number } = causality.columns, met = new Set();
    for (const each of local) this.local.set(each.agent, [...(this.local.get(each.agent) || []), each]);
    for (let row = first; row < last; row++) {
      const found = this.lists.get(sender[row]) || this.lists.set(sender[row], new Map()).get(sender[row]);
      if (found.has(number[row])) found.get(number[row]).rows.push(row);
      else found.set(number[row], { number: number[row], rows: [row] });
      if (cause[row] === 0 && end[row] === now) met.add(receiver[row]);
    }
    this.agents = [...this.lists.keys()].sort((one, other) => one - other);
    for (const [agent, found] of this.lists) this.lists.set(agent, [...found.values()].sort((one, other) => one.number - other.number));
    this.begin(met);
    while (this.flying.length || this.agents.some((agent) => this.lists.get(agent).length)) this.wave();
    for (const agent of this.local.keys()) this.tell(agent, Infinity);
  }

  begin(met) {
    const { last, time, columns: { round, reply } } = this.causality;
    for (const agent of this.agents) {
      const list = this.lists.get(agent), inRounds = () => list.length && round[list[0].rows[0]] > 0 && !reply[list[0].rows[0]];
      const woken = !met.has(agent) || (last[agent] >= 0 && time[last[agent]] === this.now);
      if (inRounds()) while (inRounds()) this.transmit(agent);
      else if (woken) this.speak(agent);
    }
  }

  wave() {
    const heard = new Set();
    for (const row of this.flying.splice(0)) {
      this.causality.receive(row, this.now);
      heard.add(this.causality.columns.receiver[row]);
    }
    const able = this.agents.filter((agent) => this.lists.get(agent).length), next = able.filter((agent) => heard.has(agent));
    // Where all wait for one another, somebody has to begin.
    for (const agent of heard.size ? next : able.slice(0, 1)) this.speak(agent);
  }

  // Further transmissions of an agent, until one would go to somebody a second time.
  speak(agent) {
    const list = this.lists.get(agent), { receiver } = this.causality.columns, addressed = new Set();
    while (list.length && !list[0].rows.some((row) => addressed.has(receiver[row]))) {
      for (const row of list[0].rows) addressed.add(receiver[row]);
      this.transmit(agent);
    }
  }

  transmit(agent) {
    const { causality, now } = this, { cause, end } = causality.columns, { number, rows } = this.lists.get(agent).shift();
    this.tell(agent, number);
    for (const row of rows) {
      causality.send(row, now);
      if (cause[row] === 0 && end[row] === now) this.flying.push(row);
    }
  }

  // What an agent noted before a transmission.
  tell(agent, number) {
    const list = this.local.get(agent) || [];
    while (list.length && (list[0].sent ?? Infinity) <= number) {
      list.shift();
      this.causality.current(agent, this.now);
    }
  }
}

// By row the frame of the same sender to the same receiver that was sent before and that it overtook; -1: none.
function overtakings({ start, end, sender, receiver, cause, number }, agents) {
  const found = new Int32Array(start.length).fill(-1), latest = new Map();
  for (let row = 0; row < start.length; row++) {
    if (cause[row] !== 0) continue;
    const link = sender[row] * agents + receiver[row], other = latest.get(link);
    if (other === undefined || end[row] >= end[other]) latest.set(link, row);
    else if (number[row] !== number[other]) found[row] = other;
  }
  return found;
}
