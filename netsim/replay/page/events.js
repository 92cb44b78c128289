// The link messages of a run, and what can be asked of them at a time. A row is waiting while start <= t < depart, flying
// while depart <= t < end, and has ended once end <= t. What took no time, in a round, is drawn until the round's end.

const BLOCK = 1024;

// Rows by value, for values >= 0: their bits then have the order of their values. Least significant digits first.
function orderOf(values) {
  const length = values.length;
  const words = new Uint32Array(values.buffer, values.byteOffset, 2 * length);
  let order = new Uint32Array(length).map((_, i) => i), next = new Uint32Array(length);
  for (let digit = 0; digit < 4; digit++) {
    const offset = digit >> 1, shift = 16 * (digit & 1);
    const places = new Uint32Array(65537);
    for (let i = 0; i < length; i++) places[((words[2 * i + offset] >>> shift) & 0xffff) + 1]++;
    if (places.includes(length)) continue;
    for (let i = 1; i < 65537; i++) places[i] += places[i - 1];
    for (let i = 0; i < length; i++) {
      const row = order[i];
      next[places[(words[2 * row + offset] >>> shift) & 0xffff]++] = row;
    }
    [order, next] = [next, order];
  }
  return order;
}

// How many of the sorted values (or of those of some rows) are <= limit (or < limit).
function countUpTo(values, limit, without = false, rows = null) {
  let low = 0, high = rows ? rows.length : values.length;
  while (low < high) {
    const middle = (low + high) >> 1, value = values[rows ? rows[middle] : middle];
    if (without ? value < limit : value <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Rows by the number that each has, as a function of it: those of number i, in their order, by default that of start.
function grouped(numbers, count, rows = new Uint32Array(numbers.length).map((_, row) => row)) {
  const first = new Uint32Array(count + 1), list = new Uint32Array(rows.length);
  for (const row of rows) first[numbers[row] + 1]++;
  for (let i = 1; i <= count; i++) first[i] += first[i - 1];
  const place = first.slice();
  for (const row of rows) list[place[numbers[row]]++] = row;
  return (number) => list.subarray(first[number], first[number + 1]);
}

// The mean time that frames take that arrive, of an even selection.
function flightOf({ count, cause, depart, end }) {
  const step = Math.ceil(count / 10000) || 1;
  let sum = 0, found = 0;
  for (let row = 0; row < count; row += step) if (cause[row] === 0) (sum += end[row] - depart[row]), found++;
  return found ? sum / found : 0;
}

class Events {
  constructor(columns, meta) {
    Object.assign(this, columns);
    this.count = this.start.length;
    this.causes = meta.causes.length;
    this.keptKinds = new Uint8Array(meta.kinds.length).fill(1);
    this.keptCauses = new Uint8Array(this.causes).fill(1);
    this.order = orderOf(this.end);
    this.ends = Float64Array.from(this.order, (row) => this.end[row]);
    this.until = this.spread(meta);
    const blocks = Math.ceil(this.count / BLOCK);
    this.latest = new Float64Array(blocks);
    // How many had ended by each cause before a block of the order of ends.
    this.before = new Uint32Array((blocks + 1) * this.causes);
    const sums = new Uint32Array(this.causes);
    for (let i = 0; i < this.count; i++) {
      const block = Math.floor(i / BLOCK);
      if (i % BLOCK === 0) this.before.set(sums, block * this.causes);
      if (this.until[i] > this.latest[block]) this.latest[block] = this.until[i];
      sums[this.cause[this.order[i]]]++;
    }
    this.before.set(sums, blocks * this.causes);
    this.found = new Uint32Array(this.count);
    this.sentBy = grouped(this.sender, meta.agents.length);
    this.sentTo = grouped(this.receiver, meta.agents.length);
    // On a medium that all share what several hear is one thing, and no loss where some of them do not.
    this.isCast = new Uint8Array(this.count);
    for (let agent = 0; meta.medium === "shared" && agent < meta.agents.length; agent++) {
      const rows = this.sentBy(agent);
      for (let i = 1; i < rows.length; i++) if (this.number[rows[i]] === this.number[rows[i - 1]]) this.isCast[rows[i]] = this.isCast[rows[i - 1]] = 1;
    }
  }

  // Until when rows are drawn on the map. A frame that takes no time would never be seen: it is drawn over the rest of
  // its round, at whose end rounds' agents use what they heard. Not what is answered: the answer would leave before the
  // question comes.
  spread({ round_period: period, kinds, rounds }) {
    const { start, end, kind, cause, reply, round } = this, answered = new Uint8Array(kinds.length);
    this.none = this.spreads = 0;
    for (let row = 0; row < this.count; row++) if (reply[row]) answered[kind[row]] = 1;
    let until = end;
    for (let row = 0; row < this.count; row++) {
      if (cause[row] !== 0 || end[row] > start[row]) continue;
      if (!round[row] || !(rounds > 0 && period > 0) || answered[kind[row]]) {
        this.none++;
        continue;
      }
      if (until === end) until = end.slice();
      until[row] = Math.max((Math.floor(start[row] / period + 1e-9) + 1) * period, start[row]);
      this.spreads++;
    }
    return until;
  }

  keeps(row) {
    return this.keptKinds[this.kind[row]] && this.keptCauses[this.cause[row]];
  }

  // The kept rows that began by `to` and end (or are drawn until) after `from`; the list is valid until the next call.
  overlapping(from, to, end = this.end) {
    const { start, kind, cause, keptKinds, keptCauses, found } = this;
    const last = countUpTo(start, to);
    let size = 0;
    for (let first = 0; first < last; first += BLOCK) {
      if (this.latest[first / BLOCK] <= from) continue;
      const stop = Math.min(first + BLOCK, last);
      for (let row = first; row < stop; row++) {
        if (end[row] > from && keptKinds[kind[row]] && keptCauses[cause[row]]) found[size++] = row;
      }
    }
    return found.subarray(0, size);
  }

  // Numbers of link messages that have ended by t, by cause; of all, filtered or not.
  endedBy(t) {
    const total = countUpTo(this.ends, t), block = Math.floor(total / BLOCK);
    const counts = this.before.slice(block * this.causes, (block + 1) * this.causes);
    for (let i = block * BLOCK; i < total; i++) counts[this.cause[this.order[i]]]++;
    return counts;
  }

  // The next time after t, or the last one before, of sorted times of rows, of those that are kept; NaN if there is none.
  nearest(times, rowOf, t, forward) {
    let at = countUpTo(times, t, !forward) - (forward ? 0 : 1);
    while (at >= 0 && at < this.count && !this.keeps(rowOf(at))) at += forward ? 1 : -1;
    return at >= 0 && at < this.count && times[at] < Infinity ? times[at] : NaN;
  }

  // The next end, or the last one; and the next start or end.
  ending(t, forward) {
    return this.nearest(this.ends, (at) => this.order[at], t, forward);
  }

  event(t, forward) {
    const found = [this.nearest(this.start, (at) => at, t, forward), this.ending(t, forward)].filter((time) => !Number.isNaN(time));
    return found.length ? Math[forward ? "min" : "max"](...found) : NaN;
  }
}

// Which of very many rows are drawn: always the same ones, so that nothing flickers.
function thinned(rows, most) {
  const bits = Math.max(0, Math.ceil(Math.log2(rows.length / most)));
  return bits ? rows.filter((row) => !(Math.imul(row, 0x9e3779b1) >>> (32 - bits))).slice(0, most) : rows;
}
