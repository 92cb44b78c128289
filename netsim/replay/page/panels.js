// What stands beside: states and their colours, counts by cause with filters, kinds, notes.

class StatePanel {
  constructor(page, panel) {
    Object.assign(this, { page, panel });
    const select = panel.querySelector("select");
    panel.hidden = !page.states.names.length;
    select.append(...page.states.names.map((name, i) => element("option", name, { value: i })), element("option", "none", { value: -1 }));
    select.addEventListener("change", () => {
      page.states.shown = Number(select.value);
      page.draw();
    });
    const momentary = panel.querySelector("[data-part=momentary]");
    momentary.addEventListener("change", () => {
      page.states.momentary = momentary.checked;
      page.draw();
    });
    const stops = Array.from({ length: 11 }, (_, i) => `rgb(${cividis(i / 10)})`);
    panel.querySelector("[data-part=bar] i").style.background = `linear-gradient(90deg, ${stops.join(", ")})`;
  }

  draw(t) {
    if (this.panel.hidden) return;
    const { states } = this.page, bar = this.panel.querySelector("[data-part=bar]");
    bar.hidden = states.shown < 0;
    if (bar.hidden) return;
    const { low, high, log } = states.range(states.at(t));
    const texts = [short(low, 4), log ? "logarithmic" : "", short(high, 4)];
    bar.querySelectorAll("span").forEach((each, i) => setText(each, texts[i]));
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
    const total = element("tr", "", { "data-part": "total" });
    this.ended = element("td", "");
    this.total = element("td", "");
    total.append(element("th", "all", { scope: "row" }), this.ended, this.total);
    body.append(total);
    this.kinds = 0;
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
    meta.kinds.slice(this.kinds).forEach((kind, more) => {
      const i = this.kinds + more;
      const label = element("label", "", { "data-kind": kind }), canvas = this.icon((context) => {
        context.beginPath();
        const { shape, colour } = page.look.kind(i);
        SHAPES[shape](context, 8, 8, 5);
        context.fillStyle = colour;
        context.fill();
      });
      label.append(this.box("keptKinds", i), canvas, kind);
      kinds.append(label);
    });
    this.kinds = meta.kinds.length;
    kinds.hidden = !meta.kinds.length;
  }

  add(body, cause, index) {
    const { look } = this.page;
    const row = element("tr", "", { "data-cause": cause }), head = element("th", "", { scope: "row" }), label = element("label");
    if (index >= 0) label.append(this.box("keptCauses", index), this.icon((context) => look.mark(context, index, 8, 8, 5)));
    label.append(cause.replaceAll("_", " "));
    head.append(label);
    const now = element("td", "0", { "data-now": "" }), all = element("td", "", { "data-count": "" });
    row.append(head, now, all);
    body.append(row);
    return { row, now, all, index };
  }

  box(kept, i) {
    const box = element("input", "", { type: "checkbox" });
    box.checked = true;
    box.addEventListener("change", () => {
      this.page.events[kept][i] = box.checked ? 1 : 0;
      this.page.strip.resize();
      this.page.draw();
    });
    return box;
  }

  // A small picture of a shape, painted again when the colours change.
  icon(paint) {
    const canvas = element("canvas", "", { width: 32, height: 32, class: "icon", "aria-hidden": "true" });
    const context = canvas.getContext("2d");
    context.scale(2, 2);
    const again = () => {
      context.clearRect(0, 0, 16, 16);
      paint(context);
    };
    again();
    (this.icons ||= []).push(again);
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

// The title, command, notes and versions.
function describe(page) {
  const { root, meta } = page, part = (name) => root.querySelector(`[data-part=${name}]`);
  part("title").textContent = meta.title;
  part("command").textContent = meta.command;
  const notes = [...meta.notes], { spreads, none } = page.events;
  if (spreads) notes.push(`${spreads} frames took no time (latency is 0): the map draws them over the rest of their round.`);
  if (none) notes.push(`${none} frames took no time and are of a kind that is answered, or outside rounds: they are not seen under way.`);
  if (meta.shown < meta.total && meta.omitted) notes.unshift(`Shown are ${meta.shown} of ${meta.total} link messages. ${meta.omitted}`);
  if (!meta.has_positions && meta.agents.length > 1) notes.push("The network has no positions: the map is a layout.");
  part("notes").replaceChildren(...notes.map((note) => element("li", note)));
  const versions = Object.entries(meta.versions).map(([name, version]) => `${name} ${version}`);
  part("versions").textContent = versions.join(" · ");
}
