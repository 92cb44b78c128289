// Columns as netsim/replay/packing.py packed them: base64, gzip, byte planes, zigzag, differences. Nothing is rounded.

async function gunzip(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// 64 bits as two halves: what has no number in JavaScript is added up with a carry.
function unpackLong(bytes, at, length, less, other) {
  const words = new Uint32Array(2 * length);
  for (let i = 0; i < length; i++) {
    const plane = (k) => bytes[at + k * length + i];
    let low = (plane(0) | (plane(1) << 8) | (plane(2) << 16) | (plane(3) << 24)) >>> 0;
    let high = (plane(4) | (plane(5) << 8) | (plane(6) << 16) | (plane(7) << 24)) >>> 0;
    if (less) {
      const flip = -(low & 1);
      low = (((low >>> 1) | (high << 31)) ^ flip) >>> 0;
      high = ((high >>> 1) ^ flip) >>> 0;
      const from = other ? 2 * i : 2 * (i - 1);
      const base = other || words;
      if (from >= 0) {
        low += base[from];
        high += base[from + 1] + (low > 0xffffffff ? 1 : 0);
      }
    }
    words[2 * i] = low;
    words[2 * i + 1] = high;
  }
  return words;
}

function unpackShort(bytes, at, values, less) {
  const length = values.length, width = values.BYTES_PER_ELEMENT;
  let before = 0;
  for (let i = 0; i < length; i++) {
    let bits = 0;
    for (let k = 0; k < width; k++) bits |= bytes[at + k * length + i] << (8 * k);
    // An array of integers wraps around by itself, as the differences did.
    values[i] = less ? before + ((bits >>> 1) ^ -(bits & 1)) : bits;
    before = values[i];
  }
  return values;
}

function asNumbers(words) {
  const numbers = new Float64Array(words.length / 2);
  for (let i = 0; i < numbers.length; i++) numbers[i] = (words[2 * i + 1] | 0) * 4294967296 + words[2 * i];
  return numbers;
}

async function unpack(packed) {
  const bytes = await gunzip(packed.data);
  const short = { i4: Int32Array, i2: Int16Array, u1: Uint8Array };
  const columns = {}, words = {};
  let at = 0;
  for (const { name, type, length, less } of packed.columns) {
    if (short[type]) {
      columns[name] = unpackShort(bytes, at, new short[type](length), less);
    } else {
      words[name] = unpackLong(bytes, at, length, less, words[less]);
      columns[name] = type === "f8" ? new Float64Array(words[name].buffer) : asNumbers(words[name]);
    }
    at += length * (type === "f8" ? 8 : Number(type[1]));
  }
  return columns;
}
