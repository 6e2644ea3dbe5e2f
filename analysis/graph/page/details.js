// The panel about the operation that is chosen, or about the program when none is.
function make(parent, name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const key of Object.keys(attributes)) {
    if (key === "onclick") made.addEventListener("click", attributes[key]);
    else made.setAttribute(key, attributes[key]);
  }
  for (const child of children) if (child !== "" && child !== null) made.append(child);
  if (parent) parent.append(made);
  return made;
}

const MOST_LISTED = 12;

class Details {
  // `on`: {select(side, index), source(place)}
  constructor(root, on) {
    this.root = root;
    this.on = on;
  }

  source(parent, place, text = "") {
    const label = text || `${shortened(place.path)}:${place.line}`;
    return make(parent, "button", {
      type: "button", class: "link", title: `${place.path}:${place.line}:${place.column || 1}`, "aria-label": `Open ${place.path} line ${place.line}`,
      "data-source": "", onclick: () => this.on.source(place),
    }, label);
  }

  show(stage) {
    this.root.replaceChildren();
    if (!stage || stage.state.selected < 0) return this.overview(stage);
    const { side, state, layout } = stage;
    const node = side.nodes[state.selected];
    const title = node.kernel ? `${node.name}<<<${flat(node.grid) || "?"}, ${flat(node.block) || "?"}>>>` : node.name;
    make(this.root, "h2", {}, title);
    const at = make(this.root, "p");
    this.source(at, node);
    at.append(` in ${node.function}`);
    this.change(side, node);
    for (const hazard of side.hazardsAt[node.index]) this.hazard(hazard);
    const facts = make(this.root, "dl");
    const fact = (name, value) => {
      if (value === null || value === undefined || value === "") return;
      make(facts, "dt", {}, name);
      make(facts, "dd", {}, flat(value));
    };
    fact("Runs on", `${side.lanes[node.laneIndex].title}${node.stream_flags ? ` (${node.stream_flags})` : ""}`);
    if (node.lane === null && node.stream) fact("Stream", node.stream);
    fact("Event", node.event);
    fact("Reads", node.reads.join(", "));
    fact("Writes", node.writes.join(", "));
    fact("Direction", { h2d: "host to device", d2h: "device to host", d2d: "device to device", h2h: "host to host", peer: "device to device" }[node.copy_kind]);
    fact("Bytes", node.bytes);
    fact("Host", node.returns || (node.waits ? "waits here" : ""));
    fact("Loop", node.loop ? chainOf(side, node.loop).map((loop) => side.loops.get(loop).title).join(", in ") : "");
    fact("Only if", node.condition);
    fact("Captured", node.captured ? "runs when its CUDA graph is launched" : "");
    fact("Confidence", node.confidence === "certain" ? "" : node.confidence);
    if (node.calls.length) {
      make(facts, "dt", {}, "Called from");
      const list = make(facts, "dd");
      [...node.calls].reverse().forEach((call, k) => {
        if (k) list.append(", ");
        this.source(list, { ...call, column: 1 }, placeOf(call));
      });
    }
    this.times(stage, node);
    this.neighbours(side, "Comes directly after", side.into[node.index], (edge) => edge.source);
    this.neighbours(side, "Comes directly before", side.out[node.index], (edge) => edge.target);
    this.beside(side, state.beside, node);
    const count = make(this.root, "p", { class: "keys" });
    count.append(`${state.before.size} operations are complete ${node.waits ? "when it returns" : "before it"}, ${state.after.size} start only after it.`);
    if (layout && !layout.itemOf.has(node.index)) make(this.root, "p", { class: "keys" }, layout.measured ? "It did not run in the measured run." : "It is outside of the function that is shown.");
  }

  change(side, node) {
    const status = side.status[node.index];
    if (!status) return;
    const box = make(this.root, "div", { class: `change ${status}` });
    make(box, "p", {}, { added: "Only in the version after the change", gone: "Only in the version before the change", changed: "Differs between the versions" }[status]);
    const differences = side.differences[node.index];
    for (const what of Object.keys(differences || {})) make(box, "p", {}, `${what}: ${flat(differences[what][0])} \u2192 ${flat(differences[what][1])}`);
  }

  hazard(hazard, places = false) {
    const box = make(this.root, "div", { class: `hazard ${hazard.severity}` });
    make(box, "strong", {}, `${hazard.severity}: ${hazard.code}`);
    make(box, "p", {}, flat(hazard.message));
    this.source(make(box, "p"), hazard);
    if (places && hazard.nodes.length) box.lastChild.append(" ", make(null, "button", { type: "button", class: "link", onclick: () => this.on.select(places, hazard.nodes[0]) }, "show"));
  }

  times(stage, node) {
    const { layout, state } = stage;
    if (!layout || !layout.measured) return;
    const spans = layout.spansOf.get(node.index) || [];
    if (!spans.length) return;
    make(this.root, "h3", {}, "Measured");
    const facts = make(this.root, "dl");
    const groups = [["Device", spans.filter((s) => !layout.lanes[s.row].host)], ["Host call", spans.filter((s) => layout.lanes[s.row].host)]];
    for (const [name, found] of groups) {
      if (!found.length) continue;
      const total = found.reduce((sum, span) => sum + span.width, 0);
      const times = found.map((span) => span.width).sort((a, b) => a - b);
      make(facts, "dt", {}, name);
      make(facts, "dd", {}, found.length === 1 ? microseconds(total) : `${found.length} times, ${microseconds(total)} in all, ${microseconds(times[0])} to ${microseconds(times[times.length - 1])}, median ${microseconds(times[times.length >> 1])}`);
    }
    const span = state.span && state.span.index === node.index ? state.span : spans.length === 1 ? spans[0] : null;
    if (!span) return;
    make(facts, "dt", {}, "This one");
    make(facts, "dd", {}, `starts at ${microseconds(span.x)}, takes ${microseconds(span.width)}${span.issued >= 0 ? `, issued ${microseconds(span.issued)} before` : ""}`);
    const row = layout.byRow[span.row];
    const last = row[row.indexOf(span) - 1];
    if (last && span.x > last.x + last.width) {
      make(facts, "dt", {}, "Gap before");
      make(facts, "dd", {}, `${microseconds(span.x - last.x - last.width)} in its lane`);
    }
  }

  neighbours(side, title, edges, end) {
    if (!edges.length) return;
    const why = new Map();
    for (const edge of edges) why.set(end(edge), [...(why.get(end(edge)) || []), data.why[edge.why] || edge.why]);
    this.list(side, title, [...why].map(([index, words]) => [index, words.join(", ")]));
  }

  beside(side, beside, node) {
    if (!beside.size) return;
    const title = node.waits ? "Need not be complete when this returns" : "Could run at the same time";
    this.list(side, title, [...beside].sort((a, b) => a[0] - b[0]).map(([index, later]) => [index, later ? "another round" : side.lanes[side.nodes[index].laneIndex].title]));
  }

  list(side, title, entries) {
    make(this.root, "h3", {}, title);
    const list = make(this.root, "ul");
    for (const [index, words] of entries.slice(0, MOST_LISTED)) {
      const item = make(list, "li");
      make(item, "button", { type: "button", class: "link", onclick: () => this.on.select(side, index) }, side.nodes[index].full);
      make(item, "span", { class: "why" }, words);
    }
    if (entries.length > MOST_LISTED) make(list, "li", { class: "keys" }, `and ${entries.length - MOST_LISTED} more`);
  }

  overview(stage) {
    const side = stage ? stage.side : sides[sides.length - 1];
    const count = (kinds) => side.nodes.filter((node) => kinds.includes(node.kind)).length;
    make(this.root, "h2", { title: data.title }, shortened(data.title) || "Execution graph");
    const facts = make(this.root, "dl");
    const fact = (name, value) => { make(facts, "dt", {}, name); make(facts, "dd", {}, value); };
    fact("Operations", `${side.nodes.length}`);
    fact("Launches", `${count(["launch", "library_call", "graph_launch"])}`);
    fact("Copies", `${count(["copy", "memset"])}`);
    fact("Streams", `${side.lanes.filter((lane) => lane.lane !== null).length}`);
    fact("Host waits", `${side.nodes.filter((node) => node.waits).length}`);
    if (compared) {
      const of = (one, status) => one.status.filter((s) => s === status).length;
      fact("Compared", `${of(sides[1], "added")} added, ${of(sides[0], "gone")} gone, ${of(sides[1], "changed")} differ`);
    }
    if (side.measured) {
      fact("Measured on", side.measured.device || "an unnamed device");
      for (const note of side.measured.notes) make(this.root, "p", { class: "keys" }, flat(note));
      if (side.measured.leftOut) make(this.root, "p", { class: "keys" }, `${side.measured.leftOut} later operations of the run are not shown.`);
    }
    if (side.hazards.length) {
      make(this.root, "h3", {}, `Findings (${side.hazards.length})`);
      for (const hazard of side.hazards.slice(0, 40)) this.hazard(hazard, side);
    }
    for (const problem of side.problems.slice(0, 10)) make(this.root, "p", { class: "keys" }, `${placeOf(problem)}: ${flat(problem.what)}: ${flat(problem.consequence)}`);
    const keys = make(this.root, "p", { class: "keys" });
    for (const [key, words] of [["drag", "pan"], ["ctrl+wheel", "zoom"], ["+ \u2212 0 z", "zoom, show all, or what is chosen"], ["\u2190 \u2191 \u2192 \u2193", "pan, or go from operation to operation"], ["Home End", "go to the ends"], ["Enter", "open its source"], ["Esc", "choose nothing"]]) {
      make(keys, "kbd", {}, key);
      keys.append(` ${words}  `);
    }
  }
}
