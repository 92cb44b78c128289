// The run's curves, drawn by uPlot, with the cursor of time and the values there.

const CURVE_COLOURS = { light: ["#0072b2", "#d55e00", "#007a5a", "#b0457f"], dark: ["#56b4e9", "#ff7a1a", "#2ec79a", "#e79ac4"] };
const ERRORS = /(mse|error|loss|spread|regret)$/;
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

// The largest of any number of values.
const greatest = (values) => values.reduce((most, v) => Math.max(most, v), -Infinity);

// Of a logarithmic axis the powers of ten, at most some seven.
function powersOfTen(_, axis, low, high) {
  const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9), step = Math.ceil((last - first + 1) / 7);
  const list = [];
  for (let power = first; power <= last; power += step) list.push(10 ** power);
  return list;
}

class Curves {
  constructor(page, panel) {
    Object.assign(this, { page, panel });
    this.chips = [];
    this.read();
    // Until somebody chooses: an error, or what spans more than two powers of ten.
    this.log = null;
    this.logBox = panel.querySelector("[data-part=log]");
    this.logBox.addEventListener("change", () => ((this.log = this.logBox.checked), this.build()));
    this.readings = panel.querySelector("[data-part=readings]");
    this.build();
  }

  read() {
    const { meta, columns } = this.page;
    this.names = meta.curves;
    this.x = columns["curves x"];
    // Gaps, not numbers, where there is none.
    this.values = this.names.map((_, i) => Array.from(columns[`curve ${i}`], (v) => (Number.isFinite(v) ? v : null)));
    this.panel.hidden = !this.names.length || !this.x.length;
    if (!this.chips.length) this.shown = this.first();
    this.names.slice(this.chips.length).forEach((name) => {
      const i = this.chips.length, zero = this.values[i].every((v) => !v), chip = newButton(name, () => this.toggle(i), { title: `show or hide ${name}` });
      this.chips.push(chip);
      // What is always 0 is folded.
      this.panel.querySelector(zero ? "[data-part=zeros] .chips" : "[data-part=chips]").append(chip);
      chip.zero = zero;
    });
    const zeros = this.panel.querySelector("[data-part=zeros]"), still = this.chips.filter((chip, i) => chip.zero && this.values[i].every((v) => !v));
    this.chips.forEach((chip) => {
      if (!chip.zero || still.includes(chip)) return;
      chip.zero = false;
      this.panel.querySelector("[data-part=chips]").append(chip);
    });
    zeros.hidden = !still.length;
    zeros.querySelector("summary").textContent = `${still.length} that ${still.length === 1 ? "stays" : "stay"} 0`;
  }

  // Of a run that learns its first error, not the count that stands before it.
  first() {
    const error = this.names.findIndex((name) => ERRORS.test(name));
    return this.names.length ? [Math.max(error, 0)] : [];
  }

  // At most four at once: there are no more colours and dashes.
  toggle(i) {
    if (this.shown.includes(i)) this.shown = this.shown.filter((each) => each !== i);
    else this.shown = [...this.shown, i].slice(-4);
    this.build();
  }

  build() {
    if (this.panel.hidden) return;
    const { look } = this.page, holder = this.panel.querySelector("[data-part=plot]");
    if (this.plot) this.plot.destroy();
    this.colours = CURVE_COLOURS[look.dark ? "dark" : "light"];
    const all = this.shown.flatMap((i) => this.values[i]).filter((v) => v !== null);
    const positive = all.length > 0 && all.every((v) => v > 0);
    this.logBox.disabled = !positive;
    const wide = positive && greatest(all) / -greatest(all.map((v) => -v)) > 100, errors = this.shown.some((i) => ERRORS.test(this.names[i]));
    this.logBox.checked = positive && (this.log ?? (wide || errors));
    const axis = { stroke: look.ink, grid: { stroke: look.line, width: 1 }, ticks: { stroke: look.line }, font: look.font(11) };
    const format = (_, list) => list.map((v) => (v === null ? "" : short(v, 4)));
    const logarithmic = this.logBox.checked, decades = logarithmic ? Math.log10(greatest(all) / -greatest(all.map((v) => -v))) : 0;
    this.plot = new uPlot({
      width: Math.max(holder.clientWidth, 200), height: 160 + 30 * look.scale, legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { show: false } },
      scales: { x: { time: false, range: [0, this.page.span] }, y: { distr: logarithmic ? 3 : 1 } },
      axes: [{ ...axis, values: format, label: "time in s", labelSize: 16 * look.scale, size: 30 * look.scale, labelFont: axis.font, space: 50 * look.scale },
        { ...axis, values: format, size: 58 * look.scale, ...(decades > 1.2 ? { splits: powersOfTen, filter: (_, list) => list } : {}) }],
      series: [{}, ...this.shown.map((i, k) => ({ label: this.names[i], stroke: this.colours[k], width: 2, dash: DASHES[k], points: { show: this.x.length < 3 } }))],
      // Where a time stands is known only once the axes are laid out.
      hooks: { ready: [() => this.draw(this.page.player ? this.page.player.time : 0)] },
    }, [this.x, ...this.shown.map((i) => this.values[i])], holder);
    this.line = element("div", "", { class: "now" });
    this.plot.over.append(this.line);
    this.plot.over.addEventListener("click", (event) => this.page.player.seek(this.plot.posToVal(event.offsetX, "x")));
    this.chips.forEach((chip, i) => {
      const k = this.shown.indexOf(i);
      chip.setAttribute("aria-pressed", String(k >= 0));
      chip.style.borderColor = k >= 0 ? this.colours[k] : "";
      chip.style.borderStyle = k === 1 ? "dashed" : k === 2 ? "dotted" : k === 3 ? "double" : "";
    });
    this.rows = this.shown.map((i, k) => {
      const value = element("output"), row = element("span", [element("b", this.names[i], { style: `color: ${this.colours[k]}` }), " ", value]);
      return { row, value, i };
    });
    this.readings.replaceChildren(...this.rows.map(({ row }) => row));
  }

  draw(t) {
    if (this.panel.hidden || !this.plot || !this.rows) return;
    const left = this.plot.valToPos(t, "x");
    this.line.style.transform = `translateX(${left}px)`;
    const at = countUpTo(this.x, t) - 1;
    for (const { value, i } of this.rows) setText(value, at < 0 ? "–" : short(this.values[i][at]));
  }
}
