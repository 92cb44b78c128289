// What netsim/replay/still.py calls: texts go in and out.

const window = { devicePixelRatio: 1 };
const ARRAYS = { f8: Float64Array, i4: Int32Array, i2: Int16Array, u1: Uint8Array };
let still = null;

function begin(text) {
  const { columns, ...how } = JSON.parse(text), unpacked = {};
  for (const [name, [type, data]] of Object.entries(columns)) unpacked[name] = new ARRAYS[type](Uint8Array.fromBase64(data).buffer);
  still = new Still({ ...how, columns: unpacked });
  return JSON.stringify([still.meta.title, still.about]);
}

// A negative time: a diagram without a cursor.
function picture(film) {
  return JSON.stringify(still.at(film < 0 ? null : film));
}
