// The inspector: what one agent sent and heard, or what a link carried, up to the time that is shown.

const LATEST = 12, MOST_PICKED = 2000;

class Inspector {
  constructor(page, panel) {
    Object.assign(this, { page, panel });
    this.title = panel.querySelector("[data-part=chosen]");
    this.body = panel.querySelector("[data-part=inspected]");
    this.idle = false;
    // Agents by their names: also without a pointer.
    this.pick = panel.querySelector("[data-part=pick]");
    this.pick.append(...page.meta.agents.slice(0, MOST_PICKED).map((name, i) => element("option", clipped(name, 30), { value: i })));
    this.pick.addEventListener("change", () => page.choose(this.pick.value === "" ? null : { agent: Number(this.pick.value) }));
  }

  draw(t) {
    const { chosen, meta, letter } = this.page, where = letter && ` in ${letter}`, picked = chosen && chosen.agent !== undefined ? String(chosen.agent) : "";
    // Where it would stand below a frame's edge it comes beside the map, but for an event, which has its words below the diagram.
    this.page.root.toggleAttribute("data-chosen", Boolean(chosen) && chosen.event === undefined);
    if (this.pick.value !== picked && document.activeElement !== this.pick) this.pick.value = picked;
    if (!chosen) {
      if (this.idle) return;
      this.idle = true;
      this.title.textContent = "Inspector";
      this.body.replaceChildren(element("p", "Click an agent or a link on the map, or an agent's line or an event in the space–time diagram; or choose an agent above.", { class: "hint" }));
      return;
    }
    this.idle = false;
    if (chosen.link) {
      const [i, j] = chosen.link;
      setText(this.title, `Link ${meta.agents[i]} – ${meta.agents[j]}${where}`);
      this.body.replaceChildren(...this.link(i, j, t));
    } else {
      setText(this.title, `Agent ${meta.agents[chosen.agent]}${where}`);
      this.body.replaceChildren(...this.agent(chosen.agent, t));
    }
  }

  // What became of some rows by t.
  count(rows, t) {
    const { events, meta } = this.page;
    const sums = { rows: 0, transmissions: 0, bits: 0, delay: 0, underway: 0, causes: meta.causes.map(() => 0), kinds: meta.kinds.map(() => 0), heard: meta.kinds.map(() => 0) };
    let last = -1;
    for (const row of rows) {
      if (events.start[row] > t) break;
      sums.rows++;
      sums.kinds[events.kind[row]]++;
      sums.bits += events.bits[row];
      if (events.number[row] > last) {
        last = events.number[row];
        sums.transmissions++;
      }
      if (events.end[row] > t) {
        sums.underway++;
        continue;
      }
      sums.causes[events.cause[row]]++;
      if (events.cause[row] !== 0) continue;
      sums.heard[events.kind[row]]++;
      sums.delay += events.end[row] - events.start[row];
    }
    return sums;
  }

  agent(agent, t) {
    const { events, meta, states } = this.page;
    const sent = this.count(events.sentBy(agent), t), got = this.count(events.sentTo(agent), t);
    const down = this.page.downAt(agent, t);
    const facts = states.names.map((name, i) => [name, states.text(i, states.of(i, agent, t)) || "–"]);
    if (down) facts.unshift(["now", DOWN_NOW[down.what]]);
    facts.push(["transmissions", String(sent.transmissions)], ["bits sent on links", sent.bits.toLocaleString("en")]);
    return [
      this.facts(facts),
      this.table(["by end", "sent by it", "sent to it"], [...this.causes(sent, got), ["under way", sent.underway, got.underway]]),
      this.table(["by kind", "sent by it", "heard by it"], meta.kinds.map((kind, k) => [kind, sent.kinds[k], got.heard[k]])),
      this.latest([events.sentBy(agent), events.sentTo(agent)], t),
    ];
  }

  link(i, j, t) {
    const { events, meta } = this.page;
    const [there, back] = [[i, j], [j, i]].map(([from, to]) => events.sentBy(from).filter((row) => events.receiver[row] === to));
    const a = this.count(there, t), b = this.count(back, t), [one, other] = [meta.agents[i], meta.agents[j]].map((name) => clipped(name, 12));
    const mean = (sums) => (sums.causes[0] ? `${short(sums.delay / sums.causes[0])} s` : "–");
    return [
      this.table(["by end", `${one} → ${other}`, `${other} → ${one}`], [...this.causes(a, b), ["under way", a.underway, b.underway],
        ["mean delay", mean(a), mean(b)], ["bits", a.bits.toLocaleString("en"), b.bits.toLocaleString("en")]]),
      this.table(["by kind", "sent", "sent"], meta.kinds.map((kind, k) => [kind, a.kinds[k], b.kinds[k]])),
      this.latest([there, back], t),
    ];
  }

  causes(a, b) {
    return this.page.meta.causes.map((cause, k) => [cause, a.causes[k], b.causes[k]]).filter(([cause, x, y]) => x || y || cause === "delivered");
  }

  facts(list) {
    return element("dl", list.flatMap(([name, value]) => [element("dt", name), element("dd", value)]), { class: "facts" });
  }

  table(heads, rows) {
    const head = element("tr", heads.map((text) => element("th", text, { scope: "col" })));
    const body = rows.map(([name, ...values]) => {
      const cells = [element("th", name, { scope: "row" }), ...values.map((value) => element("td", value))];
      return element("tr", cells, { "data-row": name });
    });
    return element("table", [head, ...body]);
  }

  // The last things that happened, with their times as the trace has them.
  latest(lists, t) {
    const { events, meta } = this.page, found = [];
    const note = (time, row, what) => {
      if (time > t || (found.length === LATEST && time < found[LATEST - 1].time)) return;
      const at = found.findIndex((each) => each.time <= time);
      found.splice(at < 0 ? found.length : at, 0, { time, row, what });
      found.length = Math.min(found.length, LATEST);
    };
    for (const rows of lists) {
      for (const row of rows) {
        if (events.start[row] > t) break;
        if (!events.keeps(row)) continue;
        note(events.start[row], row, "sent");
        note(events.end[row], row, meta.causes[events.cause[row]]);
      }
    }
    const items = found.map(({ time, row, what }) => {
      const names = `${meta.agents[events.sender[row]]} → ${meta.agents[events.receiver[row]]}`;
      const title = `transmission ${events.number[row]} of its sender, ${events.round[row] ? `round ${events.round[row]}` : "outside rounds"}, ${events.bits[row]} bits`;
      const text = `${clipped(names, 40)}, ${[meta.kinds[events.kind[row]], (meta.labels || [])[events.label[row]]].filter((part) => part).join(" ")}${events.reply[row] ? " (reply)" : ""}`;
      const end = element("b", what);
      if (what !== "sent") end.style.color = this.page.look.colours[events.cause[row]];
      return element("li", [element("time", `${short(time, 7)} s`, { title: `${time} s` }), " ", end, " ", text], { "data-row": row, title });
    });
    return element("ol", items, { class: "latest", "data-part": "latest" });
  }
}
