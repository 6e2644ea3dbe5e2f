// Puts the parts together: what is shown, what is chosen, and the controls.
const $ = (id) => document.getElementById(id);
const ALL = "";
const last = kept(); // of the page that this one replaces: {scale, version, name, asked, views, selected}
const state = {
  scale: ["measured", "order"].includes(last.scale) ? last.scale : document.documentElement.dataset.scale || "order",
  version: ["before", "after", "both"].includes(last.version) ? last.version : compared ? "both" : "after",
  name: typeof last.name === "string" && last.asked === data.function ? last.name : data.function,
};
const stages = sides.map((side) => new Stage(side, {
  select: (_, index, span) => choose(side, index, span),
  open: (_, index) => openSource(side.nodes[index]),
  moved: follow,
  label: () => `${compared ? `${side.name === "before" ? "Before" : "After"} the change: ` : ""}${state.scale === "order" ? "order of operations" : "measured run"}`,
}));
const details = new Details($("details"), { select: (side, index) => choose(side, index), source: openSource });
const operations = new Operations($("operations"), $("count"), {
  select: (side, index) => choose(side, index),
  open: (side, index) => openSource(side.nodes[index]),
});
let active = stages[stages.length - 1];
let following = false;

const shownStages = () => (compared && state.version !== "both" ? [stages[state.version === "before" ? 0 : 1]] : stages);
const nodesOf = (side) => (state.name === ALL ? side.nodes : side.nodes.filter((node) => node.functions.has(state.name)));

function rebuild(fit = true) {
  const shown = shownStages();
  if (!shown.includes(active)) active = shown[shown.length - 1];
  document.documentElement.classList.toggle("two", shown.length > 1);
  $("stages").replaceChildren(...shown.map((stage) => stage.node));
  for (const stage of shown) {
    const { side } = stage;
    const nodes = nodesOf(side);
    const measured = state.scale === "measured" && side.measured;
    stage.state.marks = compared;
    stage.state.span = null;
    stage.head.hidden = !compared && !(state.scale === "measured" && !measured) && nodes.length > 0;
    stage.head.replaceChildren();
    if (compared) make(stage.head, "strong", {}, side.name === "before" ? "Before" : "After");
    const missing = state.scale === "measured" && !measured;
    make(stage.head, "span", {}, nodes.length === 0 ? "No CUDA work here." : missing ? "Not measured: the order is shown." : measured ? side.measured.device : `${nodes.length} operations`);
    stage.setLayout(measured ? measuredLayout(side, nodes) : orderLayout(side, nodes));
  }
  const gutter = Math.max(...shown.map((stage) => stage.wanted)); // versions stand below each other
  for (const stage of shown) {
    stage.wanted = gutter;
    stage.measure();
    if (fit) stage.fit(false);
    else stage.changed(false);
  }
  operations.fill(shown.map((stage) => [stage.side, nodesOf(stage.side)]));
  search();
  for (const stage of stages) mark(stage, stage.state.selected);
  showChosen();
  controls();
  remember();
}

let remembering = 0;

function remember() {
  clearTimeout(remembering);
  remembering = setTimeout(() => {
    const { selected } = active.state;
    const node = selected >= 0 ? active.side.nodes[selected] : null;
    keep({
      ...state,
      asked: data.function,
      views: stages.map((stage) => ({ ...stage.view, measured: Boolean(stage.layout && stage.layout.measured) })),
      selected: node ? { side: active.side.name, id: node.id, name: node.name, path: node.path } : null,
    });
  }, 150);
}

// The part that was seen and the operation that was chosen, after an edit of the program or a reload of the page.
function restore() {
  for (const [k, view] of (Array.isArray(last.views) ? last.views : []).entries()) {
    const stage = stages[k];
    const whole = view && [view.x, view.y, view.scale].every(Number.isFinite) && view.scale > 0;
    if (stage && stage.layout && whole && view.measured === stage.layout.measured) {
      stage.view = { x: view.x, y: view.y, scale: view.scale };
      stage.changed(false);
    }
  }
  const chosen = last.selected;
  const side = chosen && sides.find((each) => each.name === chosen.side);
  if (!side) return;
  const alike = nodesOf(side).filter((node) => node.name === chosen.name && node.path === chosen.path);
  const node = alike.find((each) => each.id === chosen.id) || (alike.length === 1 ? alike[0] : null);
  if (node) choose(side, node.index);
}

// The time of two measured runs is looked at together.
function follow(stage) {
  if (following) return;
  remember();
  following = true;
  for (const other of shownStages()) {
    if (other === stage || !other.layout || !stage.layout || !other.layout.measured || !stage.layout.measured) continue;
    other.view.scale = stage.view.scale;
    other.view.x = stage.view.x;
    other.changed();
  }
  following = false;
}

function zoom(factor) {
  for (const stage of shownStages()) if (stage === active || !stage.layout.measured || !active.layout.measured) stage.zoom(factor);
}

function fit() {
  const shown = shownStages();
  for (const stage of shown) stage.fit(true);
  const widest = shown.reduce((one, other) => (other.layout.width > one.layout.width ? other : one));
  if (widest.layout.measured) widest.fit(true); // runs are looked at in one scale
}

function mark(stage, index, span = null) {
  const { side } = stage;
  Object.assign(stage.state, { selected: index, span, before: new Set(), after: new Set(), beside: new Map(), near: new Set() });
  if (index < 0) return;
  const now = stage.state;
  now.before = side.before(index);
  now.after = side.after(index);
  now.beside = side.beside(index);
  const near = (edges, end) => edges.filter((edge) => side.orders(edge)).map((edge) => edge[end]);
  now.near = new Set([...near(side.into[index], "source"), ...near(side.out[index], "target")]);
}

function choose(side, index, span = null) {
  const stage = stages[sides.indexOf(side)];
  active = stage;
  if (index >= 0 && !nodesOf(side).includes(side.nodes[index])) {
    state.name = ALL;
    mark(stage, index, span);
    rebuild();
  }
  mark(stage, index, span);
  for (const other of stages) if (other !== stage) mark(other, index < 0 ? -1 : side.counterpart[index]);
  for (const each of shownStages()) {
    const { selected } = each.state;
    if (selected >= 0) each.reveal(selected, each === stage ? span : null);
    else each.changed(false);
  }
  showChosen();
  remember();
  const node = index >= 0 ? side.nodes[index] : null;
  $("announce").textContent = node ? `${node.full}, ${side.lanes[node.laneIndex].title}, ${placeOf(node)}, after ${stage.state.before.size} operations, before ${stage.state.after.size}, could overlap with ${stage.state.beside.size}` : "Nothing is chosen";
}

function showChosen() {
  const chosen = active.state.selected >= 0 ? active : shownStages().find((stage) => stage.state.selected >= 0) || active;
  legend();
  details.show(chosen);
  operations.mark(chosen.side, chosen.state.selected);
}

function search() {
  const found = operations.search($("search").value);
  for (const stage of stages) {
    stage.state.hits = found ? new Set(found.filter((entry) => entry.side === stage.side || (compared && stage.side === sides[0] && entry.side.counterpart[entry.node.index] >= 0)).map((entry) => (entry.side === stage.side ? entry.node.index : entry.side.counterpart[entry.node.index]))) : null;
    if (stage.layout) stage.changed(false);
  }
}

function next(step) {
  const found = operations.found || [];
  if (!found.length) return;
  const at = found.findIndex((entry) => entry.side === active.side && entry.node.index === active.state.selected);
  const entry = found[at < 0 ? (step > 0 ? 0 : found.length - 1) : (at + step + found.length) % found.length];
  choose(entry.side, entry.node.index);
}

// ------------------------------------------------------------------------------------------------------------- controls

function choice(id, get, set) {
  const buttons = [...$(id).querySelectorAll("button")];
  const take = (button) => { set(button.dataset.value); button.focus(); };
  buttons.forEach((button, k) => {
    button.addEventListener("click", () => take(button));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      take(buttons[(k + step + buttons.length) % buttons.length]);
      event.preventDefault();
    });
  });
  return () => buttons.forEach((button) => {
    const chosen = button.dataset.value === get();
    button.setAttribute("aria-checked", String(chosen));
    button.tabIndex = chosen ? 0 : -1;
  });
}

const redraws = [
  choice("scale", () => state.scale, (value) => { state.scale = value; rebuild(); }),
  choice("version", () => state.version, (value) => { state.version = value; rebuild(); }),
];
const controls = () => { for (const redraw of redraws) redraw(); $("function").value = state.name; };

function legend() {
  const box = $("legend");
  box.replaceChildren();
  const shown = shownStages();
  const looks = new Set(shown.flatMap((stage) => stage.layout.items.map(lookOf)));
  const entry = (draw, words) => {
    const span = make(box, "span");
    const svg = element(span, "svg", { width: 26, height: 14, "aria-hidden": "true" });
    draw(svg);
    span.append(words);
  };
  for (const [look, words] of [["launch", "kernel or launch"], ["copy", "copy or memset"], ["event", "event"], ["wait", "the host waits"], ["host", "other call"]])
    if (looks.has(look)) entry((svg) => element(svg, "rect", { class: look, x: 2, y: 2, width: 22, height: 10, rx: 3 }), words);
  const kinds = new Set(shown.flatMap((stage) => stage.layout.lines.map((line) => line.edge.why)));
  for (const why of Object.keys(data.why)) {
    if (!kinds.has(why)) continue;
    entry((svg) => {
      element(svg, "path", { class: `edge ${why}`, d: "M1 7H20" });
      element(svg, "path", { class: `head ${why}`, d: "M25 7l-6 -3.5v7z" });
    }, data.why[why]);
  }
  const ring = (name, words) => entry((svg) => element(svg, "rect", { class: `ring ${name}`, x: 3, y: 2, width: 20, height: 10 }), words);
  if (stages.every((stage) => stage.state.selected < 0)) return;
  ring("chosen", "chosen");
  ring("before", "directly before");
  ring("after", "directly after");
  ring("beside", "could overlap");
}

document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (event.target === $("search") && $("search").value) {
      $("search").value = "";
      search();
    } else choose(active.side, -1);
  } else if (typing) return;
  else if (event.key === "/") $("search").focus();
  else if (event.key === "+" || event.key === "=") zoom(1.3);
  else if (event.key === "-" || event.key === "_") zoom(1 / 1.3);
  else if (event.key === "0") fit();
  else if (event.key === "z") active.zoomTo();
  else if (event.key === "n" || event.key === "N") next(event.key === "n" ? 1 : -1);
  else return;
  event.preventDefault();
});
$("search").addEventListener("input", search);
$("search").addEventListener("keydown", (event) => {
  if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
  else if (event.key === "ArrowDown" && (operations.found || []).length) operations.found[0].item.focus();
  else return;
  event.preventDefault();
});
$("zoom-in").addEventListener("click", () => zoom(1.3));
$("zoom-out").addEventListener("click", () => zoom(1 / 1.3));
$("zoom-fit").addEventListener("click", fit);
$("function").addEventListener("change", () => { state.name = $("function").value; rebuild(); });

// An editor tells which line the cursor is on: {command: "reveal", path, line}.
window.addEventListener("message", (event) => {
  const message = event.data;
  if (!message || message.command !== "reveal") return;
  const { side, state: { selected } } = active;
  const there = (node) => node.path === message.path && node.line === message.line;
  if (selected >= 0 && there(side.nodes[selected])) return; // one of several ways to the same line
  const node = nodesOf(side).find(there);
  if (node) choose(side, node.index);
});

function start() {
  theme();
  readFonts();
  $("title").textContent = shortened(data.title) || "Execution graph";
  $("title").title = data.title;
  const functions = [...new Set(sides.flatMap((side) => side.functions()))];
  make($("function"), "option", { value: ALL }, "the whole program");
  for (const name of functions) make($("function"), "option", { value: name }, name);
  $("function-field").hidden = functions.length < 2;
  const wanted = state.name;
  state.name = functions.find((name) => name === wanted) || functions.find((name) => name.split("::").pop() === wanted) || ALL;
  const timed = sides.some((side) => side.measured);
  $("scale").hidden = !timed;
  if (!timed) state.scale = "order";
  $("version").hidden = !compared;
  if (!compared) state.version = "after";
  followTheme(() => { readFonts(); for (const stage of shownStages()) stage.changed(false); });
  rebuild();
  restore();
  document.documentElement.dataset.ready = "yes";
}

start();
