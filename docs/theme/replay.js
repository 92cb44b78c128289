// A replay in a page of the site: <netsim-replay run="news" play></netsim-replay>. The page of a run and the run itself are scripts
// in the folder runs/, which come when the element is about to be seen, from disk, too, where nothing can be fetched.

const ROOT = new URL("../", document.currentScript.src);

// What those scripts call.
const netsimReplays = {
  loading: {},
  runs: {},
  page: null,
  add(name, run) {
    this.runs[name] = run;
  },
  load(name) {
    this.loading[name] ||= new Promise((done, fail) => {
      const script = document.createElement("script");
      script.src = new URL(`runs/${name}.js`, ROOT);
      script.onload = done;
      script.onerror = () => fail(new Error(`runs/${name}.js is missing`));
      document.head.append(script);
    });
    return this.loading[name];
  },
};

class NetsimReplay extends HTMLElement {
  connectedCallback() {
    this.watch = new IntersectionObserver((entries) => entries.some((each) => each.isIntersecting) && this.show(), { rootMargin: "300px" });
    this.watch.observe(this);
  }

  disconnectedCallback() {
    this.watch.disconnect();
  }

  async show() {
    if (this.shown) return;
    this.shown = true;
    this.watch.disconnect();
    const name = this.getAttribute("run"), frame = document.createElement("iframe");
    try {
      await Promise.all([netsimReplays.load("page"), netsimReplays.load(name)]);
    } catch (error) {
      this.textContent = `No replay: ${error.message}.`;
      return;
    }
    const run = netsimReplays.runs[name], text = (part) => JSON.stringify(run[part]).replaceAll("<", "\\u003c");
    frame.title = this.getAttribute("label") || "Replay of a run";
    // Scripts, but nothing of this page's; keys stay in it.
    frame.setAttribute("sandbox", "allow-scripts");
    frame.allow = "fullscreen";
    frame.srcdoc = netsimReplays.page.map((piece, i) => (i % 2 ? text(piece) : piece)).join("");
    window.addEventListener("message", (event) => event.source === frame.contentWindow && this.hear(frame, event.data));
    this.replaceChildren(frame);
  }

  hear(frame, message) {
    if (!message || message.replay !== "ready") return;
    const state = {}, quiet = matchMedia("(prefers-reduced-motion: reduce)").matches;
    for (const name of ["time", "speed"]) if (this.hasAttribute(name)) state[name] = Number(this.getAttribute(name));
    if (this.hasAttribute("play") && !quiet) state.playing = true;
    frame.contentWindow.postMessage({ replay: "set", state }, "*");
    this.dispatchEvent(new Event("ready"));
  }
}

customElements.define("netsim-replay", NetsimReplay);
