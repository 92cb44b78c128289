// In a frame, as in a notebook: the page reports what it shows to the frame's owner, and shows what the owner sets.

const REPORT_EVERY = 200;

class Framed {
  constructor(page) {
    this.page = page;
    this.last = {};
    window.addEventListener("message", (event) => event.source === window.parent && this.receive(event.data));
    window.parent.postMessage({ replay: "ready" }, "*");
  }

  state() {
    const { player, chosen } = this.page, { time, playing, speed } = player;
    return { time, playing, speed, agent: chosen && chosen.agent !== undefined ? chosen.agent : null };
  }

  report() {
    const now = this.state(), news = Object.entries(now).filter(([name, value]) => value !== this.last[name]);
    this.last = now;
    if (news.length) window.parent.postMessage({ replay: "state", state: Object.fromEntries(news) }, "*");
  }

  receive(message) {
    if (!message || message.replay !== "set") return;
    const { page } = this, { player } = page, { time, speed, playing, agent } = message.state;
    if (speed > 0) player.speed = speed;
    if (Number.isFinite(time)) player.seek(time);
    if (agent === null) page.choose(null);
    else if (Number.isInteger(agent) && agent >= 0 && agent < page.meta.agents.length) page.choose({ agent });
    if (playing === true) player.play();
    else if (playing === false) player.pause();
    page.showControls();
    // What was not possible as it was set goes back as it is.
    Object.assign(this.last, message.state);
    this.report();
    // Not before the owner has set how it begins. A run that plays moves sixty times a second: too often to report.
    this.timer ||= setInterval(() => this.report(), REPORT_EVERY);
  }
}
