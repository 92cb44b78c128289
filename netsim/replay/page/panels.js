// What stands beside: states and their colours, counts by cause with filters, kinds, what happens, notes.

// Entries of the list of what happens, at most.
const MOST_IN_STORY = 300;

class StatePanel {
  constructor(page, panel) {
    Object.assign(this, { page, panel });
    const select = panel.querySelector("select");
    panel.hidden = !page.states.names.length;
    select.append(...page.states.names.map((name, i) => element("option", name, { value: i })), element("option", "none", { value: -1 }));
    select.addEventListener("change", () => {
      page.states.shown = Number(select.value);
      page.views.map.sides = null;
      page.draw();
      page.keepAddress();
    });
    const momentary = panel.querySelector("[data-part=momentary]");
    momentary.addEventListener("change", () => {
      page.states.momentary = momentary.checked;
      page.draw();
    });
    this.words = panel.querySelector("[data-part=words]");
  }

  draw(t) {
    if (this.panel.hidden) return;
    const { states } = this.page, bar = this.panel.querySelector("[data-part=bar]");
    this.panel.querySelector("select").value = String(states.shown);
    this.drawWords();
    bar.hidden = states.shown < 0 || Boolean(states.category) || !(states.list[states.shown].high >= states.list[states.shown].low);
    if (bar.hidden) return;
    bar.dataset.state = states.isTree ? "depth" : plain(states.names[states.shown]);
    const { low, high, log } = states.range(states.momentary ? states.at(t) : null), one = high <= low;
    // Hops have a field for each.
    const steps = states.isTree && !states.momentary && high < 12 ? high + 1 : 0, place = bar.querySelector("div");
    const texts = steps ? Array.from({ length: steps }, (_, i) => String(i)) : one ? [short(low, 7), "", ""] : [low <= high ? short(low, 4) : "", log ? "logarithmic" : "", low <= high ? short(high, 4) : ""];
    if (place.children.length !== texts.length) place.replaceChildren(...texts.map(() => element("span")));
    [...place.children].forEach((each, i) => setText(each, texts[i]));
    bar.classList.toggle("steps", steps > 0);
    // One value has one colour, not a scale.
    bar.classList.toggle("one", one && !states.momentary);
    const stops = Array.from({ length: steps || 11 }, (_, i) => this.page.look.number(i / ((steps || 11) - 1 || 1)) + (steps ? ` ${(100 * i) / steps}% ${(100 * (i + 1)) / steps}%` : ""));
    bar.querySelector("i").style.background = one && !states.momentary ? stops[5] : `linear-gradient(90deg, ${stops.join(", ")})`;
  }

  // The words of a category, each with its colour and shape, and what else is drawn.
  drawWords() {
    const { states, look, shown } = this.page;
    // A sign that several runs have stands once; a state may be called as a role is.
    const list = ["legend", "letters"].flatMap((signs) => {
      const all = shown.flatMap(({ drawings }) => drawings[signs]());
      return [...new Map(all.map((each) => [each[1], each])).values()];
    });
    const key = `${states.category} ${look.theme} ${list.map(([, words]) => words)}`;
    if (key === this.listed) return;
    this.listed = key;
    this.words.hidden = !list.length;
    this.words.replaceChildren(...list.map(([sign, words]) => element("li", sign ? [iconOf(sign, 18).canvas, element("span", words)] : words)));
  }
}

class Counts {
  constructor(page, panel) {
    Object.assign(this, { page, panel });
    const { meta } = page, body = panel.querySelector("[data-part=counts] tbody");
    this.rows = new Map();
    // A cause of the ledger of which no frame is shown has no number among the events.
    const causes = [...new Set([...meta.causes, ...Object.keys(meta.counts)])];
    for (const cause of causes) this.rows.set(cause, this.add(body, cause, meta.causes.indexOf(cause)));
    [this.ended, this.total] = [element("td"), element("td")];
    body.append(element("tr", [element("th", "all", { scope: "row" }), this.ended, this.total], { "data-part": "total" }));
    this.kinds = new Set();
    this.read();
  }

  // Numbers of the whole run, and kinds that are new.
  read() {
    const { page, panel } = this, { meta, events } = page, kinds = panel.querySelector("[data-part=kinds]");
    for (const [cause, { row, all, index }] of this.rows) {
      const count = meta.counts[cause] || 0;
      all.textContent = all.dataset.count = String(count);
      row.hidden = !count && cause !== "delivered" && !events.cause.includes(index);
    }
    this.total.textContent = String(meta.total);
    for (const kind of new Set(page.shown.flatMap((run) => run.meta.kinds))) {
      if (this.kinds.has(kind)) continue;
      this.kinds.add(kind);
      const run = page.shown.find((each) => each.meta.kinds.includes(kind)), i = run.meta.kinds.indexOf(kind);
      const canvas = this.icon((context) => {
        const { shape, colour } = run.look.kind(i);
        paint(context, (c) => SHAPES[shape](c, 8, 8, 5), { fill: colour });
      });
      kinds.append(element("label", [this.box("keptKinds", (each) => each.meta.kinds.indexOf(kind)), canvas, kind], { "data-kind": kind }));
    }
    kinds.hidden = !this.kinds.size;
    // What hollow means, once there is a reply.
    if (!this.hollow && page.shown.some((run) => run.events.reply.includes(1))) {
      const canvas = this.icon((context) => paint(context, (c) => SHAPES.circle(c, 8, 8, 4.5), { stroke: page.look.ink, wide: 1.6 }));
      this.hollow = element("p", [canvas, "hollow: a reply"], { class: "hollow" });
    }
    if (this.hollow) kinds.append(this.hollow);
  }

  add(body, cause, index) {
    const { look } = this.page, label = element("label");
    if (index >= 0) label.append(this.box("keptCauses", () => index), this.icon((context) => look.mark(context, index, 8, 8, 5)));
    label.append(cause.replaceAll("_", " "));
    const now = element("td", "0", { "data-now": "" }), all = element("td", "", { "data-count": "" });
    const row = element("tr", [element("th", label, { scope: "row" }), now, all], { "data-cause": cause });
    body.append(row);
    return { row, now, all, index };
  }

  // Show the kinds of these names only; of none all.
  only(names) {
    const { shown, strip } = this.page, some = names.some((name) => this.kinds.has(name));
    for (const { events, meta } of shown) meta.kinds.forEach((kind, i) => (events.keptKinds[i] = !some || names.includes(kind) ? 1 : 0));
    for (const label of this.panel.querySelectorAll("[data-kind]")) label.querySelector("input").checked = !some || names.includes(label.dataset.kind);
    strip.resize();
  }

  // A box that filters the kind, or cause, whose number in each run a function finds.
  box(kept, of) {
    const box = element("input", "", { type: "checkbox" });
    box.checked = true;
    box.addEventListener("change", () => {
      for (const run of this.page.shown) if (of(run) >= 0) run.events[kept][of(run)] = box.checked ? 1 : 0;
      this.page.strip.resize();
      this.page.draw();
      this.page.keepAddress();
    });
    return box;
  }

  // A small picture of a shape, painted again when the colours change.
  icon(sign) {
    const { canvas, paint } = iconOf(sign, 16);
    (this.icons ||= []).push(paint);
    return canvas;
  }

  draw(t) {
    const counts = this.page.events.endedBy(t);
    let all = 0;
    for (const { now, index } of this.rows.values()) {
      if (index < 0) continue;
      all += counts[index];
      setText(now, String(counts[index]));
    }
    this.ended.textContent = String(all);
  }
}

// Of runs side by side: frames by their ends, agents by their words, curves, as all is by now, and the first less the second.
class Difference {
  constructor(page, panel) {
    Object.assign(this, { page, panel });
  }

  rows(t) {
    const { page } = this, { shown, states } = page, found = new Map(), put = (what, i, value) => found.set(what, Object.assign(found.get(what) || shown.map(() => null), { [i]: value }));
    shown.forEach((run, i) => {
      const ended = run.events.endedBy(t), at = countUpTo(run.columns["curves x"], t) - 1;
      for (const cause of new Set(shown.flatMap(({ meta }) => meta.causes.filter((each) => meta.counts[each])))) put(cause.replaceAll("_", " "), i, ended[run.meta.causes.indexOf(cause)] || 0);
      if (states.category) for (const word of states.order(states.category)) put(word, i, run.meta.agents.reduce((sum, _, agent) => sum + (run.valueOf(states.category, agent, t) === word), 0));
      run.meta.curves.forEach((name, k) => at >= 0 && !run.meta.causes.includes(name) && put(name.replaceAll("_", " "), i, run.columns[`curve ${k}`][at]));
    });
    return found;
  }

  draw(t) {
    const { page, panel } = this;
    panel.hidden = page.shown.length < 2;
    if (panel.hidden) return;
    const row = (what, cells, tag = "td") => {
      const found = cells.map((cell) => element(tag, cell, tag === "th" ? { scope: "col" } : {}));
      return element("tr", [element("th", what, { scope: "row" }), ...found]);
    };
    const letters = [...LETTERS.slice(0, page.shown.length)], show = (value) => (value === null || Number.isNaN(value) ? "–" : short(value, 4));
    panel.replaceChildren(row("by now", [...letters, "A − B"], "th"), ...[...this.rows(t)].filter(([, values]) => values.some((each) => each)).map(([what, values]) => row(what, [...values.map(show), values[0] === null || values[1] === null ? "–" : show(values[0] - values[1])])));
  }
}

// What agents note, and what fails, in order of time; a click goes there.
class Story {
  constructor(page, panel) {
    Object.assign(this, { page, panel, list: panel.querySelector("ol") });
    this.read();
  }

  read() {
    const all = new Map();
    this.page.shown.forEach(({ meta }, run) => {
      const { times = [], agents = [], texts = [] } = meta.marks || {};
      const add = (time, text, who = "") => {
        const key = `${time} ${who} ${text}`;
        if (!all.has(key)) all.set(key, { time, who, text, in: [] });
        all.get(key).in.push(run);
      };
      times.forEach((time, i) => add(time, `“${texts[i]}”`, clipped(meta.agents[agents[i]], 16)));
      for (const { text, begin, end, what } of meta.faults || []) {
        add(begin, what === "Join" ? text : shortened(text));
        if (end !== null && end !== undefined && what !== "Join") add(end, `over: ${shortened(text)}`);
      }
    });
    const found = [...all.values()].sort((one, other) => one.time - other.time);
    this.times = Float64Array.from(found.slice(0, MOST_IN_STORY), ({ time }) => time);
    this.panel.hidden = !found.length;
    this.at = null;
    this.list.replaceChildren(...found.slice(0, MOST_IN_STORY).map(({ time, who, text, in: runs }) => {
      const words = [element("time", `${short(time, 6)} s`), " ", this.page.inRuns(runs, ""), who ? element("b", `${who} `) : "", text];
      return element("li", newButton(words, () => this.page.player.seek(time)));
    }), ...(found.length > MOST_IN_STORY ? [element("li", `and ${found.length - MOST_IN_STORY} more`)] : []));
  }

  // The latest that has happened is marked, and kept in view.
  draw(t) {
    if (this.panel.hidden) return;
    const at = countUpTo(this.times, t) - 1;
    if (at === this.at) return;
    if (this.at >= 0 && this.list.children[this.at]) this.list.children[this.at].removeAttribute("aria-current");
    this.at = at;
    if (at < 0) return void (this.list.scrollTop = 0);
    const item = this.list.children[at], { list } = this;
    item.setAttribute("aria-current", "true");
    list.scrollTop = Math.max(item.offsetTop - list.offsetTop - list.clientHeight / 2, 0);
  }
}

// Without the times: they stand before it.
const shortened = (text) => text.replace(/ (for good )?(at|from) [0-9.e+-]+ s(?= |,|;|$)( to [0-9.e+-]+ s)?/, "").trim();

// The title, command, notes and versions.
function describe(page) {
  const { root, meta } = page, part = (name) => root.querySelector(`[data-part=${name}]`);
  part("title").textContent = meta.title;
  part("command").textContent = meta.command;
  const notes = [...meta.notes], { spreads, none } = page.events;
  if (spreads) notes.push(`${spreads} frames took no time (latency is 0): the map draws them over the rest of their round.`);
  if (none) notes.push(`${none} frames took no time and are of a kind that is answered, or outside rounds: they are not seen under way.`);
  if (meta.shown < meta.total && meta.omitted) notes.unshift(`Shown are ${meta.shown} of ${meta.total} link messages. ${meta.omitted}`);
  if (meta.film.most_film) notes.push(`The film is shortened to ${short(meta.film.most_film)} s: flights far from any moment take less than their half second.`);
  if (!meta.has_positions && meta.agents.length > 1) notes.push("The network has no positions: the map is a layout.");
  part("notes").replaceChildren(...notes.map((note) => element("li", note)));
  const versions = Object.entries(meta.versions).map(([name, version]) => `${name} ${version}`);
  part("versions").textContent = versions.join(" · ");
}
