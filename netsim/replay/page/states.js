// What the agents watched of themselves, and when: numbers, or words of a category.

// The word of look.role() for an agent that is down.
const DOWN = Symbol("down");

// A state's name as a word: "sink" of routing.is_sink.
const plain = (name) => name.split(".").pop().replace(/^(is|has)_/, "").replaceAll("_", " ");

function rangeOf(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return { low, high, log: low > 0 && high / low > 10 };
}

class States {
  constructor(page) {
    this.page = page;
    this.momentary = false;
    this.read();
    // Words tell more than numbers do.
    this.drawings = page.drawings = new Drawings(Object.assign(page, { states: this }));
    const { list, drawings } = this, number = list.findIndex(({ draw }) => draw && draw.as === "number");
    this.shown = this.first = drawings.all("role")[0] ?? (drawings.tree >= 0 ? drawings.tree : page.meta.live ? Math.min(0, list.length - 1) : number);
  }

  read() {
    const { columns, meta } = this.page, words = meta.words || {};
    this.names = meta.states;
    this.agents = meta.agents.length;
    this.changes = grouped(columns["state agents"], this.agents);
    this.times = columns["state times"];
    this.sent = columns["state sent"];
    this.watched = null;
    this.list = this.names.map((name, i) => {
      const values = columns[`state ${i}`];
      const whole = !words[name] && values.every((value) => Number.isNaN(value) || (Number.isInteger(value) && Math.abs(value) < 1e4));
      const draw = (meta.draw || {})[name] || null, usual = draw && draw.usual;
      return { values, whole, draw, words: words[name] || null, order: words[name] ? this.ordered(values, words[name], usual) : [], ...rangeOf(values) };
    });
    for (const state of this.list) if (state.draw && state.draw.middle !== undefined) {
      const far = Math.max(state.high - state.draw.middle, state.draw.middle - state.low);
      Object.assign(state, { low: state.draw.middle - far, high: state.draw.middle + far, log: false });
    }
    if (this.drawings) this.drawings.read();
  }

  // A category's words: first the usual one, or that in which most agents begin, then by when they first appear.
  ordered(values, words, usual) {
    const begin = new Float64Array(words.length), found = new Set();
    for (let agent = 0; agent < this.agents; agent++) {
      const first = values[this.changes(agent)[0]];
      if (first >= 0) begin[first]++;
    }
    if (words.length) found.add(usual ?? words[begin.indexOf(Math.max(...begin))]);
    for (const code of values) if (code >= 0 && found.size < words.length) found.add(words[code]);
    return [...found];
  }

  order(name) {
    const state = this.list[this.names.indexOf(name)];
    return state ? state.order : [];
  }

  // The name of the category that colours agents and lifelines; "" if they show numbers, or nothing.
  get category() {
    return this.shown >= 0 && this.list[this.shown].words && !this.isTree ? this.names[this.shown] : "";
  }

  // Whether an agent has any state at all: what only disturbs others has none.
  isWatched(agent) {
    this.watched ||= new Map();
    if (!this.watched.has(agent)) this.watched.set(agent, this.changes(agent).some((row) => this.list.some(({ values }) => !Number.isNaN(values[row]))));
    return this.watched.get(agent);
  }

  // Whether depths in a tree colour agents.
  get isTree() {
    return this.shown >= 0 && this.drawings.all("edge").includes(this.shown);
  }

  // What the colours span: the values of the whole run, or those of this moment.
  range(values) {
    if (this.isTree) return { low: 0, high: this.drawings.depth, log: false };
    return this.momentary && values ? rangeOf(values) : this.list[this.shown];
  }

  // The values of all agents at t, of the state that colours the map; of words their numbers.
  at(t, index = this.shown) {
    return index < 0 ? null : Float64Array.from({ length: this.agents }, (_, agent) => this.of(index, agent, t));
  }

  // What colours an agent: a number, a word's number, or the depth in a tree.
  coloured(agent, t) {
    return this.isTree ? this.drawings.treeAt(t, this.shown).depths[agent] : this.of(this.shown, agent, t);
  }

  // An agent that sends at t is shown as it was when it sent, and what it became then at that instant from there on: also as
  // the film stands at t.
  of(index, agent, t) {
    const rows = this.changes(agent), stands = this.page.player?.standsAt(t);
    let place = countUpTo(this.times, t, false, rows) - 1;
    while (place > 0 && !stands && this.times[rows[place]] === t && this.speaksBefore(agent, rows[place], t)) place--;
    return place < 0 ? NaN : this.list[index].values[rows[place]];
  }

  // Whether an agent sent at t, and only then came to a change at t.
  speaksBefore(agent, change, t) {
    const { events } = this.page, rows = events.sentBy(agent);
    const place = countUpTo(events.start, t, true, rows);
    return place < rows.length && events.start[rows[place]] === t && events.number[rows[place]] < this.sent[change];
  }

  // Whether a number of a state can stand beside its agent, with its name.
  isShort(index) {
    const state = this.list[index];
    if (!state || state.words || (state.draw && state.draw.as === "edge") || this.names[index].length > 10) return false;
    state.short ??= state.values.length < 20000 && state.values.every((value) => Number.isNaN(value) || short(value, 17).length <= 4);
    return state.short;
  }

  // A value of a state as text; "" for a word that is not there.
  text(index, value, digits = 7) {
    const { words } = this.list[index];
    return words ? (value >= 0 ? words[value] : "") : short(value, digits);
  }

  get beside() {
    return new Set(this.category ? this.drawings.all("badge") : []);
  }

  // What stands below an agent, behind its role: "term 5".
  badges(agent, t) {
    return this.drawings.all("badge").map((index) => {
      const value = this.of(index, agent, t), text = Number.isNaN(value) ? "" : this.text(index, value, 4);
      return !text || this.list[index].words ? text : `${this.names[index]} ${text}`;
    }).filter((text) => text).join(" · ");
  }

  // What stands beside the word of the category: other words as they are, numbers behind their name's first letter.
  rest(value) {
    return [...this.beside].filter((index) => index !== this.shown).map((index) => {
      const text = this.text(index, value(index), 4);
      return this.list[index].words || text === "–" ? text.replace("–", "") : `${this.names[index][0]}${text}`;
    }).filter((text) => text).join(" ");
  }

  // What an agent was, from when until when: its word in the category, and the rest beside it ("t2" for a term of 2).
  spans(agent) {
    const { list, page, shown } = this, found = [];
    if (!this.category) return found;
    for (const row of this.changes(agent)) {
      const word = this.text(shown, list[shown].values[row]), rest = this.rest((index) => list[index].values[row]);
      const last = found[found.length - 1], from = this.times[row];
      if (last && last.word === word && last.rest === rest) continue;
      if (last && last.from === from) found.pop();
      else if (last) last.to = from;
      found.push({ from, to: page.span, word, rest });
    }
    return found;
  }

  // Where a value stands in the range of colours.
  share(value, { low, high, log }) {
    if (!Number.isFinite(value)) return NaN;
    if (high <= low) return 0.5;
    return log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  }
}
