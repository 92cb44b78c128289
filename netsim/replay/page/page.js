// The page as a whole: puts the parts together, and what they share.

class Page {
  constructor(root, meta, columns) {
    Object.assign(this, { root, meta, columns, chosen: null, view: "map" });
    this.events = new Events(columns, meta);
    this.look = new Look(this);
    // Of a run that goes on; null of one that is over.
    this.live = meta.live ? new Live(this) : null;
    this.measure();
    this.states = new States(this);
    this.player = new Player(this);
    const part = (this.part = (name) => root.querySelector(`[data-part=${name}]`));
    this.views = { map: new MapView(this, part("links"), part("map")), sequence: new SequenceView(this, part("sequence")) };
    this.strip = new Strip(this, part("strip"));
    this.curves = new Curves(this, part("curves"));
    this.inspector = new Inspector(this, part("inspector"));
    this.counts = new Counts(this, part("count-panel"));
    this.statePanel = new StatePanel(this, part("states"));
    describe(this);
    this.listen();
    this.showControls();
  }

  // How long it all lasts: the time strip's length.
  measure() {
    const { ends } = this.events, x = this.columns["curves x"], known = countUpTo(ends, Number.MAX_VALUE);
    const least = this.live ? this.live.length : 0;
    this.span = Math.max(this.meta.ended_at || 0, known ? ends[known - 1] : 0, x.length ? x[x.length - 1] : 0, least) || 1;
  }

  // The round that is open at a time; 0: none is. At the end of the last one it is that which closes.
  round(time) {
    const { rounds, round_period: period } = this.meta, place = time / period;
    return rounds > 0 && place <= rounds * (1 + 1e-9) ? Math.min(Math.floor(place + 1e-9) + 1, rounds) : 0;
  }

  // How far the player can go.
  get limit() {
    return this.live && this.live.running ? this.live.known : this.span;
  }

  // Take up columns and a meta that have grown.
  renew(meta, columns) {
    const { keptKinds, keptCauses } = this.events;
    Object.assign(this, { meta, columns });
    this.events = new Events(columns, meta);
    this.events.keptKinds.set(keptKinds);
    this.events.keptCauses.set(keptCauses);
    this.measure();
    this.look.read();
    this.states.read();
    this.views.sequence.fit();
    this.curves.read();
    this.counts.read();
    describe(this);
    this.showControls();
    this.strip.resize();
    this.curves.build();
    this.draw();
  }

  draw() {
    const { time, playing } = this.player;
    this.drawn = this.views[this.view].draw(time);
    this.strip.draw(time);
    this.curves.draw(time);
    this.counts.draw(time);
    this.statePanel.draw(time);
    this.drawClock(time);
    // Tables take longer than pictures, and cannot be read sixty times a second.
    const now = performance.now();
    if (playing && now - (this.inspected || 0) < 150) return;
    this.inspected = now;
    this.inspector.draw(time);
  }

  drawClock(time) {
    const digits = Math.max(5, Math.ceil(Math.log10(this.span / this.player.speed)) + 4);
    const parts = [`${short(time, digits)} s`], round = this.round(time);
    // The number of rounds is known at the run's end only.
    if (round) parts.push(`round ${round}${this.live && this.live.running ? "" : ` of ${this.meta.rounds}`}`);
    const { shown, underway, spread, drawn, marks, shownMarks } = this.drawn;
    if (this.view !== "map") parts.push(`${underway} frames in view`);
    else if (underway || !spread) parts.push(`${underway} under way`);
    if (spread) parts.push(`${spread} drawn over the round: latency is 0`);
    this.part("clock").textContent = parts.join(" · ");
    const thinned = [];
    if (drawn < shown) thinned.push(`${drawn} of ${shown} frames drawn`);
    if (shownMarks < marks) thinned.push(`${shownMarks} of ${marks} marks drawn`);
    this.part("thinned").textContent = thinned.length ? `Thinned: ${thinned.join(", ")}.` : "";
  }

  // The buttons' texts.
  showControls() {
    const { player, root } = this;
    this.part("play").textContent = player.playing ? "❚❚ Pause" : "▶ Play";
    this.part("speed").textContent = `${short(player.speed, 3)} s per s`;
    root.dataset.view = this.view;
    for (const name of ["map", "sequence"]) this.part(`to-${name}`).setAttribute("aria-pressed", String(this.view === name));
    for (const name of ["round-back", "round-on"]) this.part(name).hidden = !(this.meta.rounds > 0);
    this.part("strip").setAttribute("aria-valuemax", String(this.span));
  }

  resize() {
    this.views.map.resize();
    this.views.sequence.resize();
    this.strip.resize();
    this.curves.build();
    this.draw();
  }

  show(view) {
    this.view = view;
    this.showControls();
    this.resize();
  }

  // Whether the chosen link is that of two agents, or the chosen agent one of them.
  concerns(i, j) {
    const { link, agent } = this.chosen;
    return link ? link.includes(i) && link.includes(j) : i === agent || j === agent;
  }

  choose(chosen) {
    this.chosen = chosen;
    this.views.map.drawUnder();
    this.draw();
  }

  theme(name) {
    this.root.dataset.theme = name || (this.look.dark ? "light" : "dark");
    this.look.read();
    for (const again of this.counts.icons) again();
    this.resize();
  }

  listen() {
    const { player, part } = this;
    const buttons = {
      play: () => player.toggle(), back: () => player.step(false), on: () => player.step(true),
      "round-back": () => player.round(false), "round-on": () => player.round(true),
      slower: () => player.faster(1 / 1.5), faster: () => player.faster(1.5),
      "to-map": () => this.show("map"), "to-sequence": () => this.show("sequence"),
      theme: () => this.theme(), help: () => this.help(), "help-close": () => this.help(),
    };
    for (const [name, act] of Object.entries(buttons)) {
      part(name).addEventListener("click", (event) => {
        act();
        // The space bar is to play and pause, not to press the last button again.
        if (event.detail) part(name).blur();
      });
    }
    for (const name of ["map", "sequence"]) {
      part(name).addEventListener("click", (event) => this.choose(this.views[name].pick(event.offsetX, event.offsetY)));
    }
    part("sequence").addEventListener("wheel", (event) => {
      event.preventDefault();
      this.views.sequence.zoom(event.deltaY > 0 ? 1.25 : 0.8);
      this.draw();
    }, { passive: false });
    part("wider").addEventListener("click", () => (this.views.sequence.zoom(1.5), this.draw()));
    part("narrower").addEventListener("click", () => (this.views.sequence.zoom(1 / 1.5), this.draw()));
    document.addEventListener("keydown", (event) => this.key(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => !this.root.dataset.theme && this.repaint());
    new ResizeObserver(() => this.resize()).observe(part("stage"));
  }

  repaint() {
    this.look.read();
    for (const again of this.counts.icons) again();
    this.resize();
  }

  help() {
    const dialog = this.part("help-text");
    if (dialog.open) dialog.close();
    else dialog.showModal();
  }

  key(event) {
    const tag = event.target.tagName;
    if (event.ctrlKey || event.metaKey || event.altKey || tag === "SELECT" || (tag === "BUTTON" && event.key === " ")) return;
    if (tag === "INPUT" && event.key === " ") return;
    const { player } = this, far = event.shiftKey;
    const keys = {
      " ": () => player.toggle(), ArrowRight: () => (far ? player.round(true) : player.step(true)),
      ArrowLeft: () => (far ? player.round(false) : player.step(false)), Home: () => player.seek(0), End: () => player.seek(this.limit),
      "+": () => player.faster(1.5), "=": () => player.faster(1.5), "-": () => player.faster(1 / 1.5),
      m: () => this.show("map"), s: () => this.show("sequence"), d: () => this.theme(), "?": () => this.help(), Escape: () => this.choose(null),
    };
    if (!keys[event.key]) return;
    if (event.key !== "Escape") event.preventDefault();
    keys[event.key]();
  }
}

const EVENT_COLUMNS = ["start", "depart", "end", "sender", "receiver", "kind", "cause", "round", "bits", "reply", "number", "label"];

// What scripts and tests may call: window.replay.
function handle(page) {
  return {
    seek: (time) => page.player.seek(time),
    play: () => page.player.play(),
    pause: () => page.player.pause(),
    step: (forward = true) => page.player.step(forward),
    round: (forward = true) => page.player.round(forward),
    show: (view) => page.show(view),
    theme: (name) => page.theme(name),
    faster: (factor) => page.player.faster(factor),
    choose: (chosen) => page.choose(chosen),
    row: (i) => Object.fromEntries(EVENT_COLUMNS.map((name) => [name, page.events[name][i]])),
    state: () => stateOf(page),
    place: (agent) => [page.views.map.x[agent], page.views.map.y[agent]],
    measure: (frames) => measure(page, frames),
  };
}

// What is shown: rows of the columns that are under way and pass the filters; ended ones by cause, all of them.
function stateOf(page) {
  const { time, speed, playing } = page.player, { events, meta } = page;
  const rows = events.overlapping(time, time), ended = events.endedBy(time);
  const flying = Array.from(rows.filter((row) => events.depart[row] <= time));
  return {
    time, speed, playing, view: page.view, chosen: page.chosen, span: page.span, underway: rows.length, flying,
    waiting: Array.from(rows.filter((row) => events.depart[row] > time)), round: page.round(time),
    ended: Object.fromEntries(meta.causes.map((cause, i) => [cause, ended[i]])),
    states: Object.fromEntries(page.states.names.map((name, i) => [name, Array.from(page.states.at(time, i) || [])])),
    drawn: page.drawn, known: page.limit, running: Boolean(page.live && page.live.running),
  };
}

// Milliseconds that drawing takes at a number of times, evenly over the run.
function measure(page, frames) {
  const times = [];
  for (let i = 0; i < frames; i++) {
    const begun = performance.now();
    page.player.seek((page.span * (i + 0.5)) / frames);
    times.push(performance.now() - begun);
  }
  return times;
}

async function start(root, meta, packed) {
  if (typeof DecompressionStream === "undefined") throw new Error("this browser has no DecompressionStream: it is older than 2023");
  const page = new Page(root, meta, await unpack(packed));
  page.draw();
  root.dataset.ready = "";
  if (page.live) page.live.begin();
  if (meta.framed) new Framed(page);
  return page;
}
