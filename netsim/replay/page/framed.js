// In a frame, as in a notebook: what is shown is told to whoever holds the frame, and what that sets is shown.

const TELL_EVERY = 200;

class Framed {
  constructor(page) {
    this.page = page;
    this.last = {};
    window.addEventListener("message", (event) => event.source === window.parent && this.hear(event.data));
    window.parent.postMessage({ replay: "ready" }, "*");
  }

  state() {
    const { player, chosen } = this.page, { time, playing, speed } = player;
    return { time, playing, speed, agent: chosen && chosen.agent !== undefined ? chosen.agent : null };
  }

  tell() {
    const now = this.state(), news = Object.entries(now).filter(([name, value]) => value !== this.last[name]);
    this.last = now;
    if (news.length) window.parent.postMessage({ replay: "state", state: Object.fromEntries(news) }, "*");
  }

  hear(told) {
    if (!told || told.replay !== "set") return;
    const { page } = this, { player } = page, { time, speed, playing, agent } = told.state;
    if (speed > 0) player.speed = speed;
    if (Number.isFinite(time)) player.seek(time);
    if (agent === null) page.choose(null);
    else if (Number.isInteger(agent) && agent >= 0 && agent < page.meta.agents.length) page.choose({ agent });
    if (playing === true) player.play();
    else if (playing === false) player.pause();
    page.told();
    // What was not possible as it was set goes back as it is.
    Object.assign(this.last, told.state);
    this.tell();
    // Not before it was told how to begin. A run that plays moves sixty times a second: nobody is told each time.
    this.timer ||= setInterval(() => this.tell(), TELL_EVERY);
  }
}
