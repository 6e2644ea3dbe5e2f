// The whole of a layout in a few pixels at the foot of its drawing, with a frame around what is seen.
const FOOT = 8; // around it
const STRIP = 36; // the most for all lanes together
const LEAST = 180; // the height of a drawing that has room for it

// Its height, and a path for each look; made once for a width.
function overviewOf(layout, width) {
  if (layout.overview && layout.overview.width === width) return layout.overview;
  const step = Math.max(2, Math.min(6, Math.floor(STRIP / Math.max(1, layout.byRow.length))));
  const paths = new Map();
  layout.byRow.forEach((row, k) => {
    let end = -1;
    for (const item of row) {
      const from = Math.max(end, Math.round((item.x / layout.width) * width));
      const to = Math.max(from + 1, Math.round(((item.x + item.width) / layout.width) * width));
      if (Math.round(((item.x + item.width) / layout.width) * width) <= end) continue; // within what is drawn
      const look = lookOf(item);
      const drawn = paths.get(look) || [];
      drawn.push(`M${from} ${3 + k * step}h${to - from}v${step - 1}h${from - to}z`);
      paths.set(look, drawn);
      end = to;
    }
  });
  layout.overview = { width, height: layout.byRow.length * step + 5, paths: new Map([...paths].map(([look, parts]) => [look, parts.join("")])) };
  return layout.overview;
}

// Where it is in a drawing: null when all is seen, and in one that has no room for it.
function overviewPlace(layout, view, size) {
  const room = size.width - size.label;
  if (room / view.scale / layout.width >= 0.98 || size.height < LEAST) return null;
  const width = Math.max(10, Math.round(room - 2 * FOOT));
  const { height } = overviewOf(layout, width);
  return { left: size.label + FOOT, top: size.height - height - FOOT, width, height };
}

function drawOverview(svg, layout, view, size) {
  const place = overviewPlace(layout, view, size);
  if (!place) return;
  const { left, top, width, height } = place;
  const group = element(svg, "g", { class: "overview" });
  element(group, "rect", { class: "overview-back", x: left - 1, y: top, width: width + 2, height });
  for (const [look, d] of overviewOf(layout, width).paths) element(group, "path", { class: `few ${look}`, d, transform: `translate(${left} ${top})` });
  const share = (x) => Math.min(Math.max(x / layout.width, 0), 1);
  const from = share(view.x);
  const to = share(view.x + (size.width - size.label) / view.scale);
  element(group, "rect", { class: "overview-seen", x: round(left + from * width), y: top, width: round(Math.max(6, (to - from) * width)), height });
}
