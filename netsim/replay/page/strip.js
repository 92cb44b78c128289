// The strip below: when frames ended, delivered ones in the upper half, others by cause in the lower; and the slider.

class Strip {
  constructor(page, canvas) {
    Object.assign(this, { page, canvas });
    this.under = document.createElement("canvas");
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.dragging = true;
      this.drag(event);
    });
    canvas.addEventListener("pointermove", (event) => this.dragging && this.drag(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => (this.dragging = false));
    this.resize();
  }

  drag(event) {
    const box = this.canvas.getBoundingClientRect();
    this.page.player.seek(((event.clientX - box.left - 8) / (box.width - 16)) * this.page.span);
  }

  // Counts of ended, kept frames by bin and cause.
  histogram(bins) {
    const { events, span } = this.page, counts = new Float64Array(bins * events.causes);
    for (let row = 0; row < events.count; row++) {
      if (!events.keeps(row) || events.end[row] === Infinity) continue;
      const bin = Math.min(Math.max(Math.floor((events.end[row] / span) * bins), 0), bins - 1);
      counts[bin * events.causes + events.cause[row]]++;
    }
    return counts;
  }

  resize() {
    const { width, height } = (this.surface = fitted(this.canvas)), { look, events, span } = this.page;
    this.foot = 4 + 14 * look.scale;
    this.under.width = this.canvas.width;
    this.under.height = this.canvas.height;
    const context = this.under.getContext("2d");
    context.scale(this.canvas.width / width, this.canvas.height / height);
    const inner = width - 16, wide = 2, bins = Math.max(1, Math.floor(inner / wide)), causes = events.causes;
    const counts = this.histogram(bins), half = (height - this.foot) / 2;
    let most = [0, 0];
    for (let bin = 0; bin < bins; bin++) {
      let ill = 0;
      for (let cause = 1; cause < causes; cause++) ill += counts[bin * causes + cause];
      most = [Math.max(most[0], counts[bin * causes]), Math.max(most[1], ill)];
    }
    for (let bin = 0; bin < bins; bin++) {
      const x = 8 + (bin * inner) / bins, well = (half * counts[bin * causes]) / (most[0] || 1);
      context.fillStyle = look.colours[0];
      context.globalAlpha = 0.75;
      context.fillRect(x, half - well, inner / bins, well);
      context.globalAlpha = 1;
      for (let cause = 1, y = half + 1; cause < causes; cause++) {
        const size = ((half - 1) * counts[bin * causes + cause]) / (most[1] || 1);
        context.fillStyle = look.colours[cause];
        context.fillRect(x, y, inner / bins, size);
        y += size;
      }
    }
    this.drawAxis(context, half, inner, height, most);
  }

  drawAxis(context, half, inner, height, most) {
    const { look, span } = this.page;
    context.fillStyle = look.soft;
    context.fillRect(8, half, inner, 1);
    context.font = look.font(11);
    context.textBaseline = "alphabetic";
    for (const time of ticks(0, span, inner / (90 * look.scale))) {
      const x = 8 + (time / span) * inner;
      context.textAlign = x < 30 ? "left" : x > inner - 20 ? "right" : "center";
      context.fillRect(x, height - this.foot, 1, 4);
      context.fillText(`${short(time)} s`, x, height - 3);
    }
    context.textAlign = "right";
    if (most[0]) look.write(context, `delivered, at most ${most[0]}`, inner + 4, 11 * look.scale, 3);
    if (most[1]) look.write(context, `other ends, at most ${most[1]}`, inner + 4, 2 * half - 3, 3);
    // When something began to fail.
    context.fillStyle = look.bandline;
    for (const { begin } of (this.page.meta.faults || []).slice(0, 500)) {
      if (!(begin > 0)) continue;
      const x = 8 + (begin / span) * inner;
      context.beginPath();
      context.moveTo(x - 5, 0);
      context.lineTo(x + 5, 0);
      context.lineTo(x, 9);
      context.fill();
      for (let y = 10; y < height - this.foot; y += 5) context.fillRect(x - 0.5, y, 1, 2);
    }
  }

  draw(t) {
    const { context, width, height } = this.surface, x = 8 + (t / this.page.span) * (width - 16);
    context.clearRect(0, 0, width, height);
    context.drawImage(this.under, 0, 0, width, height);
    context.fillStyle = this.page.look.accent;
    context.fillRect(x - 1.5, 0, 3, height - this.foot + 2);
    context.beginPath();
    context.arc(x, (height - this.foot) / 2, 6, 0, TURN);
    context.fill();
    context.lineWidth = 2;
    context.strokeStyle = this.page.look.paper;
    context.stroke();
    this.canvas.setAttribute("aria-valuenow", String(t));
    this.canvas.setAttribute("aria-valuetext", `${short(t)} seconds`);
  }
}
