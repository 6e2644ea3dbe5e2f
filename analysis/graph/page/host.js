// What shows the page: an editor's web view, which opens sources and keeps the state, or a browser, which copies where a source is.
const editor = typeof acquireVsCodeApi === "function" ? acquireVsCodeApi() : null;
let toastTimer = 0;

function toast(text) {
  const box = document.getElementById("toast");
  box.textContent = text;
  box.classList.add("shown");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => box.classList.remove("shown"), 2500);
}

function openSource(place) {
  const { path, line, column } = { column: 1, ...place };
  if (editor) {
    editor.postMessage({ command: "open", path, line, column });
    return;
  }
  const text = `${path}:${line}:${column}`;
  copied(text).then((done) => toast(done ? `Copied ${text}` : text));
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = make(document.body, "textarea", { class: "unseen", readonly: "" });
    const focused = document.activeElement;
    field.value = text;
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    if (focused instanceof HTMLElement || focused instanceof SVGElement) focused.focus();
    return done;
  }
}

// With what the editor said that the page is about, so that it can show it again when its window is opened again.
function keep(state) {
  if (editor) editor.setState({ ...state, subject: document.documentElement.dataset.subject });
}

function kept() {
  const state = editor && editor.getState();
  return state && typeof state === "object" ? state : {};
}

function theme() {
  const words = document.body.classList;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const contrast = matchMedia("(prefers-contrast: more)").matches || matchMedia("(forced-colors: active)").matches;
  let name = `${contrast ? "contrast-" : ""}${dark ? "dark" : "light"}`;
  if (words.contains("vscode-high-contrast-light")) name = "contrast-light";
  else if (words.contains("vscode-high-contrast")) name = "contrast-dark";
  else if (words.contains("vscode-dark")) name = "dark";
  else if (words.contains("vscode-light")) name = "light";
  document.documentElement.dataset.theme = name;
}

function followTheme(changed) {
  const again = () => { theme(); changed(); };
  new MutationObserver(again).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  for (const query of ["(prefers-color-scheme: dark)", "(prefers-contrast: more)", "(forced-colors: active)"]) matchMedia(query).addEventListener("change", again);
}
