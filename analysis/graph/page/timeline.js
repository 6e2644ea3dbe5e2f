// A run as a drawing: lanes of host threads and streams, boxes where and as long as they ran. Distances across are nanoseconds.
const MEASURED = 34;
const AXIS = 26;
const MOST_ROWS = 6;

function measuredLayout(side, shown) {
  const run = side.measured;
  const chosen = new Set(shown.map((node) => node.index));
  const everything = shown.length === side.nodes.length;
  const items = [];
  const byRow = [];
  const lanes = [];
  const tops = [];
  const laneHeights = [];
  let y = AXIS + 8;
  const device = [];
  run.lanes.forEach((lane, k) => {
    if (k && !lane.host && run.lanes[k - 1].host) y += 38; // room for what the device does as a whole
    const row = lanes.length;
    const ends = [];
    const here = [];
    for (const [start, duration, node, name, kind, issued] of lane.spans) {
      if (!everything && !chosen.has(node)) continue;
      let level = ends.findIndex((end) => end <= start);
      if (level < 0) level = ends.length < MOST_ROWS ? ends.length : 0;
      ends[level] = start + duration;
      here.push({
        node: node >= 0 ? side.nodes[node] : null, index: node, row, level, x: start, width: duration, issued,
        name: flat(run.names[name]), kind: run.kinds[kind], height: MEASURED - 6, span: true,
      });
      if (!lane.host) device.push([start, start + duration]);
    }
    if (!here.length) return;
    const height = Math.max(1, ends.length) * (MEASURED - 4) + 6;
    for (const item of here) item.y = y + 4 + item.level * (MEASURED - 4);
    lanes.push({ title: lane.title, flags: "", host: lane.host, index: row });
    byRow.push(here);
    tops.push(y);
    laneHeights.push(height);
    items.push(...here);
    y += height + 10;
  });
  const firstStream = lanes.findIndex((lane) => !lane.host);
  const spansOf = new Map();
  for (const item of items) if (item.node) {
    if (!spansOf.has(item.index)) spansOf.set(item.index, []);
    spansOf.get(item.index).push(item);
  }
  return {
    items, byRow, lanes, tops, laneHeights, spansOf, lines: [], loops: [], height: y + 4, width: Math.max(run.end, 1), measured: true,
    overlapping: byRow.map((row) => row.some((item) => item.level > 0)), // then the ends of boxes are in no order
    itemOf: new Map([...spansOf].map(([index, found]) => [index, found[found.length - 1]])),
    busy: firstStream < 0 ? null : { top: tops[firstStream] - 38, ...busyOf(device, run.end) },
  };
}

// When the device did something, and when more than one thing.
function busyOf(spans, end) {
  const points = [];
  for (const [from, to] of spans) if (to > from) points.push([from, 1], [to, -1]);
  points.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const parts = [];
  let count = 0;
  let at = 0;
  let once = 0;
  let twice = 0;
  for (const [time, step] of points) {
    if (count && time > at) {
      const last = parts[parts.length - 1];
      const level = count > 1 ? 2 : 1;
      if (last && last.to === at && last.level === level) last.to = time;
      else parts.push({ from: at, to: time, level });
      once += time - at;
      if (count > 1) twice += time - at;
    }
    count += step;
    at = time;
  }
  const first = points.length ? points[0][0] : 0;
  const whole = points.length ? points[points.length - 1][0] - first : 0;
  return { parts, share: whole ? once / whole : 0, twice: whole ? twice / whole : 0 };
}

function ticks(from, to, room) {
  const wanted = (to - from) / Math.max(1, room / 110);
  const power = 10 ** Math.floor(Math.log10(Math.max(wanted, 1)));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= wanted) || power * 10;
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}
