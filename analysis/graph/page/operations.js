// The list of all operations in program order: what a screen reader is told, and where search shows what it found.
class Operations {
  // `on`: {select(side, index), open(side, index)}
  constructor(root, count, on) {
    this.root = root;
    this.count = count;
    this.on = on;
    this.entries = [];
    root.addEventListener("click", (event) => {
      const entry = this.entryOf(event.target);
      if (entry) on.select(entry.side, entry.node.index);
    });
    root.addEventListener("dblclick", (event) => {
      const entry = this.entryOf(event.target);
      if (entry) on.open(entry.side, entry.node.index);
    });
    root.addEventListener("keydown", (event) => this.key(event));
  }

  entryOf(target) {
    const item = target.closest("li");
    return item && this.entries[Number(item.dataset.entry)];
  }

  // `shown`: [[side, nodes]]; of two versions, what is only in the first stands where it was.
  fill(shown) {
    const entries = [];
    if (shown.length === 2) {
      const [[old, gone], [side, nodes]] = shown;
      const left = gone.filter((node) => old.status[node.index] === "gone");
      const after = (node) => {
        for (let k = node.index - 1; k >= 0; k--) if (old.counterpart[k] >= 0) return old.counterpart[k];
        return -1;
      };
      const places = left.map((node) => ({ side: old, node, at: after(node) + 0.5 }));
      entries.push(...nodes.map((node) => ({ side, node, at: node.index })), ...places);
      entries.sort((a, b) => a.at - b.at);
    } else for (const [side, nodes] of shown) entries.push(...nodes.map((node) => ({ side, node })));
    this.entries = entries;
    const alone = new Set(entries.map(({ node }) => node.path)).size === 1; // then its name says nothing
    const list = document.createDocumentFragment();
    entries.forEach((entry, k) => {
      const { side, node } = entry;
      const worst = side.worst(node.index);
      const status = side.status[node.index];
      const lane = side.lanes[node.laneIndex].title;
      const words = [node.full, `${lane}`, `${fileOf(node.path)} line ${node.line}`, node.waits ? "the host waits" : "", STATUS[status] || "", ...side.hazardsAt[node.index].map((h) => `${h.severity} ${h.code}`)];
      const item = make(list, "li", { role: "option", id: `op-${k}`, tabindex: "-1", "aria-selected": "false", "data-entry": k, "data-node": node.id, "data-side": side.name, "aria-label": words.filter(Boolean).join(", ") });
      if (compared) make(item, "span", { class: `mark status ${status}`, "aria-hidden": "true" }, { added: "+", gone: "\u2212", changed: "~" }[status] || "");
      make(item, "span", { class: `mark ${worst}`, "aria-hidden": "true" }, { error: "!", warning: "!", hint: "i" }[worst] || "");
      const named = make(item, "span", { class: "name", title: node.full });
      make(named, "span", { class: `call ${node.of && node.call.length > 14 ? "long" : ""}` }, node.call);
      if (node.of) make(named, "span", { class: "of" }, ` ${node.of}`);
      make(item, "span", { class: "at", title: placeOf(node) }, alone ? `line ${node.line}` : placeOf(node));
      entry.item = item;
    });
    this.root.replaceChildren(list);
    this.current = null;
    if (entries.length) entries[0].item.tabIndex = 0;
    this.tell(null);
  }

  tell(hits) {
    this.count.textContent = hits ? `${hits} of ${this.entries.length}` : `${this.entries.length}`;
  }

  // Shows what contains all words of `query`, and gives it back: null when there is no query.
  search(query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    for (const entry of this.entries) {
      const hit = words.every((word) => entry.node.words.includes(word));
      entry.item.hidden = !hit;
      if (hit) found.push(entry);
    }
    this.tell(words.length ? `${found.length}` : null);
    this.found = found;
    this.showCurrent();
    return words.length ? found : null;
  }

  mark(side, index) {
    if (this.current) {
      this.current.item.setAttribute("aria-selected", "false");
      this.current.item.tabIndex = -1;
    }
    const counterpart = side && side === sides[0] && compared ? side.counterpart[index] : -1;
    const entry = this.entries.find((e) => (e.side === side && e.node.index === index) || (counterpart >= 0 && e.side === sides[1] && e.node.index === counterpart));
    this.current = entry || null;
    if (!entry) {
      const first = this.entries.find((e) => !e.item.hidden);
      if (first) first.item.tabIndex = 0;
      return;
    }
    for (const other of this.entries) if (other.item.tabIndex === 0) other.item.tabIndex = -1;
    entry.item.setAttribute("aria-selected", "true");
    entry.item.tabIndex = 0;
    this.showCurrent();
  }

  showCurrent() {
    if (!this.current || this.current.item.hidden) return;
    const box = this.current.item.getBoundingClientRect();
    const room = this.root.getBoundingClientRect();
    if (box.top < room.top || box.bottom > room.bottom) this.root.scrollTop += box.top - room.top - room.height / 2;
  }

  key(event) {
    const entry = this.entryOf(event.target);
    if (!entry || event.ctrlKey || event.metaKey || event.altKey) return;
    const listed = this.entries.filter((e) => !e.item.hidden);
    const at = listed.indexOf(entry);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: listed.length - 1, PageDown: at + 12, PageUp: at - 12 }[event.key];
    if (next !== undefined) {
      const other = listed[Math.min(listed.length - 1, Math.max(0, next))];
      this.on.select(other.side, other.node.index);
      other.item.focus();
    } else if (event.key === "Enter") this.on.open(entry.side, entry.node.index);
    else if (event.key === " ") this.on.select(entry.side, entry.node.index);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
