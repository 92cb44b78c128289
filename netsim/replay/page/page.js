// The page as a whole: puts the parts together, and what they share.

// Sizes of text, one after the other.
const TEXTS = [1, 1.25, 1.5, 2];

class Page {
  constructor(root, meta, columns) {
    Object.assign(this, { root, meta, columns, chosen: null, view: "map" });
    this.events = new Events(columns, meta);
    this.look = new Look(this);
    // Of a run that goes on; null of one that is over.
    this.live = meta.live ? new Live(this) : null;
    // Ends what it listens to: a lab shows one run after the other.
    this.gone = new AbortController();
    this.measure();
    this.states = new States(this);
    this.player = new Player(this);
    const part = (this.part = (name) => root.querySelector(`[data-part=${name}]`));
    this.views = { map: new MapView(this, part("links"), part("map")), spacetime: new SpaceTime(this, part("spacetime")) };
    this.strip = new Strip(this, part("strip"));
    this.curves = new Curves(this, part("curves"));
    this.inspector = new Inspector(this, part("inspector"));
    this.counts = new Counts(this, part("count-panel"));
    this.statePanel = new StatePanel(this, part("states"));
    this.story = new Story(this, part("story"));
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
    this.views.spacetime.fit();
    this.curves.read();
    this.counts.read();
    this.story.read();
    this.inspector.idle = false;
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
    this.story.draw(time);
    this.drawClock(time);
    if (!playing) this.keepAddress();
    // Tables take longer than pictures, and cannot be read sixty times a second.
    const now = performance.now();
    if (playing && now - (this.inspected || 0) < 150) return;
    this.inspected = now;
    this.inspector.draw(time);
  }

  drawClock(time) {
    const parts = [`${this.timeText(time)} s`], round = this.round(time);
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
    setText(this.part("thinned"), thinned.length ? `Thinned: ${thinned.join(", ")}.` : "");
    setText(this.part("going"), this.view === "map" ? this.views.map.failing().join("\n") : "");
  }

  // A time with as many decimals as tell it from another at this speed, or in this view: always as many, or it would jump.
  timeText(time) {
    const seen = this.view === "spacetime" ? Math.min(this.views.spacetime.window, this.span) : this.span;
    const decimals = Math.min(Math.max(Math.ceil(-Math.log10(Math.min(seen / 1000, this.player.speed / 8))), 0), 15);
    return time.toFixed(decimals);
  }

  // The buttons' texts.
  showControls() {
    const { player, root } = this;
    this.part("play").textContent = player.playing ? "❚❚ Pause" : "▶ Play";
    const { rounds, round_period: period } = this.meta, pace = `${short(player.speed, 3)} s per s`, many = player.speed / period;
    this.part("speed").textContent = rounds > 0 && period > 0 ? `${short(many, 3)} round${Math.abs(many - 1) < 1e-9 ? "" : "s"} per s` : pace;
    this.part("speed").title = `${pace}: simulated seconds per second`;
    root.dataset.view = this.view;
    for (const name of ["map", "spacetime"]) this.part(`to-${name}`).setAttribute("aria-pressed", String(this.view === name));
    for (const name of ["round-back", "round-on"]) this.part(name).hidden = !(this.meta.rounds > 0);
    this.part("strip").setAttribute("aria-valuemax", String(this.span));
  }

  resize() {
    this.views.map.resize();
    this.views.spacetime.resize();
    this.strip.resize();
    this.curves.build();
    this.draw();
  }

  show(view) {
    // The name that links of earlier versions have.
    this.view = view === "sequence" ? "spacetime" : view;
    this.showControls();
    this.resize();
  }

  // The size of text, 1 to 2: for the back of a room.
  text(scale) {
    this.look.scale = scale;
    this.root.style.setProperty("--k", scale);
    this.part("larger").setAttribute("aria-pressed", String(scale > 1));
    this.resize();
  }

  larger() {
    this.text(TEXTS.find((each) => each > this.look.scale + 1e-9) || TEXTS[0]);
  }

  // --- the page's address: what is shown, to be kept and sent ---------------------------------------------------------

  // Show what an address asks for: #t=2.06&agent=5&view=spacetime&kinds=vote,ack. Names of agents, states and kinds are theirs.
  follow(link) {
    const { meta, player, states } = this, agent = meta.agents.indexOf(link.get("agent")), pair = (link.get("link") || "").split(",").map((name) => meta.agents.indexOf(name));
    const scale = Number(link.get("text")), speed = Number(link.get("speed")), state = states.names.indexOf(link.get("colour"));
    this.following = true;
    if (["light", "dark"].includes(link.get("theme"))) this.theme(link.get("theme"));
    if (scale >= 1 && scale <= TEXTS.at(-1)) this.text(scale);
    if (state >= 0) states.shown = state;
    else if (link.get("colour") === "none") states.shown = -1;
    this.views.map.sides = null;
    if (link.has("kinds")) this.counts.only(link.get("kinds").split(",").map(decoded));
    if (speed > 0 && Number.isFinite(speed)) player.speed = speed;
    if (link.has("t")) player.time = Math.min(Math.max(Number(link.get("t")) || 0, 0), this.limit);
    if (link.get("view") in { ...this.views, sequence: 1 }) this.view = link.get("view") === "sequence" ? "spacetime" : link.get("view");
    if (agent >= 0) this.chosen = { agent };
    else if (pair.length === 2 && pair.every((each) => each >= 0)) this.chosen = { link: pair };
    this.showControls();
    this.resize();
    this.views.spacetime.follow(link);
    this.views.map.drawUnder();
    this.following = false;
    this.draw();
  }

  // Nothing that is as it was at first: an address is short.
  address() {
    const { chosen, meta, player, events, states, look, root } = this, parts = [];
    const add = (name, value) => parts.push(`${name}=${encodeURIComponent(value).replaceAll("%2C", ",")}`);
    if (player.time > 0) add("t", Number(player.time.toPrecision(12)));
    if (this.view !== "map") add("view", this.view);
    if (chosen && chosen.event !== undefined) {
      add("event", chosen.event);
      if (chosen.with !== undefined) add("with", chosen.with);
    } else if (chosen && chosen.link) add("link", chosen.link.map((i) => meta.agents[i]).join(","));
    else if (chosen && chosen.agent !== undefined) add("agent", meta.agents[chosen.agent]);
    if (events.keptKinds.includes(0)) add("kinds", meta.kinds.filter((_, i) => events.keptKinds[i]).map(encodeURIComponent).join(","));
    if (states.shown !== states.first) add("colour", states.shown < 0 ? "none" : states.names[states.shown]);
    if (look.scale !== 1) add("text", look.scale);
    if (root.dataset.theme) add("theme", root.dataset.theme);
    return parts.length ? `#${parts.join("&")}` : "";
  }

  // A little later: a browser refuses many changes in a short time.
  keepAddress() {
    if (!this.linked || this.following || this.keeping) return;
    this.keeping = setTimeout(() => {
      this.keeping = 0;
      const address = this.address();
      if (address === location.hash) return;
      try {
        history.replaceState(null, "", address || location.pathname + location.search);
      } catch (error) {
        // Where a page may not change its address, it has none.
        this.linked = false;
      }
    }, 300);
  }

  // Whether the chosen link is that of two agents, or the chosen agent one of them.
  concerns(i, j) {
    const { link, agent } = this.chosen;
    return link ? link.includes(i) && link.includes(j) : i === agent || j === agent;
  }

  // The agent after the chosen one, or before it.
  chooseNext(step) {
    const { chosen, meta } = this, count = meta.agents.length, now = chosen && chosen.agent !== undefined ? chosen.agent : step > 0 ? -1 : count;
    this.choose({ agent: (now + step + count) % count });
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
      slower: () => player.faster(1 / 2), faster: () => player.faster(2),
      "to-map": () => this.show("map"), "to-spacetime": () => this.show("spacetime"),
      theme: () => this.theme(), larger: () => this.larger(), help: () => this.help(), "help-close": () => this.help(),
    };
    part("pick").addEventListener("change", () => part("pick").blur());
    for (const [name, act] of Object.entries(buttons)) {
      part(name).addEventListener("click", (event) => {
        act();
        // The space bar is to play and pause, not to press the last button again.
        if (event.detail) part(name).blur();
      });
    }
    for (const name of ["map", "spacetime"]) {
      part(name).addEventListener("click", (event) => this.choose(this.views[name].pick(event.offsetX, event.offsetY, event.shiftKey)));
    }
    part("spacetime").addEventListener("wheel", (event) => {
      event.preventDefault();
      this.views.spacetime.zoom(event.deltaY > 0 ? 1.25 : 0.8);
      this.draw();
    }, { passive: false });
    part("wider").addEventListener("click", () => (this.views.spacetime.zoom(1.5), this.draw()));
    part("narrower").addEventListener("click", () => (this.views.spacetime.zoom(1 / 1.5), this.draw()));
    const { signal } = this.gone;
    document.addEventListener("keydown", (event) => this.key(event), { signal });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => !this.root.dataset.theme && this.repaint(), { signal });
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(part("stage"));
  }

  // Show no more: another page takes its place.
  leave() {
    this.player.playing = false;
    this.observer.disconnect();
    this.gone.abort();
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
    const view = this.views[this.view];
    if (view.key && view.key(event)) return event.preventDefault();
    const { player } = this, far = event.shiftKey;
    const keys = {
      " ": () => player.toggle(), ArrowRight: () => (far ? player.round(true) : player.step(true)),
      ArrowLeft: () => (far ? player.round(false) : player.step(false)), Home: () => player.seek(0), End: () => player.seek(this.limit),
      "+": () => player.faster(2), "=": () => player.faster(2), "-": () => player.faster(1 / 2), t: () => this.larger(),
      ArrowDown: () => this.chooseNext(1), ArrowUp: () => this.chooseNext(-1),
      m: () => this.show("map"), s: () => this.show("spacetime"), d: () => this.theme(), "?": () => this.help(), Escape: () => this.choose(null),
    };
    if (!keys[event.key]) return;
    if (event.key !== "Escape") event.preventDefault();
    keys[event.key]();
  }
}

// Part of an address as the text that it stands for.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    return text;
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
    text: (scale) => page.text(scale),
    address: () => page.address(),
    choose: (chosen) => page.choose(chosen),
    row: (i) => Object.fromEntries(EVENT_COLUMNS.map((name) => [name, page.events[name][i]])),
    state: () => stateOf(page),
    place: (agent) => [page.views.map.x[agent], page.views.map.y[agent]],
    radius: () => page.views.map.radius,
    looks: () => page.views.map.looks,
    seen: () => page.views.spacetime.seen(),
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
  if (!meta.framed) {
    const follow = () => page.follow(new URLSearchParams(location.hash.slice(1)));
    if (location.hash.length > 1) follow();
    window.addEventListener("hashchange", follow);
    page.linked = true;
  }
  if (page.live) page.live.begin();
  if (meta.framed) new Framed(page);
  return page;
}
