// Neighbouring locations as one cluster, which opens as one zooms in. All locations are sorted once along a curve
// that visits every square of a grid before the next one (Morton order). So the locations of a square of any size
// follow each other, and sums along the curve give the sum of any square: what is drawn costs what is visible.

const LEVELS = 16; // halvings of the square around all locations
const OPEN = 4; // a square with so many locations is drawn as these
const PACKED = 50; // the same of a square that cannot be halved
const AROUND = 32; // neighbours along the curve among which the nearest is looked for

export class ClusterIndex {
  constructor(locations) {
    this.x = Float64Array.from(locations, ({ x }) => x);
    this.y = Float64Array.from(locations, ({ y }) => y);
    const [[west, east], [south, north]] = [range(this.x), range(this.y)];
    Object.assign(this, { west, south, size: Math.max(east - west, north - south) * (1 + 1e-9) || 1 });
    const cells = 2 ** LEVELS / this.size;
    const keys = Uint32Array.from(locations, (_, i) => interleave((this.x[i] - west) * cells, (this.y[i] - south) * cells));
    this.order = sortByKey(keys);
    this.keys = Uint32Array.from(this.order, (i) => keys[i]);
    this.sums = { x: prefixSums(this.order, this.x), y: prefixSums(this.order, this.y) };
    this.measure(new Float64Array(locations.length).fill(NaN));
  }

  // Takes the values whose sums clusters have; NaN: unknown.
  measure(values) {
    const known = Float64Array.from(values, (value) => (Number.isNaN(value) ? 0 : 1));
    const numbers = Float64Array.from(values, (value) => (Number.isNaN(value) ? 0 : value));
    Object.assign(this.sums, { known: prefixSums(this.order, known), value: prefixSums(this.order, numbers) });
  }

  // What is drawn of the visible part: `single`, indices of locations, and clusters of squares of at most so many pixels.
  // around: pixels beyond the edges that are visible, too.
  cover(view, square, around) {
    const [single, clusters] = [[], []];
    const [west, north] = [view.left - around / view.scale, view.top + around / view.scale];
    const east = view.left + (view.width + around) / view.scale;
    const south = view.top - (view.height + around) / view.scale;
    const visit = (level, x, y, first, end) => {
      const size = this.size / 2 ** level;
      const [left, bottom] = [this.west + x * size, this.south + y * size];
      if (first === end || left > east || left + size < west || bottom > north || bottom + size < south) return;
      const count = end - first;
      if (count <= (level === LEVELS ? PACKED : OPEN)) {
        for (let n = first; n < end; n++) single.push(this.order[n]);
      } else if (size * view.scale <= square || level === LEVELS) {
        clusters.push(this.#cluster(first, end, { x: left + size / 2, y: bottom + size / 2, size }));
      } else {
        const ends = this.#quarters(level, x, y, first, end);
        for (let q = 0; q < 4; q++) visit(level + 1, 2 * x + (q & 1), 2 * y + (q >> 1), q ? ends[q - 1] : first, ends[q]);
      }
    };
    visit(0, 0, 0, 0, this.order.length);
    return { single, clusters };
  }

  // The scale from which a location is drawn on its own.
  openingScale({ x, y }, square) {
    const cells = 2 ** LEVELS / this.size;
    const [column, row] = [Math.floor((x - this.west) * cells), Math.floor((y - this.south) * cells)];
    let [first, end, level] = [0, this.order.length, 0];
    while (end - first > OPEN && level < LEVELS) {
      const rest = LEVELS - level;
      const ends = this.#quarters(level, column >> rest, row >> rest, first, end);
      const q = ((column >> (rest - 1)) & 1) + 2 * ((row >> (rest - 1)) & 1);
      [first, end, level] = [q ? ends[q - 1] : first, ends[q], level + 1];
    }
    return (square * 2 ** (level - 1) * 1.01) / this.size;
  }

  // The area of a cluster's locations.
  extent({ first, end }) {
    const members = this.order.subarray(first, end);
    return [range(members, (i) => this.x[i]), range(members, (i) => this.y[i])];
  }

  // Distances from about `count` locations to the nearest other one along the curve.
  nearestDistances(count) {
    const distances = [];
    for (let n = 0; n < this.order.length; n += Math.ceil(this.order.length / count)) {
      let best = Infinity;
      for (let m = Math.max(n - AROUND, 0); m < Math.min(n + AROUND, this.order.length); m++) {
        const [i, j] = [this.order[n], this.order[m]];
        const d = Math.hypot(this.x[i] - this.x[j], this.y[i] - this.y[j]);
        if (d > 0 && d < best) best = d;
      }
      distances.push(best);
    }
    return distances;
  }

  // The ends of a square's quarters along the curve.
  #quarters(level, x, y, first, end) {
    const shift = 2 * (LEVELS - level - 1);
    const start = interleave(x, y) * 4;
    return [1, 2, 3, 4].map((q) => lowerBound(this.keys, (start + q) * 2 ** shift, first, end));
  }

  #cluster(first, end, square) {
    const sum = (name) => this.sums[name][end] - this.sums[name][first];
    const [count, known] = [end - first, sum("known")];
    return {
      first, end, count, known, square,
      x: sum("x") / count,
      y: sum("y") / count,
      total: sum("value"),
      mean: known ? sum("value") / known : null,
    };
  }
}

// The bits of two numbers below 2 ** 16 in turns.
function interleave(x, y) {
  return (spread(x) | (spread(y) << 1)) >>> 0;
}

function spread(value) {
  let v = value & 0xffff;
  v = (v | (v << 8)) & 0x00ff00ff;
  v = (v | (v << 4)) & 0x0f0f0f0f;
  v = (v | (v << 2)) & 0x33333333;
  return (v | (v << 1)) & 0x55555555;
}

// The order of keys of 32 bits, by two counting sorts of 16: several times as fast as a comparing sort.
function sortByKey(keys) {
  let order = Uint32Array.from(keys, (_, i) => i);
  for (const shift of [0, 16]) {
    const starts = new Uint32Array(2 ** 16 + 1);
    for (const key of keys) starts[((key >>> shift) & 0xffff) + 1]++;
    for (let n = 1; n < starts.length; n++) starts[n] += starts[n - 1];
    const sorted = new Uint32Array(keys.length);
    for (const i of order) sorted[starts[(keys[i] >>> shift) & 0xffff]++] = i;
    order = sorted;
  }
  return order;
}

function prefixSums(order, values) {
  const sums = new Float64Array(order.length + 1);
  for (let n = 0; n < order.length; n++) sums[n + 1] = sums[n] + values[order[n]];
  return sums;
}

function lowerBound(keys, key, first, end) {
  while (first < end) {
    const middle = (first + end) >>> 1;
    if (keys[middle] < key) first = middle + 1;
    else end = middle;
  }
  return first;
}

function range(values, read = (value) => value) {
  let [least, most] = [Infinity, -Infinity];
  for (const value of values) [least, most] = [Math.min(least, read(value)), Math.max(most, read(value))];
  return [least, most];
}
