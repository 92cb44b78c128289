// What is drawn of agents' states, as meta.draw declares it (netsim/draw.py): {as, …} by the state's name.

// A change glows, and an old edge fades, for so many seconds of film; of a pile so many are drawn.
const GLOW = 3, PILE = 6;
// Words in the legend at most.
const MOST_IN_LEGEND = 24;

class Drawings {
  constructor(page) {
    this.page = page;
    this.read();
  }

  read() {
    const { meta, states } = this.page;
    this.numbers = new Map(meta.agents.map((name, i) => [name, i]));
    this.kinds = {};
    states.list.forEach(({ draw }, i) => draw && (this.kinds[draw.as] ||= []).push(i));
    this.trees = new Map();
    this.changes = new Map();
    this.deepest = this.longest = null;
  }

  all(kind) {
    return this.kinds[kind] || [];
  }

  // The state whose edges colour agents by depth; -1 for none.
  get tree() {
    return this.all("edge").find((i) => this.page.states.list[i].draw.colour) ?? -1;
  }

  has(kind, agent, t) {
    const { states } = this.page;
    return this.all(kind).some((i) => ["True", "1"].includes(states.text(i, states.of(i, agent, t))));
  }

  // The agent at an edge's head; -1 for none, or itself.
  target(index, agent, value) {
    const { words } = this.page.states.list[index];
    const found = Number.isNaN(value) ? -1 : this.numbers.get(words ? words[value] : String(value)) ?? -1;
    return found === agent ? -1 : found;
  }

  // The value of a state, since when it is that, and what it was before.
  since(index, agent, t) {
    const { states } = this.page, { values } = states.list[index], key = index * this.numbers.size + agent, value = states.of(index, agent, t);
    // Other states may change a thousand times while this one stays.
    if (!this.changes.has(key)) this.changes.set(key, states.changes(agent).filter((row, i, rows) => !i || !Object.is(values[row], values[rows[i - 1]])));
    const rows = this.changes.get(key);
    let place = countUpTo(states.times, t, false, rows) - 1;
    while (place > 0 && !Object.is(values[rows[place]], value)) place--;
    return { value, from: place < 0 ? 0 : states.times[rows[place]], before: place > 0 ? values[rows[place - 1]] : NaN };
  }

  // Of all agents at t: whose edge leads where, how deep they hang (NaN: no way to a root), and how much hangs on them.
  treeAt(t, index = this.tree) {
    const { states, player, meta: { agents } } = this.page, kept = this.trees.get(index), stands = player?.standsAt(t);
    if (kept && kept.t === t && kept.stands === stands) return kept;
    const parents = agents.map((_, i) => this.target(index, i, states.of(index, i, t))), stars = agents.map((_, i) => this.has("star", i, t));
    const known = stars.some(Boolean), depths = new Float64Array(agents.length).fill(NaN), sizes = new Float64Array(agents.length);
    for (let i = 0; i < agents.length; i++) {
      let at = i, depth = 0;
      while (parents[at] >= 0 && !stars[at] && depth <= agents.length) (at = parents[at]), depth++;
      if (depth > agents.length || (known ? !stars[at] : !parents.includes(at))) continue;
      depths[i] = depth;
      for (let below = i, left = depth; left >= 0 && below >= 0; left--) sizes[below]++, (below = parents[below]);
    }
    const found = { t, stands, parents, depths, sizes };
    this.trees.set(index, found);
    return found;
  }

  // The greatest depth of the run, of an even selection of its changes.
  get depth() {
    const { times } = this.page.states, step = Math.max(1, Math.ceil(times.length / 100));
    if (this.deepest === null) {
      this.deepest = 1;
      for (let i = times.length - 1; i >= 0; i -= step) for (const each of this.treeAt(times[i]).depths) if (each > this.deepest) this.deepest = each;
    }
    return this.deepest;
  }

  drawEdges(context, stage, t) {
    const { look, player } = this.page;
    for (const index of this.all("edge")) {
      const { parents, sizes } = this.treeAt(t, index);
      parents.forEach((to, agent) => {
        const { from, before } = this.since(index, agent, t), fresh = from > 0 ? player.fresh(from, GLOW) : 0, old = this.target(index, agent, before);
        if (fresh && old >= 0 && old !== to) this.drawEdge(context, stage, agent, old, look.soft, 1.5, fresh, [4, 5]);
        if (to < 0 || this.page.downAt(agent, t)) return;
        const broken = this.page.downAt(to, t);
        this.drawEdge(context, stage, agent, to, fresh ? look.accent : broken ? look.soft : look.edge, Math.min(1.6 + 0.8 * Math.sqrt(sizes[agent]), 6) * (1 + 0.5 * fresh), broken ? 0.5 : 1, broken ? [3, 5] : []);
      });
    }
  }

  drawEdge(context, { x, y, radius, k }, from, to, colour, wide, alpha, dash) {
    const dx = x[to] - x[from], dy = y[to] - y[from], far = Math.hypot(dx, dy) || 1, [ux, uy] = [dx / far, dy / far], size = (3 + 1.6 * wide) * k;
    const [tipX, tipY] = [x[to] - ux * (radius + 3), y[to] - uy * (radius + 3)];
    const line = [x[from] + ux * radius, y[from] + uy * radius, tipX - ux * size, tipY - uy * size];
    const head = [[0, 0], [-ux - 0.6 * uy, -uy + 0.6 * ux], [-ux + 0.6 * uy, -uy - 0.6 * ux]];
    context.globalAlpha = alpha;
    paint(context, (c) => lines(c, 1, [line]), { stroke: colour, wide: wide * k, dash: dash.map((each) => each * k) });
    paint(context, (c) => polygon(c, size, head, tipX, tipY), { fill: colour });
    context.globalAlpha = 1;
  }

  // A broadcast that many hear is one ring.
  drawRing(context, stage, sender, reach, share, colour, strong) {
    context.globalAlpha = strong * (0.8 - 0.6 * share);
    paint(context, (c) => c.arc(stage.x[sender], stage.y[sender], stage.radius + reach * share, 0, TURN), { stroke: colour, wide: 1.7 * stage.k });
    context.globalAlpha = 1;
  }

  // What stands at an agent: a pile, a bar, a coin, a ring that runs out.
  drawBeside(context, stage, agent, t, waiting) {
    const { look, states } = this.page, { radius: r, k } = stage, x = stage.x[agent], y = stage.y[agent], value = (i) => states.of(i, agent, t);
    for (const index of this.all("arc")) {
      const { value: due, from } = this.since(index, agent, t), share = Math.min((due - t) / (due - from || 1), 1);
      if (!(due > t) || due === Infinity) continue;
      for (const [stroke, until] of [[look.faint, 1], [share < 0.3 ? look.accent : look.soft, share]]) {
        paint(context, (c) => c.arc(x, y, 1.42 * r, -TURN / 4, -TURN / 4 + TURN * until), { stroke, wide: 3.5 * k });
      }
    }
    const count = this.all("stack").length ? this.all("stack").reduce((sum, i) => sum + (value(i) || 0), 0) : waiting;
    for (let i = 0; i < Math.min(count, PILE); i++) this.bar(context, x + 0.85 * r + 3 * k, y + r - (i + 1) * 5 * k, 11 * k, 4 * k, look.kinds.length ? look.past : look.soft);
    if (count > PILE) {
      context.font = stage.font(0.95);
      context.textAlign = "left";
      look.write(context, String(count), x + 0.85 * r + 3 * k, y + r - PILE * 5 * k - 3 * k, 3 * k);
    }
    for (const index of this.all("gauge")) {
      const left = value(index), high = 1.7 * r;
      if (Number.isNaN(left)) continue;
      this.bar(context, x - r - 8 * k, y - high / 2, 5 * k, high, look.paper);
      this.bar(context, x - r - 8 * k, y + high / 2 - high * left, 5 * k, high * left, left < 0.2 ? look.accent : look.good);
    }
    if (!this.has("token", agent, t)) return;
    for (const [share, fill] of [[0.55, look.coin], [0.28, ""]]) {
      paint(context, (c) => c.arc(x + 0.9 * r, y - 0.9 * r, share * r, 0, TURN), { fill, stroke: "#14181d", wide: 1.4 * k });
    }
  }

  bar(context, x, y, wide, high, colour) {
    const { look } = this.page;
    Object.assign(context, { fillStyle: colour, strokeStyle: look.soft, lineWidth: 0.8 });
    context.fillRect(x, y, wide, high);
    context.strokeRect(x, y, wide, high);
  }

  // Entries of a strip: {first, cells: [{term, text, fixed}]}.
  cells(index, value) {
    const text = this.page.states.text(index, value), words = text && text !== "-" ? text.split(" ") : [];
    const first = words[0]?.[0] === "+" ? Number(words.shift().slice(1)) : 0;
    return { first, cells: words.map((word) => ({ fixed: word[0] === "!", term: word.replace(/^!/, "").split("|")[0], text: word.slice(word.indexOf("|") + 1) })) };
  }

  // How many cells rows have at most, of which agents, and the colours of terms.
  get rows() {
    const [index] = this.all("strip"), { states, meta } = this.page;
    if (index === undefined) return null;
    const { words, values } = states.list[index];
    if (this.longest?.words === words && this.longest.count === values.length) return this.longest;
    const terms = new Set();
    let most = 1;
    (words || []).forEach((_, code) => {
      const { cells } = this.cells(index, code);
      most = Math.max(most, cells.length);
      for (const { term } of cells) terms.add(term);
    });
    const list = [...terms].sort((one, other) => one - other);
    const agents = meta.agents.map((_, i) => i).filter((i) => states.changes(i).some((row) => !Number.isNaN(values[row])));
    return (this.longest = { words, count: values.length, index, most, agents, terms: new Map(list.map((term, i) => [term, TOKENS.terms[i % TOKENS.terms.length]])) });
  }

  // Logs in rows, index below index: solid what stands for ever, dashed what does not yet.
  drawStrips(context, stage, t) {
    const { index, most, agents, terms } = this.rows, { states, meta, look, player, page } = this.page, { left, top, cell, pitch } = stage.strips, { u } = stage, x0 = left + 2.6 * u;
    const say = (text, x, y, size, colour, style = "600", widest = undefined) => {
      context.font = stage.font(size, style);
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillStyle = colour;
      context.fillText(text, x, y, widest);
      context.textBaseline = "alphabetic";
    };
    let shift = 0;
    agents.forEach((agent, row) => {
      const { value, from, before } = this.since(index, agent, t), { first, cells } = this.cells(index, value), old = this.cells(index, before).cells, y = top + pitch * (row + 1), fresh = from > 0 && player.fresh(from, GLOW);
      shift = Math.max(shift, first);
      const looks = stage.looksOf(agent, t);
      paint(context, (c) => (SHAPES[looks.shape] || SHAPES.circle)(c, left + 1.1 * u, y + 0.5 * pitch, 0.9 * u), { fill: looks.fill, stroke: look.ink, wide: 0.08 * u });
      say(clipped(meta.agents[agent], 4), left + 1.1 * u, y + 0.52 * pitch, 1.05, looks.ink);
      for (let i = 0; i < most; i++) {
        const entry = cells[i], x = x0 + i * cell, box = [x + 0.04 * cell, y + 0.07 * pitch, 0.92 * cell, 0.86 * pitch];
        context.strokeStyle = look.faint;
        context.lineWidth = 0.06 * u;
        context.strokeRect(...box);
        if (!entry) continue;
        const { term, text, fixed } = entry, colour = term ? terms.get(term) : look.panel, news = fresh && (old[i]?.text !== text || old[i]?.term !== term || old[i]?.fixed !== fixed);
        context.globalAlpha = fixed ? 1 : 0.38;
        context.fillStyle = colour;
        context.fillRect(...box);
        context.globalAlpha = 1;
        context.strokeStyle = news ? look.accent : fixed ? look.ink : look.soft;
        context.lineWidth = (news ? 0.28 : fixed ? 0.14 : 0.09) * u;
        context.setLineDash(fixed ? [] : [0.25 * u, 0.25 * u]);
        context.strokeRect(...box);
        context.setLineDash([]);
        const ink = fixed ? inkOn(colour) : look.ink, size = Math.min(1.15, (0.6 * cell) / u), letters = Math.max(2, Math.floor(cell / (0.65 * size * u)));
        say(clipped(text, letters), x + cell / 2, y + (term ? 0.4 : 0.5) * pitch, size, ink, fixed ? "650" : "450", 0.82 * cell);
        if (term) say(`t${term}`, x + cell / 2, y + 0.74 * pitch, Math.min(0.8, (0.4 * cell) / u), ink, "400");
      }
      if (page.shown.length > 1 && page.differs(meta.agents[agent], t, [states.names[index]])) {
        context.strokeStyle = look.accent;
        context.lineWidth = 0.2 * u;
        context.strokeRect(x0 - 0.15 * u, y, most * cell + 0.3 * u, pitch);
      }
    });
    say(states.names[index].split(".").pop(), left + 1.1 * u, top + 0.5 * pitch, 1.05, look.soft, "450");
    for (let i = 0; i < most; i++) say(String(shift + i + 1), x0 + (i + 0.5) * cell, top + 0.5 * pitch, Math.min(1, (0.55 * cell) / u), look.soft, "450");
  }

  // A word of a category; True and False say nothing without the state's name.
  wordOf(word) {
    return ["True", "False"].includes(word) ? `${this.page.states.category} ${word}` : word;
  }

  // What the legend says: [a function that draws a sign of 18 pixels, words].
  legend() {
    const { states, look } = this.page, { category } = states, found = [], words = category ? states.order(category) : [], name = (i) => plain(states.names[i]);
    const at = { x: [9], y: [9], radius: 5, k: 1 }, put = (kind, sign, words = name) => this.all(kind).forEach((i) => found.push([sign, words(i)]));
    const stroke = (c, colour, wide = 2) => Object.assign(c, { strokeStyle: colour, lineWidth: wide }) && c.stroke();
    const agent = (c, shape, fill) => ((c.fillStyle = fill), (SHAPES[shape] || SHAPES.circle)(c, 9, 9, 6), c.fill(), stroke(c, look.ink, 1));
    for (const word of words.slice(0, MOST_IN_LEGEND)) found.push([(c) => agent(c, look.role(category, word).shape, look.role(category, word).colour), this.wordOf(word)]);
    if (words.length > MOST_IN_LEGEND) found.push([null, `and ${words.length - MOST_IN_LEGEND} more`]);
    if (this.page.fallen.size) found.push([(c) => (c.setLineDash([2, 2]), agent(c, "", look.paper), c.setLineDash([]), look.drawMark(c, "cross", look.accent, 9, 9, 6)), "down"]);
    put("edge", (c) => this.drawEdge(c, { x: [0, 18], y: [9, 9], radius: 0, k: 1 }, 0, 1, look.edge, 3, 1, []));
    if (states.isTree) found.push([(c) => (c.arc(9, 9, 6, 0, TURN), c.setLineDash([2, 2]), stroke(c, look.ink, 1.2)), "dotted rim: no way to the root"]);
    if (this.page.faults.some(isStray)) found.push([(c) => (c.arc(9, 9, 6, 0, TURN), c.setLineDash([1, 3]), stroke(c, look.bandline, 2.5)), "dotted ring: slow, or its clock wrong"]);
    put("star", (c) => (SHAPES.star(c, 9, 9, 6), stroke(c, look.ink, 1.5)));
    put("token", (c) => (c.arc(9, 9, 5, 0, TURN), (c.fillStyle = look.coin), c.fill(), stroke(c, "#14181d", 1.4)));
    put("stack", (c) => [3, 8, 13].forEach((y) => this.bar(c, 4, y, 11, 4, look.past)));
    put("gauge", (c) => (this.bar(c, at.x[0] - 3, 2, 6, 14, look.paper), this.bar(c, at.x[0] - 3, 7, 6, 9, look.good)));
    put("dim", (c) => ((c.globalAlpha = 0.35), c.arc(9, 9, 6, 0, TURN), stroke(c, look.ink)), (i) => `pale: ${name(i)}`);
    put("arc", (c) => (c.arc(9, 9, 6, -TURN / 4, TURN / 2), stroke(c, look.soft, 3)), (i) => `time left: ${name(i)}`);
    put("strip", (c) => (c.rect(3, 4, 12, 10), stroke(c, look.ink)), () => "committed; dashed: not yet");
    return found;
  }

  // What stands behind a role in the diagram, which has room for a name's first letter only.
  letters() {
    const { states, look } = this.page, sign = (i) => (c) => Object.assign(c, { font: "600 13px system-ui, sans-serif", fillStyle: look.ink }).fillText(`${states.names[i][0]}2`, 1, 14);
    return [...states.beside].filter((i) => !states.list[i].words).map((i) => [sign(i), plain(states.names[i])]);
  }
}
