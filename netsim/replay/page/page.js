// The page as a whole: puts the parts together, and what they share.

// Sizes of text, one after the other.
const TEXTS = [1, 1.25, 1.5, 2];

class Page extends Shown {
  constructor(root, meta, columns) {
    super(root, meta, columns);
    Object.assign(this, { page: this, chosen: null, view: "map", off: new Set((root.dataset.off || "").split(" ").filter((each) => each)), trail: null, textScale: Number(root.dataset.text) || 1 });
    root.toggleAttribute("data-framed", Boolean(meta.framed));
    // Of a run that goes on; null of one that is over.
    this.live = meta.live ? new Live(this) : null;
    // Ends what it listens to: a lab shows one run after the other.
    this.gone = new AbortController();
    this.read();
    this.player = new Player(this);
    // All runs that are shown, what they are called, and the film of all.
    Object.assign(this, { shown: [this], titles: [], reel: this.film });
    const part = (this.part = (name) => root.querySelector(`[data-part=${name}]`));
    this.unit();
    const another = () => document.createElement("canvas");
    this.views = { map: new Stage(this, part("map"), part("links")).listen(), spacetime: new SpaceTime(this, part("spacetime"), another(), another()) };
    this.views.spacetime.addBar();
    this.views.spacetime.listen();
    this.strip = new Strip(this, part("strip"), another());
    this.strip.listen();
    this.curves = new Curves(this, part("curves"));
    this.inspector = new Inspector(this, part("inspector"));
    this.counts = new Counts(this, part("count-panel"));
    this.statePanel = new StatePanel(this, part("states"));
    this.story = new Story(this, part("story"));
    this.difference = new Difference(this, part("difference"));
    describe(this);
    this.listen();
    this.showControls();
  }

  get presenting() {
    return "present" in this.root.dataset;
  }

  // The unit of all lengths: a 96th of the window's width or a 54th of its height, whichever is less; text grows with it.
  unit() {
    const least = Math.min(innerWidth / 96, innerHeight / 54);
    this.u = this.textScale * Math.min(Math.max(innerWidth < 760 ? Math.min(innerWidth / 36, innerHeight / 45) : least, 10.5), 44);
    for (const { look } of this.shown) look.scale = this.textScale * Math.max(least / 15, 1);
    this.root.style.setProperty("--u", `${this.u}px`);
    this.root.style.setProperty("--k", this.look.scale);
  }

  // How far the player can go.
  get limit() {
    return this.live && this.live.running ? this.live.known : this.span;
  }

  // Take up columns and a meta that have grown.
  renew(meta, columns) {
    const { keptKinds, keptCauses } = this.events, { time } = this.player;
    Object.assign(this, { meta, columns });
    this.events = new Events(columns, meta);
    this.events.keptKinds.set(keptKinds);
    this.events.keptCauses.set(keptCauses);
    this.read();
    Object.assign(this, { reel: this.film, usual: 0 });
    this.player.film = this.film.of(time);
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
    if (this.view === "map") for (const { stage } of this.others) stage.draw(time);
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
    this.difference.draw(time);
    this.inspector.draw(time);
  }

  drawClock(time) {
    const { player, view } = this, { shown, drawn, marks, shownMarks } = this.drawn;
    setText(this.part("now"), `${this.timeText(time)} s`);
    setText(this.part("pace"), ` · ${this.pace(time)}`);
    const thinned = [], [words, news] = this.caption(time, player.film);
    if (drawn < shown) thinned.push(`${drawn} of ${shown} frames drawn`);
    if (shownMarks < marks) thinned.push(`${shownMarks} of ${marks} marks drawn`);
    setText(this.part("thinned"), thinned.length ? `Thinned: ${thinned.join(", ")}.` : "");
    setText(this.part("going"), view === "map" ? this.going(time).join("\n") : "");
    setText(this.part("caption"), view === "map" ? words : "");
    this.part("caption").classList.toggle("news", news);
  }

  // --- runs beside this one, and what is followed -------------------------------------------------------------------

  // Show other runs, {meta, columns}, beside this one, which is the one at `place`, all by their titles and on one film; none:
  // this one alone. A button for each chooses, by `choose`, whose diagram, curves and inspector are shown.
  beside(others, titles = [], place = 0, choose = null) {
    const { time } = this.player, own = this.part("map").parentElement, holder = own.parentElement;
    const added = others.map(() => {
      const under = element("canvas", "", { class: "under", "aria-hidden": "true" }), over = element("canvas", "", { class: "over", role: "img" });
      return element("div", [under, over], { class: "pane" });
    });
    const panes = added.toSpliced(place, 0, own);
    own.querySelectorAll(".branch").forEach((each) => each.remove());
    holder.replaceChildren(...panes);
    const films = others.map(({ meta }) => new Film(meta.film)).toSpliced(place, 0, this.film);
    Object.assign(this, { shown: [this], titles: others.length ? titles : [], reel: others.length ? together(films) : this.film });
    this.root.toggleAttribute("data-beside", others.length > 0);
    const besides = others.map((run, i) => new Beside(this, run, added[i]));
    this.shown = besides.toSpliced(place, 0, this);
    this.titles.forEach((_, i) => panes[i].append(element("p", this.called(i), { class: "branch", ...(i === place ? { "aria-current": "true" } : {}) })));
    this.showChoice(place, choose);
    this.share();
    this.counts.read();
    this.story.read();
    this.span = Math.max(...this.shown.map((run) => run.span));
    besides.forEach(({ stage }) => this.choosesOn(stage));
    this.resize();
    this.player.seek(time);
  }

  called(i) {
    return `${LETTERS[i]} · ${this.titles[i]}`;
  }

  showChoice(place, choose) {
    const choice = this.part("choice");
    this.chooseRun = choose && ((i) => i !== place && i < this.shown.length && choose(i));
    choice.hidden = !choose;
    choice.replaceChildren(...(choose ? this.titles : []).map((title, i) => {
      const words = [LETTERS[i], element("span", ` · ${clipped(title, 20)}`)];
      return newButton(words, () => this.chooseRun(i), { title: `Diagram and inspector of ${title} (${i + 1})`, "aria-pressed": String(i === place) });
    }));
  }

  // One word, number, depth and kind has one colour in all runs.
  share() {
    const { shown } = this, all = (list) => [...new Set(list)];
    for (const name of all(shown.flatMap(({ states }) => states.names))) {
      const lists = shown.map(({ states }) => states.list[states.names.indexOf(name)]).filter((each) => each), low = Math.min(...lists.map((each) => each.low)), high = Math.max(...lists.map((each) => each.high));
      const log = low > 0 && high / low > 10 && lists.every(({ draw }) => !draw || draw.middle === undefined), order = all(lists.flatMap((each) => each.order));
      for (const each of lists) Object.assign(each, { low, high, log, order });
    }
    const trees = shown.map(({ drawings }) => drawings).filter(({ tree }) => tree >= 0), deepest = Math.max(...trees.map(({ depth }) => depth));
    for (const each of trees) each.deepest = deepest;
    for (const { look } of shown) look.readKinds();
  }

  // Follow what some frames carry: the rest is pale, and moments are its arrivals. Null: nothing any more.
  pursue(thing, list = null) {
    for (const run of this.shown) {
      const rows = thing === null ? [] : (run === this && list) || run.carrying(thing);
      run.trail = rows.length ? new Trail(run, thing, rows) : null;
    }
    this.strip.resize();
    this.draw();
    this.keepAddress();
  }

  // A click on a stage: a frame, or an entry of a log, is followed; an agent or a link is chosen.
  choosesOn(stage) {
    stage.canvas.addEventListener("click", ({ offsetX: x, offsetY: y }) => {
      const thing = stage.thingAt(x, y);
      if (thing && (stage.run === this || thing.length === 1)) this.pursue(...thing);
      else if (!thing) this.choose(stage.pick(x, y));
    });
  }

  // The buttons' texts.
  showControls() {
    const { player, root } = this;
    this.part("play").textContent = player.playing ? "❚❚ Pause" : "▶ Play";
    this.part("speed").textContent = `${player.speed}×`;
    this.part("caption").setAttribute("aria-live", player.playing ? "off" : "polite");
    root.dataset.view = this.view;
    for (const name of ["map", "spacetime"]) this.part(`to-${name}`).setAttribute("aria-pressed", String(this.view === name));
    this.part("strip").setAttribute("aria-valuemax", String(this.span));
  }

  resize() {
    this.unit();
    this.views.map.resize();
    for (const { stage } of this.others) stage.resize();
    this.views.spacetime.resize();
    this.strip.resize();
    this.curves.build();
    this.draw();
  }

  show(view) {
    this.view = view;
    this.showControls();
    this.resize();
  }

  // Show more of the diagram's time, or less.
  zoom(factor) {
    this.views.spacetime.zoom(factor);
    this.draw();
  }

  // The size of text, 1 to 2: for the back of a room.
  text(scale) {
    this.textScale = this.root.dataset.text = scale;
    this.part("larger").setAttribute("aria-pressed", String(scale > 1));
    this.resize();
  }

  larger() {
    this.text(TEXTS.find((each) => each > this.textScale + 1e-9) || TEXTS[0]);
  }

  // All of the screen for the stage, or no more.
  present(on = !this.presenting) {
    this.root.toggleAttribute("data-present", on);
    // A browser gives its whole screen only to somebody who has just pressed something.
    if (on && navigator.userActivation?.isActive && document.fullscreenEnabled) document.documentElement.requestFullscreen().catch(() => {});
    else if (!on && document.fullscreenElement) document.exitFullscreen();
    this.full = false;
    this.resize();
  }

  // What is drawn, or not any more: links, logs, what is routine, the legend, or all ("black").
  toggle(what) {
    if (!this.off.delete(what)) this.off.add(what);
    this.root.dataset.off = [...this.off].join(" ");
    this.resize();
  }

  // --- the page's address: what is shown, to be kept and sent ---------------------------------------------------------

  // Show what an address asks for: #t=2.06&agent=5&view=spacetime&kinds=vote,ack. Names of agents, states and kinds are theirs.
  follow(link) {
    const { meta, player, states } = this, agent = meta.agents.indexOf(link.get("agent")), pair = (link.get("link") || "").split(",").map((name) => meta.agents.indexOf(name));
    const scale = Number(link.get("text")), speed = Number(link.get("speed")), state = states.names.indexOf(link.get("colour"));
    this.following = true;
    clearTimeout(this.keeping);
    this.keeping = 0;
    if (["light", "dark"].includes(link.get("theme"))) this.theme(link.get("theme"));
    if (scale >= 1 && scale <= TEXTS.at(-1)) this.text(scale);
    if (state >= 0) states.shown = state;
    else if (link.get("colour") === "none") states.shown = -1;
    this.views.map.sides = null;
    if (link.has("kinds")) this.counts.only(link.get("kinds").split(",").map(decoded));
    if (speed > 0 && Number.isFinite(speed)) player.speed = speed;
    if (link.has("present") !== this.presenting) this.present();
    if (link.has("t")) player.seek(link.get("t"));
    if (link.get("view") in this.views) this.view = link.get("view");
    if (agent >= 0) this.chosen = { agent };
    else if (pair.length === 2 && pair.every((each) => each >= 0)) this.chosen = { link: pair };
    this.showControls();
    this.resize();
    this.views.spacetime.follow(link);
    this.views.map.drawUnder();
    if (link.has("follow")) this.pursue(link.get("follow") || null);
    this.following = false;
    this.draw();
  }

  // Nothing that is as it was at first: an address is short.
  address() {
    const { chosen, meta, player, events, states, root } = this, parts = [];
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
    if (this.textScale !== 1) add("text", this.textScale);
    if (root.dataset.theme) add("theme", root.dataset.theme);
    if (this.shown.indexOf(this) > 0) add("run", this.letter);
    if (this.trail) add("follow", this.trail.thing);
    if (this.presenting) parts.push("present");
    return parts.length ? `#${parts.join("&")}` : "";
  }

  // A little later: a browser refuses many changes in a short time.
  keepAddress() {
    if (!this.linked || this.following || this.keeping) return;
    this.keeping = setTimeout(() => {
      this.keeping = 0;
      if (!this.linked) return;
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

  // The agent after the chosen one, or before it.
  chooseNext(step) {
    const { chosen, meta } = this, count = meta.agents.length, now = chosen && chosen.agent !== undefined ? chosen.agent : step > 0 ? -1 : count;
    this.choose({ agent: (now + step + count) % count });
  }

  choose(chosen) {
    this.chosen = chosen;
    for (const { stage } of this.shown) stage.drawUnder();
    this.draw();
  }

  theme(name) {
    this.root.dataset.theme = name || (this.look.dark ? "light" : "dark");
    this.repaint();
  }

  listen() {
    const { player, part } = this;
    const buttons = {
      play: () => player.toggle(), back: () => player.moment(false), on: () => player.moment(true), slower: () => player.faster(1 / 2), faster: () => player.faster(2),
      "to-map": () => this.show("map"), "to-spacetime": () => this.show("spacetime"), present: () => this.present(),
      theme: () => this.theme(), larger: () => this.larger(), help: () => this.help(), "help-close": () => this.help(),
      wider: () => this.zoom(1.5), narrower: () => this.zoom(1 / 1.5),
    };
    part("pick").addEventListener("change", () => part("pick").blur());
    for (const [name, act] of Object.entries(buttons)) press(part(name), act);
    this.choosesOn(this.stage);
    part("spacetime").addEventListener("click", (event) => this.choose(this.views.spacetime.pick(event.offsetX, event.offsetY, event.shiftKey)));
    part("spacetime").addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8);
    }, { passive: false });
    const { signal } = this.gone;
    document.addEventListener("keydown", (event) => this.key(event), { signal });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => !this.root.dataset.theme && this.repaint(), { signal });
    // The browser leaves its full screen by itself.
    document.addEventListener("fullscreenchange", () => {
      const was = this.full;
      this.full = Boolean(document.fullscreenElement);
      if (was && !this.full && this.presenting) this.present(false);
    }, { signal });
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(part("stage"));
  }

  // Show no more: another page takes its place.
  leave() {
    this.player.playing = this.linked = false;
    this.observer.disconnect();
    this.gone.abort();
  }

  repaint() {
    for (const { look } of this.shown) look.read();
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
    if (this.off.has("black") && event.key !== ".") this.toggle("black");
    const view = this.views[this.view];
    if (view.key && view.key(event)) return event.preventDefault();
    const { player } = this, far = event.shiftKey, on = () => player.moment(true), back = () => player.moment(false);
    const keys = {
      PageDown: on, n: on, PageUp: back, b: back, " ": () => player.toggle(), ArrowRight: () => (far ? player.round(true) : player.arrival(true)),
      ArrowLeft: () => (far ? player.round(false) : player.arrival(false)), Home: () => player.seek(0), End: () => player.seek(this.limit),
      "+": () => player.faster(2), "=": () => player.faster(2), "-": () => player.faster(1 / 2), t: () => this.larger(),
      ArrowDown: () => this.chooseNext(1), ArrowUp: () => this.chooseNext(-1), p: () => this.present(), F5: () => this.present(),
      ".": () => this.toggle("black"), l: () => this.toggle("legend"), g: () => this.toggle("logs"), k: () => this.toggle("routine"), e: () => this.toggle("links"),
      m: () => this.show("map"), s: () => this.show("spacetime"), d: () => this.theme(), "?": () => this.help(),
      Escape: () => (this.trail && !this.chosen ? this.pursue(null) : this.chosen || !this.presenting ? this.choose(null) : this.present(false)),
    };
    // A page in a frame, or that asks its server, is loaded anew by F5 as usual.
    if (event.key === "F5" && (this.meta.framed || this.live)) return;
    if (this.chooseRun && /^[123]$/.test(event.key)) keys[event.key] = () => this.chooseRun(event.key - 1);
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
    step: (forward = true) => page.player.arrival(forward),
    moment: (forward = true) => page.player.moment(forward),
    film: (film) => page.player.put(film),
    moments: () => page.reel.moments,
    present: (on) => page.present(on),
    round: (forward = true) => page.player.round(forward),
    show: (view) => page.show(view),
    theme: (name) => page.theme(name),
    faster: (factor) => page.player.faster(factor),
    text: (scale) => page.text(scale),
    follow: (thing) => page.pursue(thing),
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
  const { time, film, speed, playing } = page.player, { events, meta } = page;
  const rows = events.overlapping(time, time), ended = events.endedBy(time);
  const flying = Array.from(rows.filter((row) => events.depart[row] <= time));
  return {
    time, film, speed, playing, length: page.reel.length, followed: page.trail && page.trail.list, caption: page.part("caption").textContent, view: page.view, chosen: page.chosen, span: page.span, underway: rows.length, flying,
    waiting: Array.from(rows.filter((row) => events.depart[row] > time)), round: page.round(time),
    ended: Object.fromEntries(meta.causes.map((cause, i) => [cause, ended[i]])),
    states: Object.fromEntries(page.states.names.map((name, i) => [name, Array.from(page.states.at(time, i) || [])])),
    drawn: page.drawn, known: page.limit, running: Boolean(page.live && page.live.running),
  };
}

// Milliseconds of script that pictures take at a number of times, evenly over the film; each is shown before the next.
async function measure(page, frames) {
  const times = [];
  for (let i = 0; i < frames; i++) {
    await new Promise(requestAnimationFrame);
    const begun = performance.now();
    page.player.put((page.reel.length * (i + 0.5)) / frames);
    times.push(performance.now() - begun);
  }
  return times;
}

// What of a page's state goes on in the next one, and taking it up.
function keptOf({ player: { time, film, speed, playing }, view, chosen, states, meta, trail }) {
  return { time, film, speed, playing, view, chosen, trail, colour: states.names[states.shown], agents: String(meta.agents) };
}

function keep(page, { speed, view, chosen, colour, agents }) {
  page.player.speed = speed;
  if (page.views[view]) page.view = view;
  if (page.states.names.includes(colour)) page.states.shown = page.states.names.indexOf(colour);
  // An event's number is that of its run.
  if (chosen && chosen.event === undefined && String(page.meta.agents) === agents) page.chosen = chosen;
  page.showControls();
}

async function start(root, meta, packed) {
  if (typeof DecompressionStream === "undefined") throw new Error("this browser has no DecompressionStream: it is older than 2023");
  const columns = await Promise.all((meta.runs ? packed : [packed]).map(unpack)), parts = meta.runs && root.cloneNode(true);
  const runs = (meta.runs || [meta]).map((each, i) => ({ meta: meta.runs ? { ...each, title: meta.title, command: "" } : meta, columns: columns[i] }));
  let page = null;
  const open = (place) => {
    const kept = page && { ...keptOf(page), linked: page.linked };
    if (kept) {
      page.leave();
      root.replaceChildren(...parts.cloneNode(true).children);
    }
    page = new Page(root, runs[place].meta, runs[place].columns);
    if (meta.runs) page.beside(runs.filter((_, i) => i !== place), meta.names, place, open);
    if (kept) {
      keep(page, kept);
      if (kept.trail) page.pursue(kept.trail.thing);
      page.resize();
      page.player.put(kept.film, kept.time);
      if (kept.playing) page.player.play();
      page.linked = kept.linked;
      page.keepAddress();
      Object.assign(window.replay, handle(page));
    }
  };
  open(0);
  if (page.meta.film.follow) page.pursue(page.meta.film.follow.thing, page.meta.film.follow.rows);
  page.draw();
  root.dataset.ready = "";
  if (!meta.framed) {
    // By the event's own address: a page that waited to keep its address may have replaced it meanwhile.
    const follow = ({ newURL }) => {
      const link = new URLSearchParams(new URL(newURL).hash.slice(1)), place = LETTERS.indexOf(link.get("run") || LETTERS[0]);
      if (runs[place] && page.shown[place] !== page) open(place);
      page.follow(link);
    };
    if (location.hash.length > 1) follow({ newURL: location.href });
    window.addEventListener("hashchange", follow);
    page.linked = true;
  }
  if (page.live) page.live.begin();
  if (meta.framed) new Framed(page);
  return page;
}
