// The page of a replay in a frame of its own: a widget's traits go to it, and come from it, as messages.

const TRAITS = ["speed", "time", "agent", "playing"];

function render({ model, el }) {
  const frame = document.createElement("iframe");
  let receiving = false;
  frame.title = "Replay of a run";
  // Scripts, but nothing of the notebook's: the page is of another origin, and keys stay in it.
  frame.setAttribute("sandbox", "allow-scripts");
  frame.style.cssText = "display: block; width: 100%; border: 0;";
  const size = () => (frame.style.height = `${model.get("height")}px`);
  const set = (state) => frame.contentWindow && frame.contentWindow.postMessage({ replay: "set", state }, "*");
  const receive = (event) => {
    if (event.source !== frame.contentWindow || !event.data) return;
    const { replay, state, number, what, asked } = event.data;
    // A lab's page asks Python.
    if (replay === "ask") model.send({ number, what, asked });
    // The page chooses what Python left open.
    if (replay === "ready") set(Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]).filter(([, value]) => value !== null)));
    if (replay !== "state") return;
    receiving = true;
    for (const name of TRAITS) if (name in state) model.set(name, state[name]);
    receiving = false;
    model.save_changes();
  };
  const changes = TRAITS.map((name) => [`change:${name}`, () => receiving || set({ [name]: model.get(name) })]);
  changes.push(["change:height", size]);
  changes.push(["msg:custom", ({ number, answer }) => frame.contentWindow && frame.contentWindow.postMessage({ replay: "answer", number, answer: JSON.parse(answer) }, "*")]);
  window.addEventListener("message", receive);
  for (const [event, act] of changes) model.on(event, act);
  size();
  frame.srcdoc = model.get("page");
  el.append(frame);
  return () => {
    window.removeEventListener("message", receive);
    for (const [event, act] of changes) model.off(event, act);
  };
}

export default { render };
