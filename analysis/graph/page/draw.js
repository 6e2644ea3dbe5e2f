// Draws what is visible of a layout into an SVG element, anew for each view: nothing outside of it exists in the page.
const SVG = "http://www.w3.org/2000/svg";
const SLIM = 6; // boxes narrower than this are drawn together

function element(parent, name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const key of Object.keys(attributes)) made.setAttribute(key, attributes[key]);
  if (text) made.textContent = text;
  parent.append(made);
  return made;
}

const round = (value) => Math.round(value * 10) / 10;

class Drawing {
  // `view`: {x, scale, y}: the world at the left edge, pixels for one unit of it, pixels scrolled down. `state`: what is emphasised.
  constructor(svg, layout, view, state, size) {
    Object.assign(this, { svg, layout, view, state, size });
    this.label = size.label;
    this.to = view.x + (size.width - this.label) / view.scale;
  }

  X(x) { return this.label + (x - this.view.x) * this.view.scale; }
  Y(y) { return y - this.view.y; }

  draw() {
    const { svg, layout } = this;
    svg.replaceChildren();
    this.lanes();
    if (layout.measured) this.axis();
    this.loops();
    this.lines();
    if (this.state.selected >= 0) this.selectedLines();
    this.dangers();
    this.boxes();
    this.emphasis();
    this.names();
    this.thumbs();
  }

  lanes() {
    this.layout.lanes.forEach((lane, k) => {
      const y = this.Y(this.layout.tops[k]);
      const height = this.layout.laneHeights[k];
      element(this.svg, "rect", { class: "lane-back", x: 0, y, width: this.size.width, height, rx: 0 });
      if (this.layout.measured) return;
      const from = Math.max(this.label, this.X(0));
      const to = Math.min(this.size.width, this.X(this.layout.width));
      if (to > from) element(this.svg, "line", { class: "lane-rail", x1: from, x2: to, y1: y + height / 2, y2: y + height / 2 });
    });
  }

  axis() {
    const group = element(this.svg, "g", { class: "axis" });
    for (const at of ticks(this.view.x, this.to, this.size.width - this.label)) {
      const x = round(this.X(at));
      if (x < this.label) continue;
      element(group, "line", { x1: x, x2: x, y1: AXIS - 4, y2: this.size.height });
      const text = microseconds(at);
      if (x + widthOf(text, "small") < this.size.width - 4) element(group, "text", { x: x + 3, y: 14 }, text);
    }
    const busy = this.layout.busy;
    if (!busy) return;
    const y = this.Y(busy.top);
    const paths = ["", "", ""];
    for (const part of this.visible(busy.parts, (p) => p.from, (p) => p.to)) {
      const x = Math.max(this.X(part.from), this.label);
      const width = Math.max(0.5, Math.min(this.X(part.to), this.size.width) - x);
      const height = part.level === 2 ? 20 : 10;
      paths[part.level] += `M${round(x)} ${y + 24 - height}h${round(width)}v${height}h${-round(width)}z`;
    }
    if (paths[1]) element(group, "path", { class: "busy", d: paths[1] });
    if (paths[2]) element(group, "path", { class: "busy two", d: paths[2] });
  }

  loops() {
    for (const frame of this.layout.loops) {
      const left = this.X(frame.left);
      const right = this.X(frame.right);
      if (right < this.label || left > this.size.width || right - left < 4) continue;
      const group = element(this.svg, "g", { class: "loop" });
      const y = this.Y(frame.top);
      element(group, "rect", { x: round(left), y, width: round(right - left), height: round(frame.bottom - frame.top) });
      const from = Math.max(left, this.label) + 8;
      const text = fitted(frame.loop.title, Math.min(right, this.size.width) - from - 8, "small");
      if (text) element(group, "text", { x: round(from), y: y + 13 }, text);
    }
  }

  // The part of a list, sorted by place, that is on the screen.
  visible(list, from, to) {
    const found = [];
    const first = lowest(list, (entry) => to(entry) >= this.view.x);
    for (let k = Math.max(0, first - 1); k < list.length && from(list[k]) <= this.to; k++) found.push(list[k]);
    return found;
  }

  // The boxes of a row that are seen, each pixel once: what is within the same pixel as the box before it is passed over.
  *seen(row) {
    const list = this.layout.byRow[row];
    if (this.layout.overlapping[row]) {
      for (const item of list) if (item.x + item.width >= this.view.x && item.x <= this.to) yield item;
      return;
    }
    const pixel = 1 / this.view.scale;
    let k = lowest(list, (item) => item.x + item.width >= this.view.x);
    while (k < list.length && list[k].x <= this.to) {
      const item = list[k];
      yield item;
      const end = Math.max(item.x + item.width, this.view.x + Math.ceil((item.x - this.view.x) / pixel) * pixel);
      k += 1;
      if (k < list.length && list[k].x + list[k].width <= end) k = Math.max(k, lowest(list, (other) => other.x + other.width > end));
    }
  }

  lines() {
    const faint = this.state.selected >= 0 ? " faint" : "";
    const paths = new Map();
    for (const line of this.layout.lines) {
      const first = line.points[0];
      const last = line.points[line.points.length - 1];
      if (last[0] < this.view.x || first[0] > this.to) continue;
      if ((last[0] - first[0]) * this.view.scale < 3) continue;
      const why = line.edge.why;
      const found = paths.get(why) || { body: [], heads: [] };
      found.body.push(this.path(line.points));
      found.heads.push(this.arrow(last));
      paths.set(why, found);
    }
    for (const [why, { body, heads }] of paths) {
      element(this.svg, "path", { class: `edge ${why}${faint}`, d: body.join("") });
      element(this.svg, "path", { class: `head ${why}${faint}`, d: heads.join("") });
    }
  }

  path(points) {
    const at = points.map(([x, y]) => [round(this.X(x)), round(this.Y(y))]);
    let text = `M${at[0][0]} ${at[0][1]}`;
    for (let k = 1; k < at.length - 1; k++) {
      const before = towards(at[k], at[k - 1]);
      const after = towards(at[k], at[k + 1]);
      text += `L${before[0]} ${before[1]}Q${at[k][0]} ${at[k][1]} ${after[0]} ${after[1]}`;
    }
    const last = at[at.length - 1];
    return `${text}L${last[0]} ${last[1]}`;
  }

  arrow([x, y]) {
    return `M${round(this.X(x))} ${round(this.Y(y))}l-6 -3.5v7z`;
  }

  boxes() {
    const { view, layout } = this;
    const few = new Map();
    const slim = (item, width, quiet) => {
      const x = this.X(item.x);
      if (x + width < this.label) return;
      const key = `${lookOf(item)}${quiet ? " faint" : ""}`;
      const wide = Math.max(1, width - (layout.measured ? 0 : 0.6));
      const found = few.get(key) || [];
      found.push(`M${round(x)} ${round(this.Y(item.y))}h${round(wide)}v${item.height}h${-round(wide)}z`);
      few.set(key, found);
    };
    this.drawn = [];
    layout.byRow.forEach((_, row) => {
      for (const item of this.seen(row)) {
        const width = item.width * view.scale;
        const quiet = this.quiet(item);
        if (width < SLIM) slim(item, width, quiet);
        else {
          this.box(item, width, lookOf(item), quiet);
          this.drawn.push(item);
        }
      }
    });
    for (const item of this.chosen()) if (item.width * view.scale < SLIM) slim(item, item.width * view.scale, false);
    for (const [key, parts] of few) element(this.svg, "path", { class: `few ${key}`, d: parts.join("") });
  }

  // The boxes of the operation that is chosen that are seen.
  chosen() {
    const { state, layout } = this;
    if (state.selected < 0) return [];
    const all = layout.measured ? layout.spansOf.get(state.selected) || [] : [layout.itemOf.get(state.selected)].filter(Boolean);
    return all.filter((item) => item.x + item.width >= this.view.x && item.x <= this.to);
  }

  quiet(item) {
    const { state } = this;
    if (state.hits && !state.hits.has(item.index)) return true;
    return state.selected >= 0 && item.index !== state.selected && !state.before.has(item.index) && !state.after.has(item.index) && !state.beside.has(item.index);
  }

  box(item, width, look, quiet) {
    const x = this.X(item.x);
    const y = this.Y(item.y);
    const node = item.node;
    const classes = ["box", quiet ? "faint" : "", node && node.captured ? "captured" : ""].filter(Boolean).join(" ");
    const group = element(this.svg, "g", { class: classes, "data-node": node ? node.id : "" });
    element(group, "rect", { class: look, x: round(x), y: round(y), width: round(width), height: item.height });
    const from = Math.max(x, this.label);
    const room = Math.min(x + width, this.size.width) - from - 12;
    const left = round(from + 6);
    if (item.span) {
      const name = fitted(item.name, room, "large");
      if (name) element(group, "text", { x: left, y: round(y + 18) }, name);
      const time = microseconds(item.width);
      const after = left + widthOf(name, "large") + 8;
      if (name && after + widthOf(time, "small") < from + room + 6) element(group, "text", { class: "small", x: round(after), y: round(y + 18) }, time);
      return;
    }
    const name = fitted(node.call, room, "large");
    if (name) element(group, "text", { x: left, y: round(y + 16) }, name);
    const note = fitted(widthOf(node.note, "small") <= room ? node.note : node.brief || node.note, room, "small");
    if (note) element(group, "text", { class: "small", x: left, y: round(y + 30) }, note);
  }

  // What a selected operation waits for, what waits for it, and the values that flow: these have no lines of their own.
  selectedLines() {
    const { state, layout } = this;
    const item = layout.itemOf.get(state.selected);
    if (!item) return;
    if (layout.measured) return this.issuing(item);
    for (const edge of [...state.side.into[state.selected], ...state.side.out[state.selected]]) {
      const one = layout.itemOf.get(edge.source);
      const other = layout.itemOf.get(edge.target);
      if (!one || !other || edge.why === "allocation") continue;
      const drawn = layout.lines.find((line) => line.edge.source === edge.source && line.edge.target === edge.target && line.edge.why === edge.why);
      if (drawn) {
        element(this.svg, "path", { class: `edge strong ${edge.why}`, d: this.path(drawn.points) });
        element(this.svg, "path", { class: `head ${edge.why}`, d: this.arrow(drawn.points[drawn.points.length - 1]) });
        continue;
      }
      if (ORDERS.has(edge.why) && one.row === other.row) continue; // along the rail
      element(this.svg, "path", { class: `edge strong ${edge.why}`, d: this.bow(one, other) });
      element(this.svg, "path", { class: `head ${edge.why}`, d: this.arrow([other.x, other.y + 10]) });
    }
  }

  bow(one, other) {
    const x1 = this.X(one.x + one.width);
    const x2 = this.X(other.x);
    const y1 = this.Y(one.y + 10);
    const y2 = this.Y(other.y + 10);
    const lift = one.row === other.row ? Math.min(34, Math.abs(x2 - x1) / 3) : 0;
    const pull = Math.min(60, Math.max(14, Math.abs(x2 - x1) / 3));
    return `M${round(x1)} ${round(y1)}C${round(x1 + pull)} ${round(y1 - lift)} ${round(x2 - pull)} ${round(y2 - lift)} ${round(x2)} ${round(y2)}`;
  }

  issuing(item) {
    const span = this.state.span && this.state.span.index === item.index ? this.state.span : item;
    if (span.issued < 0) return;
    const call = this.layout.items.find((other) => other.kind !== "kernel" && this.layout.lanes[other.row].host && other.x === span.x - span.issued);
    if (!call) return;
    const from = Math.min(call.x + call.width, span.x);
    element(this.svg, "path", { class: "edge strong stream", d: this.path([[from, call.y + call.height], [span.x, span.y]]) });
  }

  // From the place of a finding to the others that it is about: of the operation that is chosen, else of all that are no hints.
  dangers() {
    const { state } = this;
    if (this.layout.measured) return;
    for (const hazard of state.selected >= 0 ? state.side.hazardsAt[state.selected] : state.side.hazards) {
      if (state.selected < 0 && hazard.severity === "hint") continue;
      const items = hazard.nodes.map((node) => this.layout.itemOf.get(node)).filter((item) => item && !SET_UP.has(item.node.kind));
      for (const other of items.slice(1, 5)) {
        if (hazard.device) break; // of the kernel, wherever it is launched
        const [x1, y1] = [this.X(items[0].x + items[0].width / 2), this.Y(items[0].y + BOX)];
        const [x2, y2] = [this.X(other.x + other.width / 2), this.Y(other.y + BOX)];
        if (Math.max(x1, x2) < this.label || Math.min(x1, x2) > this.size.width || Math.abs(x1 - x2) + Math.abs(y1 - y2) < 3) continue;
        const down = Math.max(y1, y2) + 9;
        element(this.svg, "path", { class: `danger ${hazard.severity}`, d: `M${round(x1)} ${round(y1)}C${round(x1)} ${round(down)} ${round(x2)} ${round(down)} ${round(x2)} ${round(y2)}` });
      }
    }
  }

  // Rings around what the selection is about, and badges.
  emphasis() {
    const { state, view } = this;
    for (const item of new Set([...this.drawn, ...this.chosen().slice(0, 400)])) {
      const width = item.width * view.scale;
      const ring = this.ringOf(item);
      if (ring) element(this.svg, "rect", { class: `ring ${ring}`, x: round(this.X(item.x) - 2), y: round(this.Y(item.y) - 2), width: round(Math.max(width, 3) + 4), height: item.height + 4 });
      if (!item.node || width < 14) continue;
      let at = this.X(item.x + item.width) - 4;
      const worst = state.side.worst(item.index);
      const status = state.side.status[item.index];
      if (status && state.marks) {
        this.badge(at, this.Y(item.y), status, { added: "+", gone: "\u2212", changed: "~" }[status]);
        at -= 15;
      }
      if (worst) this.badge(at, this.Y(item.y), worst, worst === "hint" ? "i" : "!");
    }
  }

  // How much of the whole is seen, and which part.
  thumbs() {
    const { layout, size, view } = this;
    drawOverview(this.svg, layout, view, size);
    const height = size.height - size.foot;
    if (layout.height > height)
      element(this.svg, "rect", { class: "thumb", x: size.width - 7, y: round(4 + (view.y / layout.height) * (height - 8)), width: 4, height: round((height / layout.height) * (height - 8)), rx: 2 });
  }

  ringOf(item) {
    const { state } = this;
    if (state.selected < 0) return state.hits && state.hits.has(item.index) ? "found" : "";
    if (item.index === state.selected) return "chosen";
    if (state.beside.has(item.index)) return "beside";
    if (!state.near.has(item.index)) return "";
    return state.before.has(item.index) ? "before" : state.after.has(item.index) ? "after" : "";
  }

  badge(x, y, kind, sign) {
    const group = element(this.svg, "g", { class: `badge ${kind}` });
    element(group, "circle", { cx: round(x), cy: round(y - 2), r: 7 });
    element(group, "text", { x: round(x), y: round(y + 1.5) }, sign);
  }

  names() {
    element(this.svg, "rect", { class: "gutter-cover", x: 0, y: 0, width: this.label, height: this.size.height });
    this.layout.lanes.forEach((lane, k) => {
      const middle = this.Y(this.layout.tops[k]) + this.layout.laneHeights[k] / 2;
      const flags = fitted(flagsOf(lane), this.label - 22, "small");
      element(this.svg, "text", { class: "lane-name", x: 14, y: round(middle + (flags ? -2 : 4)) }, fitted(flat(lane.title), this.label - 22, "bold"));
      if (flags) element(this.svg, "text", { class: "small", x: 14, y: round(middle + 12) }, flags);
    });
    const busy = this.layout.busy;
    if (busy) {
      const y = this.Y(busy.top);
      const words = busyWords(busy);
      element(this.svg, "text", { class: "lane-name", x: 14, y: y + 12 }, "device");
      element(this.svg, "text", { class: "small", x: 14, y: y + 24 }, fitted(words, this.label - 22, "small"));
    }
    element(this.svg, "line", { class: "gutter-line", x1: this.label, x2: this.label, y1: 0, y2: this.size.height });
  }
}

const flagsOf = (lane) => flat(lane.flags).replace(/\bcudaStreamNonBlocking\b/, "non-blocking").replace(/\bcudaStreamDefault\b/, "default flags");

const percent = (share) => (share > 0 && share < 0.01 ? "under 1 %" : `${Math.round(100 * share)} %`);

const busyWords = (busy) => `${percent(busy.share)} busy${busy.twice >= 0.005 ? `, ${percent(busy.twice)} two` : ""}`;

function lookOf(item) {
  if (!item.span) return item.node.look;
  if (item.kind === "kernel") return "launch";
  if (item.kind === "copy" || item.kind === "memset") return "copy";
  return item.kind === "wait" ? "wait" : "host";
}

function towards(from, to) {
  const dx = to[0] - from[0];
  const dy = to[1] - from[1];
  const length = Math.abs(dx) + Math.abs(dy);
  const share = length ? Math.min(5, length / 2) / length : 0;
  return [round(from[0] + dx * share), round(from[1] + dy * share)];
}

// The first position of a sorted list where a condition holds.
function lowest(list, holds) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(list[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}
