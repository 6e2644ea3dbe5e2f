// What the page knows: one Side for each version of the program, with answers about order.
const data = JSON.parse(document.getElementById("data").textContent);
const ORDERS = new Set(["stream", "event", "host_wait", "default_stream", "capture"]);

const flat = (text) => String(text === null || text === undefined ? "" : text).replace(/\s+/g, " ").trim();
const fileOf = (path) => path.slice(Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1);
const shortened = (path) => path.split(/[\\/]/).slice(-2).join("/");
const placeOf = (thing) => `${fileOf(thing.path)}:${thing.line}`;

class Side {
  constructor(value, name) {
    this.name = name;
    this.nodes = value.nodes;
    this.lanes = value.lanes;
    this.measured = value.measured;
    this.hazards = value.hazards;
    this.complete = value.complete; // of each node, the first and last of runs of nodes
    this.problems = value.problems;
    this.edges = value.edges.map(([source, target, why]) => ({ source, target, why }));
    this.loops = new Map(value.loops.map((loop) => [loop.id, loop]));
    this.into = this.nodes.map(() => []);
    this.out = this.nodes.map(() => []);
    for (const edge of this.edges) {
      this.into[edge.target].push(edge);
      this.out[edge.source].push(edge);
    }
    this.hazardsAt = this.nodes.map(() => []);
    for (const hazard of this.hazards) for (const node of hazard.nodes) this.hazardsAt[node].push(hazard);
    this.overlaps = new Map(value.overlaps.map(([node, same, later]) => [node, { same, later }]));
    this.counterpart = this.nodes.map(() => -1);
    this.differences = this.nodes.map(() => null);
    this.status = this.nodes.map(() => "");
    this.lanes.forEach((lane, k) => { lane.index = k; });
    const lanes = new Map(this.lanes.map((lane, k) => [lane.lane, k]));
    this.nodes.forEach((node, k) => {
      node.index = k;
      node.laneIndex = lanes.get(node.lane);
      node.name = flat(node.head);
      const call = flat(node.kernel || node.api || node.kind.replace(/_/g, " "));
      const memory = flat(node.kernel ? "" : (node.writes.length ? node.writes : node.reads).join(", "));
      node.call = node.name.startsWith(call) ? call : node.name;
      node.of = node.name.slice(node.call.length).trim() || memory; // the stream, event or memory that the call is about
      node.full = `${node.call} ${node.of}`.trim();
      node.brief = flat(node.kernel ? node.more : `${node.copy_kind || ""} ${node.of || node.more}`);
      node.note = flat(`${node.brief} ${placeOf(node)}`);
      const around = [node.entry, node.function, ...node.calls.map((call) => call.callee)];
      node.functions = new Set(around.filter(Boolean));
      node.words = [node.head, node.api, node.kernel, node.note, node.path, node.stream, node.event, node.function, node.condition, ...node.reads, ...node.writes]
        .filter(Boolean).join(" ").toLowerCase();
    });
  }

  functions() {
    const entries = new Set();
    const others = new Set();
    for (const node of this.nodes) {
      entries.add(node.entry);
      for (const name of node.functions) others.add(name);
    }
    return [...entries, ...[...others].filter((name) => !entries.has(name)).sort()];
  }

  // Whether an edge says that the source is complete before the target starts. What is captured is ordered inside of its capture only.
  orders(edge) {
    return ORDERS.has(edge.why) && this.nodes[edge.source].captured === this.nodes[edge.target].captured;
  }

  // Everything that is complete before a node starts, or when it returns if it waits. This does not follow from the edges: what is ordered
  // by way of a call under a condition is so only when that call is made.
  before(index) {
    const found = new Set();
    for (const [first, last] of this.complete[index] || []) for (let k = first; k <= last; k++) found.add(k);
    return found;
  }

  // Everything that starts only when a node is complete.
  after(index) {
    const found = new Set();
    this.complete.forEach((runs, k) => { if (runs.some(([first, last]) => first <= index && index <= last)) found.add(k); });
    return found;
  }

  // Work that could run at the same time: number -> whether only with another round of a loop.
  beside(index) {
    const found = new Map();
    const inside = (runs, k) => runs.some(([first, last]) => first <= k && k <= last);
    for (const [node, { same, later }] of this.overlaps) {
      if (node === index) {
        for (const [runs, round] of [[same, false], [later, true]])
          for (const [first, last] of runs) for (let k = first; k <= last; k++) if (!found.get(k)) found.set(k, round && found.get(k) !== false);
      } else if (inside(same, index)) found.set(node, false);
      else if (inside(later, index) && !found.has(node)) found.set(node, true);
    }
    return found;
  }

  worst(index) {
    const all = this.hazardsAt[index].map((hazard) => hazard.severity);
    return ["error", "warning", "hint"].find((severity) => all.includes(severity)) || "";
  }
}

const sides = data.sides.map((value, k) => new Side(value, data.sides.length === 2 ? ["before", "after"][k] : ""));
const compared = sides.length === 2;
if (compared) {
  for (const [one, other, differences] of data.pairs) {
    const changed = Object.keys(differences).length > 0;
    sides[0].counterpart[one] = other;
    sides[1].counterpart[other] = one;
    if (changed) {
      sides[0].differences[one] = sides[1].differences[other] = differences;
      sides[0].status[one] = sides[1].status[other] = "changed";
    }
  }
  for (const [side, status] of [[sides[0], "gone"], [sides[1], "added"]])
    side.counterpart.forEach((other, k) => { if (other < 0) side.status[k] = status; });
}
const STATUS = { added: "only after the change", gone: "only before the change", changed: "differs" };
