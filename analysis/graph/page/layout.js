// The order of operations as a drawing: lanes below each other, columns from left to right. An operation stands right of all that it is
// ordered after and of the host's calls before it, so what is in one column could run at the same time. Lines run in the gaps between
// columns and in the gutters between lanes, so they cross no box. Distances across are in world units, which zoom scales; down in pixels.
const BOX = 38;
const LANE = 50;
const WIDEST = 176;
const WIDEST_SET_UP = 132; // which takes little room
const NARROWEST = 72;
const WORK = [new Set(["launch", "library_call", "graph_launch"]), new Set(["copy", "memset"])];
const SET_UP = new Set(["alloc", "free", "host_alloc", "host_free", "register", "unregister", "stream_create", "stream_destroy", "event_create", "event_destroy"]);
const TRACK = 5;
const MOST_TRACKS = 10;
const LOOP_BAND = 18;

class Channel { // lines beside each other in a gap or gutter: those that overlap get tracks of their own
  constructor() {
    this.spans = new Map();
    this.track = new Map();
    this.tracks = 0;
  }
  add(key, one, other) {
    const low = Math.min(one, other);
    const high = Math.max(one, other);
    const span = this.spans.get(key);
    this.spans.set(key, span ? [Math.min(span[0], low), Math.max(span[1], high)] : [low, high]);
  }
  settle() {
    const ends = [];
    for (const [key, [low, high]] of [...this.spans].sort((a, b) => a[1][0] - b[1][0] || a[1][1] - b[1][1])) {
      let track = ends.findIndex((end) => end < low);
      if (track < 0) track = ends.length < MOST_TRACKS ? ends.length : ends.indexOf(Math.min(...ends));
      ends[track] = high;
      this.track.set(key, track);
    }
    this.tracks = ends.length;
  }
}

function orderLayout(side, shown) {
  const lanes = side.lanes.filter((lane) => shown.some((node) => node.laneIndex === lane.index));
  const row = new Map(lanes.map((lane, k) => [lane.index, k]));
  const items = shown.map((node) => ({ node, index: node.index, row: row.get(node.laneIndex), column: 0 }));
  const itemOf = new Map(items.map((item) => [item.index, item]));
  const columns = placeColumns(side, items, itemOf);
  const lines = [];
  const drawn = new Set();
  for (const edge of side.edges) {
    const one = itemOf.get(edge.source);
    const other = itemOf.get(edge.target);
    if (!one || !other || one.row === other.row || !ORDERS.has(edge.why) || one.column >= other.column) continue;
    const key = `${edge.why} ${edge.source} ${edge.target}`;
    if (!drawn.has(key)) lines.push({ edge, one, other });
    drawn.add(key);
  }
  const gaps = columns.map(() => new Channel());
  const gutters = [...lanes, null].map(() => new Channel());
  for (const line of lines) enter(line, gaps, gutters);
  for (const channel of [...gaps, ...gutters]) channel.settle();

  const depth = loopDepths(side, shown);
  const top = depth ? depth * LOOP_BAND + 8 : 8;
  const tops = [];
  let y = top;
  lanes.forEach((lane, k) => {
    y += 10 + gutters[k].tracks * TRACK;
    tops.push(y);
    y += LANE;
  });
  const height = y + 10 + gutters[lanes.length].tracks * TRACK;
  const lefts = [];
  let x = 16;
  columns.forEach((width, k) => {
    lefts.push(x);
    x += width + 22 + gaps[k].tracks * TRACK;
  });
  for (const item of items) {
    item.x = lefts[item.column];
    item.width = columns[item.column];
    item.y = tops[item.row] + (LANE - BOX) / 2;
    item.height = BOX;
  }
  const gutterY = (k, key) => (k < tops.length ? tops[k] : height - 4) - 5 - gutters[k].track.get(key) * TRACK;
  for (const line of lines) route(line, gaps, gutterY);
  return {
    items, itemOf, lines, height, tops, lanes, width: x, start: startOf(items), byRow: rows(items, lanes.length), laneHeights: lanes.map(() => LANE),
    loops: loopFrames(side, shown, itemOf, top, height), measured: false, overlapping: lanes.map(() => false),
  };
}

// Where the work of the device begins, after what may be a long set-up.
function startOf(items) {
  for (const kinds of WORK) {
    const found = items.filter((item) => kinds.has(item.node.kind)).map((item) => item.x);
    if (found.length) return Math.min(...found);
  }
  return 0;
}

function placeColumns(side, items, itemOf) {
  let floor = 0;
  let host = -1;
  let highest = -1;
  let loop;
  const last = new Map();
  const widths = [];
  for (const item of items) {
    const node = item.node;
    if (node.loop !== loop) {
      floor = highest + 1;
      loop = node.loop;
    }
    let column = Math.max(floor, host + 1, (last.has(item.row) ? last.get(item.row) : -1) + 1);
    for (const edge of side.into[item.index]) {
      const source = itemOf.get(edge.source);
      if (source) column = Math.max(column, source.column + 1);
    }
    item.column = column;
    last.set(item.row, column);
    highest = Math.max(highest, column);
    if (node.lane === null || node.waits) host = column;
    const wanted = Math.max(widthOf(node.call, "large"), widthOf(node.note, "small"));
    widths[column] = Math.max(widths[column] || NARROWEST, Math.min(SET_UP.has(node.kind) ? WIDEST_SET_UP : WIDEST, wanted + 16));
  }
  for (let k = 0; k < widths.length; k++) widths[k] = widths[k] || NARROWEST;
  return widths;
}

function rows(items, count) {
  const found = Array.from({ length: count }, () => []);
  for (const item of items) found[item.row].push(item);
  for (const row of found) row.sort((a, b) => a.x - b.x);
  return found;
}

const gutterOf = (line) => (line.other.row > line.one.row ? line.other.row : line.other.row + 1); // on the side that it comes from

function enter(line, gaps, gutters) {
  const { edge, one, other } = line;
  const source = `${edge.why} ${one.index}`;
  const target = `${edge.why} >${other.index}`;
  if (other.column === one.column + 1) {
    gaps[one.column].add(source, 2 * one.row, 2 * other.row);
    return;
  }
  const gutter = gutterOf(line);
  gaps[one.column].add(source, 2 * one.row, 2 * gutter - 1);
  gutters[gutter].add(source, one.column, other.column - 1);
  gaps[other.column - 1].add(target, 2 * gutter - 1, 2 * other.row);
}

function route(line, gaps, gutterY) {
  const { edge, one, other } = line;
  const source = `${edge.why} ${one.index}`;
  const target = `${edge.why} >${other.index}`;
  const middle = (item) => item.y + item.height / 2;
  const right = one.x + one.width;
  const leave = right + 9 + gaps[one.column].track.get(source) * TRACK;
  if (other.column === one.column + 1) {
    line.points = [[right, middle(one)], [leave, middle(one)], [leave, middle(other)], [other.x, middle(other)]];
    return;
  }
  const y = gutterY(gutterOf(line), source);
  const arrive = other.x - 11 - gaps[other.column - 1].track.get(target) * TRACK;
  line.points = [[right, middle(one)], [leave, middle(one)], [leave, y], [arrive, y], [arrive, middle(other)], [other.x, middle(other)]];
}

function chainOf(side, loop) {
  const chain = [];
  for (let at = loop; at !== null && at !== undefined && side.loops.has(at); at = side.loops.get(at).parent) chain.unshift(at);
  return chain;
}

function loopDepths(side, shown) {
  return Math.max(0, ...[...new Set(shown.map((node) => node.loop))].map((loop) => chainOf(side, loop).length));
}

function loopFrames(side, shown, itemOf, top, height) {
  const found = new Map();
  for (const node of shown) {
    const item = itemOf.get(node.index);
    chainOf(side, node.loop).forEach((loop, depth) => {
      const frame = found.get(loop) || { loop: side.loops.get(loop), depth, left: Infinity, right: 0 };
      frame.left = Math.min(frame.left, item.x);
      frame.right = Math.max(frame.right, item.x + item.width);
      found.set(loop, frame);
    });
  }
  return [...found.values()].map((frame) => ({
    ...frame,
    left: frame.left - 8 + 2 * frame.depth,
    right: frame.right + 8 - 2 * frame.depth,
    top: 4 + frame.depth * LOOP_BAND,
    bottom: height - 2 - 3 * frame.depth,
  }));
}
