// Widths of text, and text that fits.
const pen = document.createElement("canvas").getContext("2d");
const fonts = {};
const widths = new Map();

function readFonts() {
  const family = getComputedStyle(document.body).fontFamily;
  fonts.large = `12px ${family}`;
  fonts.small = `10.5px ${family}`;
  fonts.bold = `600 12px ${family}`;
  widths.clear();
}

function widthOf(text, font) {
  const key = `${font}\n${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    pen.font = fonts[font];
    width = pen.measureText(text).width;
    if (widths.size > 50000) widths.clear();
    widths.set(key, width);
  }
  return width;
}

// As much of a text as there is room for, "" when that is next to nothing.
function fitted(text, room, font) {
  if (widthOf(text, font) <= room) return text;
  if (room < 14) return "";
  const letters = [...text];
  let low = 0;
  let high = letters.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (widthOf(`${letters.slice(0, middle).join("")}\u2026`, font) <= room) low = middle;
    else high = middle - 1;
  }
  return low > 2 ? `${letters.slice(0, low).join("").trimEnd()}\u2026` : "";
}

function microseconds(nanoseconds) {
  const value = nanoseconds / 1000;
  const digits = Math.abs(value) < 10 ? 2 : Math.abs(value) < 1000 ? 1 : 0;
  return `${value.toLocaleString("en-US", { minimumFractionDigits: 0, maximumFractionDigits: digits })} \u00b5s`;
}
