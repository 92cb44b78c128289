// A lab: settings on the left, branches on the right, and a menu on the map whose faults start new branches.

const LAB_TABS = ["branches", "settings"], LAB_PANELS = ["curves", "counts", "inspector"];
// Real milliseconds after which a program that does not answer is asked again, and how often.
const LAB_AGAIN = 1000, LAB_PATIENCE = 5;
// Agents, and links, that can be reached by Tab; of more, none of the links.
const MOST_REACHED = 200;

// Whether a fault in words can name nodes: their names must not be empty, or read as what may follow them.
const NAMEABLE = (target) => /\S/.test(target) && !/^-|-$|\s(by|until)\s+\S|\skeeping\s+state\s*$/.test(target.trim());

// Questions to the server that served the page.
const asked = (what, how) => fetch(what, { cache: "no-store", ...how }).then((answer) => answer.json());
const overHTTP = {
  state: (seen) => asked(`state?seen=${seen}`),
  run: (branch, place) => asked(`branch/${branch}/${place}`),
  act: (what, values) => asked(what, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(values) }),
};

// The same questions to the page that holds this one in a frame, as in a notebook.
function overFrame() {
  const open = new Map();
  let number = 0;
  window.addEventListener("message", ({ source, data }) => {
    if (source !== window.parent || !data || data.replay !== "answer" || !open.has(data.number)) return;
    open.get(data.number)(data.answer);
    open.delete(data.number);
  });
  const ask = (what, asked) => new Promise((done) => {
    open.set(++number, done);
    window.parent.postMessage({ replay: "ask", number, what, asked }, "*");
  });
  return { state: (seen) => ask("state", { seen }), run: (branch, place) => ask("run", { branch, place }).then(({ data }) => JSON.parse(data)), act: ask };
}

// The time shown, in as few digits as tell it from other events: what is seen has happened, and a fault comes after it.
function instantOf(page) {
  const { events, player: { time }, span, columns } = page, changes = columns["state times"] || [];
  if (!(time > 0)) return "0";
  // Faults happen before all else at their instant: at the next event is early enough, at the last one too early.
  const seen = countUpTo(changes, time), later = events.event(time, true), next = Math.min(later > time ? later : Infinity, seen < changes.length ? changes[seen] : Infinity);
  const before = events.event(Math.min(next, span * 2), false), last = Math.max(before >= 0 ? before : -1, seen ? changes[seen - 1] : -1);
  for (let digits = Math.max(0, 2 - Math.floor(Math.log10(span))); digits < 17; digits++) {
    for (const rounded of [Math.round, (value) => Math.floor(value) + 1]) {
      const found = Number((rounded(time * 10 ** digits) / 10 ** digits).toFixed(digits));
      if (found > last && found <= next) return String(found);
    }
  }
  return String(next);
}

class Lab {
  constructor(root, meta) {
    Object.assign(this, { root, about: meta.lab, parts: root.cloneNode(true), page: null, menu: null, opened: "", seen: 0, least: 0, current: 0, place: 0, beside: new Set() });
    this.server = meta.lab.framed ? overFrame() : overHTTP;
    this.state = { branches: [], controls: [], settings: {}, file_error: "" };
    // What of the current branch is to be shown, what is, and what is to happen once it is there.
    this.shown = this.loaded = "";
    this.begin = { time: 0, play: false };
    root.dataset.lab = "branches";
    // A notebook has its settings in Python.
    root.toggleAttribute("data-bare", Boolean(meta.lab.framed));
    // What goes wrong has the colour of what is lost.
    for (const theme of ["light", "dark"]) root.style.setProperty(`--warn-${theme}`, TOKENS.causes.lost[theme]);
    root.querySelector("[data-part=title]").textContent = meta.title;
    root.querySelector("[data-part=now]").textContent = "";
    this.tabs = element("nav", LAB_TABS.map((name) => newButton(capital(name), () => this.tab(name))), { class: "lab-tabs" });
    this.left = element("aside", "", { class: "lab-left", "aria-label": "Settings" });
    this.right = element("aside", "", { class: "lab-right", "aria-label": "Branches" });
    this.said = element("p", "", { class: "lab-said", role: "status" });
    root.append(this.tabs, this.left, this.right);
    this.buildRight();
    this.tab("branches");
    window.addEventListener("keydown", (event) => this.key(event), { capture: true });
    document.addEventListener("pointerdown", (event) => this.menu && !this.menu.contains(event.target) && this.close());
    this.ready = new Promise((done) => (this.firstShown = done));
    this.listen();
  }

  tab(name) {
    this.root.dataset.lab = name;
    [...this.tabs.children].forEach((tab, i) => tab.setAttribute("aria-pressed", String(LAB_TABS[i] === name)));
  }

  // --- what is new --------------------------------------------------------------------------------------------------

  async listen() {
    let failures = 0;
    while (failures < LAB_PATIENCE) {
      try {
        const state = await this.server.state(this.seen);
        failures = 0;
        this.seen = state.version;
        await this.take(state);
      } catch (error) {
        if (failures++ === 0) console.warn(error);
        await new Promise((done) => setTimeout(done, LAB_AGAIN));
      }
    }
    this.say("The lab's program has gone. What is here can be read and played.", true);
  }

  async take(state) {
    const before = JSON.stringify(this.state.controls);
    this.state = state;
    // A branch that was just started may be unknown to an answer that was under way.
    if (!this.branch && state.version >= this.least) this.choose(0);
    if (JSON.stringify(state.controls) !== before) this.buildLeft();
    this.showSettings();
    await this.show();
    this.showBranches();
  }

  get branch() {
    return this.state.branches.find(({ number }) => number === this.current);
  }

  get run() {
    const { runs } = this.branch || { runs: [] };
    return runs[Math.min(this.place, runs.length - 1)];
  }

  // Show the run of the current branch, once it is there, and beside it those of others that are.
  async show() {
    const { branch, run } = this;
    if (!branch || !run) return;
    const others = this.state.branches.filter(({ number, runs }) => number !== this.current && this.beside.has(number) && runs.length);
    const shown = [branch, ...others], keys = shown.map((each) => `${each.number} ${each.edition} ${run.name}`), key = keys.join(", ");
    if (key === this.shown) return;
    this.shown = key;
    const found = await Promise.all(shown.map(async (each) => {
      const { meta, packed } = await this.server.run(each.number, Math.min(branch.runs.indexOf(run), each.runs.length - 1));
      return { meta, columns: await unpack(packed) };
    }));
    // Meanwhile another branch may have been chosen.
    if (key !== this.shown) return;
    if (!this.loaded.startsWith(keys[0])) this.open(found[0].meta, found[0].columns);
    if (others.length || this.page.shown.length > 1) this.page.beside(found.slice(1), shown.map(({ name }) => name));
    this.loaded = key;
  }

  open(meta, columns) {
    const { root, page: old } = this, fresh = this.parts.cloneNode(true), kept = old && keptOf(old);
    this.close();
    if (old) old.leave();
    for (const each of [...root.children]) if (![this.tabs, this.left, this.right].includes(each)) each.remove();
    root.prepend(...fresh.children);
    root.removeAttribute("data-beside");
    const page = (this.page = new Page(root, { ...meta, title: `Lab: ${meta.title}`, lab: this.about }, columns));
    this.addPanels();
    // The panel of counts is closed: the legend, and what differs, stand below the branches.
    this.legend.replaceChildren(page.part("difference"), page.part("states"));
    this.listenTo(page);
    this.addReach(page);
    root.dataset.ready = "";
    if (kept) keep(page, kept);
    page.part("larger").setAttribute("aria-pressed", String(page.textScale > 1));
    const { time, play } = this.begin, show = page.showControls.bind(page);
    // A lab runs where a replay plays.
    page.showControls = () => {
      show();
      if (!page.player.playing) page.part("play").textContent = "▶ Run";
    };
    page.showControls();
    page.resize();
    page.player.seek(time === null ? (kept ? kept.time : 0) : time);
    if (play || (kept && kept.playing)) page.player.play();
    this.begin = { time: null, play: false };
    Object.assign(window.replay, handle(page));
    this.firstShown(page);
  }

  // The page's own panels, of which each is shown when it is asked for.
  addPanels() {
    this.page.part("to-map").parentElement.append(...LAB_PANELS.map((name) => newButton(capital(name), () => this.panel(name), { "data-panel": name })));
    this.showPanel();
  }

  // Open a panel, of which one at most is open, or close it.
  panel(name, open = this.opened !== name) {
    this.opened = open ? name : "";
    this.showPanel();
    this.page.resize();
  }

  showPanel() {
    this.root.dataset.panel = this.opened;
    for (const button of this.root.querySelectorAll("button[data-panel]")) button.setAttribute("aria-pressed", String(this.opened === button.dataset.panel));
  }

  // --- settings -----------------------------------------------------------------------------------------------------

  buildLeft() {
    const fields = this.state.controls.map((control) => this.field(control));
    const hint = element("p", "A change runs every branch again. Same settings and seed, same run.", { class: "lab-hint" });
    this.fields = fields;
    // What the study chooses by itself is folded.
    const open = fields.filter((_, i) => !this.state.controls[i].optional), folded = fields.filter((field) => !open.includes(field));
    const boxes = (some) => some.map(({ box }) => box), more = element("details", [element("summary", `${folded.length} more`), ...boxes(folded)]);
    this.left.replaceChildren(element("h2", "Settings"), ...boxes(open), ...(folded.length ? [more] : []), hint);
    if (!fields.length) hint.textContent = "It has no parameters: those of a function make(*, loss: float = 0.1) would stand here.";
  }

  // A parameter's control: {box, read the settings into it}.
  field(control) {
    const { name, label, sort, optional, low, high, step } = control, set = (value) => this.set(name, value);
    // An emptied field has the default, as the command without the flag has.
    const placeholder = control.default === null ? (optional ? "open" : "") : String(control.default);
    const type = { switch: "checkbox", text: "text" }[sort] || "number", value = sort === "switch" ? "checked" : "value";
    const typed = sort === "choice"
      ? element("select", control.choices.map((choice) => element("option", choice, { value: choice })), { name })
      : element("input", "", { type, name, placeholder, step: "any", "aria-label": label });
    const write = [(setting) => (typed[value] = setting ?? "")], heading = element("label", [label, typed]);
    const box = element("div", heading, { class: `lab-field ${sort}`, title: control.help });
    // As text: a number here would lose digits of a large seed.
    typed.addEventListener("change", () => (typed.validity.badInput ? this.say(`${label}: must be a number`, true) : set(typed[value])));
    if (sort === "slider") {
      const slide = element("input", "", { type: "range", name, min: low, max: high, step, "aria-label": `${label}, slider` });
      slide.addEventListener("input", () => (typed.value = slide.value));
      slide.addEventListener("change", () => set(slide.value));
      write.push((setting) => Object.assign(slide, { max: Math.max(high, setting), min: Math.min(low, setting), value: setting }));
      box.append(slide);
    }
    if (sort === "seed") heading.append(newButton("⚄", () => set(Math.floor(Math.random() * 10000)), { title: "Another seed", "aria-label": `Another ${label.toLowerCase()}` }));
    // One that was emptied has its default again.
    box.addEventListener("focusout", ({ target }) => target.value === "" && write.forEach((act) => act(this.state.settings[name])));
    return { box, read: (settings) => write.forEach((act) => act(settings[name])) };
  }

  showSettings() {
    // What is being typed stays.
    for (const field of this.fields || []) if (!field.box.contains(document.activeElement) || document.activeElement.type === "range" || document.activeElement.tagName === "BUTTON") field.read(this.state.settings);
  }

  set(name, value) {
    this.begin = { time: null, play: false };
    this.act("settings", { values: { [name]: value }, branch: this.current });
  }

  // --- branches -----------------------------------------------------------------------------------------------------

  buildRight() {
    const head = element("div", [element("h2", "Branches"), element("span", "each repeats exactly", { class: "lab-soft" })], { class: "lab-head" });
    this.runs = element("select", "", { hidden: true, "aria-label": "Run of the study" });
    this.runs.addEventListener("change", () => this.choosePlace(Number(this.runs.value)));
    this.tree = element("ul", "", { class: "lab-tree" });
    this.legend = element("div", "", { class: "lab-legend" });
    this.command = element("pre", "");
    this.hash = element("p", "", { class: "lab-hash" });
    // In what its order of one instant differs from the usual one.
    this.words = element("ul", "", { class: "lab-hash lab-words" });
    const copied = (what) => async () => {
      const text = this.branch[what];
      this.command.textContent = text;
      await navigator.clipboard.writeText(text).then(() => this.say("Copied."), () => this.say("It stands above: the browser did not let it be copied."));
    };
    this.toSweep = newButton("As a sweep’s point", copied("sweep"), { title: "Show and copy the command of a sweep that has this branch among its points" });
    const buttons = element("div", [
      newButton("Copy", copied("command"), { title: "Copy the command that repeats this branch" }),
      newButton("Save as script", () => this.save(), { title: "A Python file that repeats this branch" }),
      newButton("Another order", () => this.reorder(), { title: "A branch in which what an agent could do at one instant comes in another order" }),
      this.toSweep,
    ], { class: "lab-row" });
    this.right.append(head, this.runs, this.tree, this.legend, element("h2", "This branch again"), this.command, this.hash, this.words, buttons, this.said);
  }

  // Branches with their depths, each after the one that it leaves.
  ordered() {
    const { branches } = this.state, found = [];
    const visit = (branch, depth) => {
      found.push({ branch, depth });
      for (const each of branches) if (each.parent === branch.number) visit(each, depth + 1);
    };
    if (branches.length) visit(branches[0], 0);
    return found;
  }

  showBranches() {
    const rows = this.ordered(), { branch, run } = this, held = document.activeElement && document.activeElement.dataset.branch;
    this.tree.replaceChildren(...rows.map(({ branch: each, depth }) => {
      const chosen = each.number === this.current, item = element("li", this.card(each), { style: `--depth: ${Math.min(depth, 6)}`, class: depth ? "child" : "" });
      if (chosen) item.setAttribute("aria-current", "true");
      if (each.parent >= 0) {
        const title = `Delete this branch${rows.some((row) => row.branch.parent === each.number) ? ", and those that leave it" : ""}`;
        item.append(newButton("×", () => this.drop(each), { class: "lab-drop", title, "aria-label": `Delete ${each.name}` }));
      }
      if (!chosen && each.runs.length) {
        const title = "Show this branch beside the current one, on one clock";
        item.append(newButton("beside", () => this.toggleBeside(each), { class: "lab-beside", title, "aria-pressed": String(this.beside.has(each.number)) }));
      }
      return item;
    }));
    if (held) this.tree.querySelector(`[data-branch="${held}"]`)?.focus();
    const shared = branch ? branch.runs : [];
    this.runs.hidden = shared.length < 2;
    this.runs.replaceChildren(...shared.map(({ name }, i) => element("option", `Run: ${name}`, { value: i })));
    this.runs.value = String(Math.min(this.place, shared.length - 1));
    if (!branch) return;
    this.command.textContent = branch.command;
    this.toSweep.hidden = !branch.sweep;
    this.hash.textContent = branch.hash ? `trace hash ${branch.hash}` : "";
    this.words.replaceChildren(...branch.words.map((text) => element("li", text)));
    this.showTrouble(branch, run);
  }

  // On the same clock as the current branch: at most two more.
  toggleBeside({ number }) {
    if (!this.beside.delete(number)) this.beside = new Set([...this.beside, number].slice(-2));
    this.showBranches();
    this.show();
  }

  card(branch) {
    const run = branch.runs[Math.min(this.place, branch.runs.length - 1)], states = { running: branch.progress || "simulating …", waiting: "waits", cancelled: "cancelled" };
    const facts = [states[branch.state], run && run.last && `${run.last.name} ${run.last.text}`].filter((fact) => fact).map((fact) => element("span", fact));
    if (branch.error && branch.state === "failed") facts.push(element("span", "✕ failed", { class: "warn" }));
    // Its own number, by which Python knows it, too: places change as branches are deleted.
    const title = element("b", [branch.name, element("kbd", branch.number)]);
    return newButton([title, element("span", facts, { class: "lab-numbers" })], () => this.choose(branch.number), { class: "lab-card", "data-branch": branch.number });
  }

  // Errors of the user's file and agents, and a run that takes its time.
  showTrouble(branch, run) {
    const text = this.state.file_error || (branch.state === "failed" ? branch.error : "");
    const old = this.root.querySelector(".lab-trouble");
    if (old) old.remove();
    const busy = branch.state === "running" || branch.state === "waiting", held = branch.state === "cancelled";
    if (!text && !busy && !held) return;
    const said = text || (held ? `${branch.name}: cancelled` : `Simulating ${branch.name}${branch.progress ? ` · ${branch.progress}` : " …"}`);
    const box = element("div", element("span", said), { class: `lab-trouble${text ? " wrong" : ""}`, role: text ? "alert" : "status" });
    if (busy || held) box.append(newButton(held ? "Run it" : "Cancel", () => this.act("cancel", { branch: branch.number })));
    else if (!run) this.root.querySelector("[data-part=now]").textContent = "";
    this.root.querySelector("main").append(box);
  }

  choose(number, begin = { time: null, play: false }) {
    this.current = number;
    this.begin = begin;
    if (!this.state.branches.length) return;
    this.showBranches();
    this.show();
  }

  choosePlace(place) {
    this.place = place;
    this.choose(this.current);
  }

  drop(branch) {
    if (branch.number === this.current) this.current = branch.parent;
    this.beside.delete(branch.number);
    this.act("delete", { branch: branch.number });
  }

  save() {
    const { name, script, state } = this.branch;
    if (state !== "done") return this.say("This branch has not been simulated to its end.", true);
    const file = `${`${this.about.study.split(/[\\/]/).pop().replace(/\.py$/, "")} ${name}`.replace(/[^A-Za-z0-9.]+/g, "_")}.py`;
    // A frame may not write files.
    if (this.about.framed) return (this.command.textContent = script), this.say("Copy it: a notebook’s frame writes no files.");
    const link = element("a", "", { href: URL.createObjectURL(new Blob([script], { type: "text/x-python" })), download: file });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    this.say(`Saved as ${file}: run it with Python.`);
  }

  async act(what, asked) {
    try {
      const answer = await this.server.act(what, asked);
      this.say(answer.error || "", Boolean(answer.error));
      this.least = answer.version || this.least;
      if (answer.error) this.showSettings();
      return answer.error ? null : answer.branch;
    } catch (error) {
      this.say("The lab's program does not answer.", true);
      return null;
    }
  }

  say(text, wrong = false) {
    this.said.textContent = text;
    this.said.classList.toggle("warn", wrong);
  }

  // --- faults -------------------------------------------------------------------------------------------------------

  fault(what, target, more = "") {
    const { page } = this, at = instantOf(page);
    this.close();
    if (!NAMEABLE(target)) return this.say("A fault in words cannot have that name: give it to the network in Python.", true);
    if (Number(at) >= page.meta.ended_at) return this.say("The run is over by then: a fault needs an earlier time.", true);
    return this.leave(`${at} ${what} ${target}${more}`, Number(at));
  }

  // Start a branch of the current one. It runs on from a time, beside the one that it leaves.
  async leave(text, time) {
    const branch = await this.act("fault", { branch: this.current, text });
    if (branch === null) return;
    this.beside = new Set([this.current]);
    this.choose(branch, { time, play: true });
  }

  // A branch of the current one in the next order that has not been tried.
  reorder() {
    const { at } = this.branch, tried = new Set(this.state.branches.filter((each) => each.at === at).map((each) => each.order));
    let seed = 1;
    while (tried.has(String(seed))) seed += 1;
    return this.leave(`order ${seed}`, 0);
  }

  // Whether a fault holds at the time shown: the branch's own words, and the network's script.
  holds(kinds, concerned, ends, target) {
    const { time } = this.page.player, { faults = [] } = this.page.meta;
    if (faults.some((fault) => kinds.includes(fault.what) && concerned(fault) && fault.begin <= time && (fault.end === null || fault.end > time))) return true;
    const said = this.branch.at.split("; ").map((text) => text.match(/^(\S+) (\S+) (\S+)(?:.* until (\S+))?/)).filter((found) => found && Number(found[1]) <= time);
    let held = false;
    for (const [, , what, on, until] of said) if (target(on)) held = ends[0] === what ? !(until && Number(until) <= time) : ends[1] === what ? false : held;
    return held;
  }

  // The menu's entries for an agent or a link: {text, key, act, warn}.
  entries(target) {
    const { agents } = this.page.meta, inspect = { text: "Inspect", key: "i", act: () => this.inspect(target) };
    if (target.agent !== undefined) {
      const i = target.agent, name = agents[i];
      const down = this.holds(["Crash"], (fault) => fault.agents.includes(i), ["crash", "restart"], (on) => on === name);
      const first = down
        ? [{ text: "Restart, memory lost", key: "r", act: () => this.fault("restart", name) }, { text: "Restart, memory kept", key: "k", act: () => this.fault("restart", name, " keeping state") }]
        : [{ text: "Crash now", key: "c", warn: true, act: () => this.fault("crash", name) }];
      return [...first, { text: "Delay each message by", key: "l", seconds: this.delay(), act: (seconds) => this.fault("delay", name, ` by ${seconds}`) }, inspect];
    }
    const [a, b] = target.link.map((i) => agents[i]), pair = target.link;
    const cut = this.holds(["LinkDown", "Partition", "SetLink"], (fault) => fault.links.some(([i, j]) => pair.includes(i) && pair.includes(j)), ["cut", "heal"], (on) => on === `${a}-${b}` || on === `${b}-${a}`);
    return [
      cut ? { text: "Heal now", key: "h", act: () => this.fault("heal", `${a}-${b}`) } : { text: "Cut now", key: "x", warn: true, act: () => this.fault("cut", `${a}-${b}`) },
      { text: `Lose the next frame ${a} → ${b}`, key: "n", act: () => this.fault("lose", `${a}-${b}`) },
      { text: `Lose the next frame ${b} → ${a}`, key: "m", act: () => this.fault("lose", `${b}-${a}`) },
      inspect,
    ];
  }

  // A delay that can be seen: of a round, or of the run.
  delay() {
    const { round_period: period, rounds } = this.page.meta;
    return Number(((rounds > 0 ? period : this.page.span) / (rounds > 0 ? 2 : 20)).toPrecision(1));
  }

  inspect(target) {
    this.close();
    this.page.choose(target);
    this.panel("inspector", true);
  }

  openMenu(target, x, y) {
    this.close();
    if (!target) return;
    this.page.player.pause();
    const { agents } = this.page.meta, name = target.agent !== undefined ? `Agent ${agents[target.agent]}` : `Link ${target.link.map((i) => agents[i]).join("–")}`;
    const title = element("h2", [name, element("span", ` after ${short(this.page.player.time, 6)} s`, { class: "lab-soft" })]);
    const menu = (this.menu = element("div", title, { class: "lab-menu", role: "group", "aria-label": name }));
    this.pressable = this.entries(target);
    for (const entry of this.pressable) {
      entry.press = () => entry.act(entry.field ? entry.field.value : undefined);
      const row = element("div", newButton([entry.text, element("kbd", entry.key)], entry.press, { class: entry.warn ? "warn" : "" }), { class: "lab-entry" });
      if (entry.seconds !== undefined) {
        entry.field = element("input", "", { type: "number", min: 0, step: "any", value: entry.seconds, "aria-label": "Seconds" });
        row.append(entry.field, element("span", "s"));
      }
      menu.append(row);
    }
    menu.append(element("p", "A fault starts a new branch.", { class: "lab-soft" }));
    this.root.querySelector("main").append(menu);
    const { width, height } = menu.getBoundingClientRect();
    menu.style.left = `${Math.max(4, Math.min(x + 6, innerWidth - width - 6))}px`;
    menu.style.top = `${Math.max(4, Math.min(y + 6, innerHeight - height - 6))}px`;
    menu.querySelector("button").focus({ preventScroll: true });
  }

  close() {
    if (this.menu) this.menu.remove();
    this.menu = null;
  }

  // Agents and links for the keyboard: a button for each, unseen, whose focus is a choice on the map.
  addReach(page) {
    const { agents, links } = page.meta, list = element("nav", "", { class: "lab-reach", "aria-label": "Agents and links" });
    const add = (name, target) => {
      const made = newButton(name, () => this.openAtChosen());
      made.addEventListener("focus", () => page.choose(target));
      list.append(made);
    };
    agents.slice(0, MOST_REACHED).forEach((name, agent) => add(`Agent ${name}`, { agent }));
    if (links.length <= MOST_REACHED) for (const link of links) add(`Link ${agents[link[0]]}–${agents[link[1]]}`, { link });
    this.root.querySelector("footer").after(list);
  }

  // --- keys and pointers --------------------------------------------------------------------------------------------

  listenTo(page) {
    const map = page.part("map");
    const open = (event) => {
      event.preventDefault();
      // A frame that is clicked is followed.
      if (event.type === "click" && page.stage.thingAt(event.offsetX, event.offsetY)) return;
      this.openMenu(page.views.map.pick(event.offsetX, event.offsetY), event.clientX, event.clientY);
    };
    map.addEventListener("click", open);
    map.addEventListener("contextmenu", open);
  }

  key(event) {
    const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
    if (event.ctrlKey || event.metaKey || event.altKey || !this.page) return;
    const done = (act) => {
      event.preventDefault();
      event.stopImmediatePropagation();
      act();
    };
    if (this.menu) {
      const items = [...this.menu.querySelectorAll("button")], at = items.indexOf(document.activeElement);
      if (event.key === "Escape") return done(() => this.close());
      if (event.key === "ArrowDown" || event.key === "ArrowUp") return done(() => items[(at + (event.key === "ArrowDown" ? 1 : items.length - 1)) % items.length].focus());
      const entry = typing ? event.key === "Enter" && this.pressable.find(({ field }) => field === event.target) : this.pressable.find(({ key }) => key === event.key);
      if (entry) return done(entry.press);
      // Keys of the page wait until the menu is closed.
      if (event.key.length === 1 && event.key !== " ") event.stopImmediatePropagation();
      return;
    }
    if (typing) return;
    const number = /^[0-9]$/.test(event.key) ? Number(event.key) : -1;
    if (this.state.branches.some((branch) => branch.number === number)) done(() => this.choose(number));
    else if (event.key === "Enter" && this.page.view === "map" && this.page.chosen && ["BODY", "CANVAS"].includes(event.target.tagName)) done(() => this.openAtChosen());
  }

  // The menu of what is chosen, beside it.
  openAtChosen() {
    const { page } = this, { agent, link } = page.chosen, { x, y } = page.views.map, box = page.part("map").getBoundingClientRect();
    const at = (places) => (link ? (places[link[0]] + places[link[1]]) / 2 : places[agent]);
    if (agent !== undefined || link) this.openMenu(page.chosen, box.left + at(x) + 10, box.top + at(y) + 10);
  }
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);

// The lab's first page, once its main run is there.
function openLab(root, meta) {
  window.lab = new Lab(root, meta);
  return window.lab.ready;
}
