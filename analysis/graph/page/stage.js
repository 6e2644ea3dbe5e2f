// One drawing that is panned and zoomed, by mouse, trackpad, touch and keys, and in which operations are chosen.
class Stage {
  // `on`: {select(side, index, span), open(side, index), moved(stage), label()}
  constructor(side, on) {
    this.side = side;
    this.on = on;
    this.node = document.createElement("div");
    this.node.className = "stage";
    this.head = document.createElement("div");
    this.head.className = "stage-head";
    this.drawing = document.createElement("div");
    this.drawing.className = "drawing";
    this.drawing.tabIndex = 0;
    this.drawing.setAttribute("role", "application");
    this.drawing.setAttribute("aria-roledescription", "lanes of operations");
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("aria-hidden", "true");
    this.drawing.append(this.svg);
    this.node.append(this.head, this.drawing);
    this.view = { x: 0, scale: 1, y: 0 };
    this.size = { width: 0, height: 0, label: 150, foot: 0 }; // `foot`: what the overview takes of the height
    this.state = { side, selected: -1, span: null, before: new Set(), after: new Set(), beside: new Map(), near: new Set(), hits: null, marks: false };
    this.pending = false;
    this.listen();
  }

  setLayout(layout) {
    this.layout = layout;
    const wanted = Math.max(...layout.lanes.map((lane) => Math.max(widthOf(flat(lane.title), "bold"), widthOf(flagsOf(lane), "small"))), layout.busy ? widthOf(busyWords(layout.busy), "small") : 0, 60);
    this.wanted = Math.ceil(wanted) + 26;
    this.measure();
  }

  measure() {
    const box = this.drawing.getBoundingClientRect();
    this.size = { width: box.width, height: box.height, label: Math.min(this.wanted || 150, Math.max(70, box.width * 0.4)), foot: 0 };
  }

  // Room for the lanes of the page, in pixels.
  get room() { return Math.max(10, this.size.width - this.size.label); }

  // All of it, or (not `whole`) the beginning of its work at a size that can be read.
  fit(whole) {
    const all = (this.room - 8) / Math.max(1, this.layout.width);
    const readable = !this.layout.measured && !whole;
    const late = readable && all < 1 && this.layout.start + WIDEST > this.room * 0.6;
    this.view = { x: late ? this.layout.start - this.room / 4 : 0, y: 0, scale: readable ? 1 : Math.min(all, 1) };
    this.changed();
  }

  zoom(factor, at = this.room / 2) {
    const all = (this.room - 8) / Math.max(1, this.layout.width);
    const most = this.layout.measured ? 1 : 3;
    const scale = Math.min(most, Math.max(Math.min(all, 1) * 0.8, this.view.scale * factor));
    this.view.x += at / this.view.scale - at / scale;
    this.view.scale = scale;
    this.changed();
  }

  // Shows what is chosen in the middle, at a size that can be read.
  zoomTo() {
    const span = this.state.span || this.layout.itemOf.get(this.state.selected);
    if (!span) return;
    this.view.scale = this.layout.measured ? Math.min(1, this.room / 4 / Math.max(span.width, 1)) : 1;
    this.view.x = span.x + span.width / 2 - this.room / 2 / this.view.scale;
    this.changed();
  }

  pan(dx, dy) {
    this.view.x += dx / this.view.scale;
    this.view.y += dy;
    this.changed();
  }

  changed(told = true) {
    const { view, layout } = this;
    const margin = this.room * 0.5 / view.scale;
    const first = Math.min(0, ...layout.byRow.map((row) => (row.length ? row[0].x : 0)));
    view.x = Math.min(Math.max(view.x, first - margin), Math.max(first, layout.width - margin));
    const overview = overviewPlace(layout, view, this.size);
    this.size.foot = overview ? overview.height + FOOT : 0;
    view.y = Math.min(Math.max(view.y, 0), Math.max(0, layout.height + this.size.foot - this.size.height));
    if (told) this.on.moved(this);
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.render();
    });
  }

  render() {
    if (!this.layout || !this.size.width) return;
    new Drawing(this.svg, this.layout, this.view, this.state, this.size).draw();
    const { selected } = this.state;
    this.drawing.setAttribute("aria-label", `${this.on.label(this)}. ${selected >= 0 ? this.side.nodes[selected].name : "Nothing is chosen"}. Arrow keys move, Home and End go to the ends, plus and minus zoom, Enter chooses or opens the source.`);
  }

  reveal(index, span = null) {
    const item = span || this.layout.itemOf.get(index);
    if (!item) return;
    const { view } = this;
    const left = (item.x - view.x) * view.scale;
    const right = left + item.width * view.scale;
    if (left < 20 || right > this.room - 20) view.x = item.x + item.width / 2 - this.room / 2 / view.scale;
    if (item.y - view.y < 20 || item.y + item.height - view.y > this.size.height - this.size.foot - 20) view.y = item.y - this.size.height / 2;
    this.changed();
  }

  at(clientX, clientY) {
    const box = this.drawing.getBoundingClientRect();
    const x = clientX - box.left;
    const y = clientY - box.top + this.view.y;
    if (x < this.size.label) return null;
    const world = this.view.x + (x - this.size.label) / this.view.scale;
    const slack = 3 / this.view.scale;
    let best = null;
    for (const [k, row] of this.layout.byRow.entries()) {
      const top = this.layout.tops[k];
      if (y < top || y > top + this.layout.laneHeights[k]) continue;
      const apart = !this.layout.overlapping[k];
      for (let at = apart ? Math.max(0, lowest(row, (item) => item.x + item.width >= world - slack) - 1) : 0; at < row.length; at++) {
        const item = row[at];
        if (item.x > world + slack) break;
        if (y < item.y || y > item.y + item.height) continue;
        const distance = Math.max(item.x - world, world - item.x - item.width, 0);
        if (distance <= slack && (!best || distance < best.distance)) best = { item, distance };
      }
    }
    return best && best.item;
  }

  listen() {
    const { drawing } = this;
    let held = null;
    const pointers = new Map();
    drawing.addEventListener("pointerdown", (event) => {
      if (event.button > 0) return;
      pointers.set(event.pointerId, event);
      held = { x: event.clientX, y: event.clientY, moved: false, overview: this.goTo(event) };
      drawing.setPointerCapture(event.pointerId);
    });
    drawing.addEventListener("pointermove", (event) => {
      if (!held) return this.hover(event);
      if (held.overview) return void this.goTo(event, true);
      const other = [...pointers.values()].find((known) => known.pointerId !== event.pointerId);
      const last = pointers.get(event.pointerId);
      if (other && last) { // two fingers
        const was = Math.abs(last.clientX - other.clientX);
        const now = Math.abs(event.clientX - other.clientX);
        if (was > 10 && now > 10) this.zoom(now / was, (event.clientX + other.clientX) / 2 - drawing.getBoundingClientRect().left - this.size.label);
        held.moved = true;
      } else {
        const dx = held.x - event.clientX;
        const dy = held.y - event.clientY;
        if (!held.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
        held = { x: event.clientX, y: event.clientY, moved: true };
        drawing.classList.add("held");
        this.pan(dx, dy);
      }
      pointers.set(event.pointerId, event);
    });
    const release = (event) => {
      pointers.delete(event.pointerId);
      drawing.classList.remove("held");
      if (held && !held.moved && !held.overview && event.type === "pointerup") {
        const item = this.at(event.clientX, event.clientY);
        this.on.select(this.side, item ? item.index : -1, item && item.span ? item : null);
      }
      if (!pointers.size) held = null;
    };
    drawing.addEventListener("pointerup", release);
    drawing.addEventListener("pointercancel", release);
    drawing.addEventListener("dblclick", (event) => {
      const item = this.at(event.clientX, event.clientY);
      if (item && item.node) this.on.open(this.side, item.index);
    });
    drawing.addEventListener("wheel", (event) => {
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 200 : 1;
      const dx = event.deltaX * unit;
      const dy = event.deltaY * unit;
      const at = event.clientX - drawing.getBoundingClientRect().left - this.size.label;
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-dy * 0.006), at);
      else if (event.shiftKey) this.pan(dy || dx, 0);
      else if (this.layout.height > this.size.height && Math.abs(dy) > Math.abs(dx)) this.pan(dx, dy);
      else this.pan(Math.abs(dx) > Math.abs(dy) ? dx : dy, 0);
    }, { passive: false });
    drawing.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => {
      if (!this.layout) return;
      const fresh = !this.size.width;
      this.measure();
      if (fresh) this.fit(false);
      else this.changed(false);
    }).observe(drawing);
  }

  // Shows in the middle what the overview has there; whether the pointer is on it. `held`: it was when it was pressed.
  goTo(event, held = false) {
    const box = this.drawing.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const place = this.layout && overviewPlace(this.layout, this.view, this.size);
    if (!place || (!held && (x < place.left || x > place.left + place.width || y < place.top))) return false;
    this.view.x = ((x - place.left) / place.width) * this.layout.width - this.room / 2 / this.view.scale;
    this.changed();
    return true;
  }

  // The whole of a lane's name, which may be cut.
  laneAt(event) {
    const box = this.drawing.getBoundingClientRect();
    if (event.clientX - box.left >= this.size.label) return "";
    const y = event.clientY - box.top + this.view.y;
    const lane = this.layout.lanes.find((_, k) => this.layout.tops[k] <= y && y <= this.layout.tops[k] + this.layout.laneHeights[k]);
    return lane ? [flat(lane.title), flat(lane.flags)].filter(Boolean).join("\n") : "";
  }

  hover(event) {
    const item = this.at(event.clientX, event.clientY);
    const text = !item ? this.laneAt(event) : [item.span ? `${item.name} ${microseconds(item.width)}` : item.node.full, item.node ? item.node.note : "", item.node && item.node.condition ? `if ${flat(item.node.condition)}` : ""].filter(Boolean).join("\n");
    if (this.drawing.title !== text) this.drawing.title = text;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { selected } = this.state;
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step) {
      if (selected >= 0 && !event.shiftKey) this.walk(...step);
      else this.pan(step[0] * 80, step[1] * 40);
    } else if (event.key === "Home" || event.key === "End") {
      this.view.x = event.key === "Home" ? 0 : this.layout.width - this.room / this.view.scale;
      this.changed();
    } else if (event.key === "Enter" || event.key === " ") {
      if (selected >= 0) this.on.open(this.side, selected);
      else this.selectFirst();
    } else return;
    event.preventDefault();
  }

  selectFirst() {
    const item = this.layout.items.filter((i) => i.node && i.x + i.width > this.view.x).sort((a, b) => a.x - b.x || a.row - b.row)[0];
    if (item) this.on.select(this.side, item.index, item.span ? item : null);
  }

  walk(dx, dy) {
    const span = this.state.span;
    const item = span && span.index === this.state.selected && this.layout.items.includes(span) ? span : this.layout.itemOf.get(this.state.selected);
    if (!item) return this.selectFirst();
    let next = null;
    if (dx) {
      const row = this.layout.byRow[item.row];
      for (let k = row.indexOf(item) + dx; k >= 0 && k < row.length && !next; k += dx) next = row[k].node ? row[k] : null;
    } else {
      const middle = item.x + item.width / 2;
      for (let row = item.row + dy; row >= 0 && row < this.layout.byRow.length && !next; row += dy) {
        const there = this.layout.byRow[row].filter((i) => i.node);
        next = there.reduce((best, i) => (best && Math.abs(best.x + best.width / 2 - middle) <= Math.abs(i.x + i.width / 2 - middle) ? best : i), null);
      }
    }
    if (next) this.on.select(this.side, next.index, next.span ? next : null);
  }
}
