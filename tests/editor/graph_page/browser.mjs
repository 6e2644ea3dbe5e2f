// A person at the page of the execution graph, in Chromium. One JSON request a line on stdin, one answer a line on stdout.
// `browser.mjs CHROMIUM`
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const browser = await chromium.launch({
  executablePath: process.argv[2],
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
});
let page;
let said = [];

const actions = {
  // `editor`: as in a web view whose body has that class; `variables`: of its theme, and `kept`: the state it gives back.
  async open({ url, scheme = "light", contrast = "no-preference", width = 1280, height = 800, editor, variables = {}, kept = null }) {
    if (page) await page.context().close();
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, contrast, permissions: ["clipboard-read", "clipboard-write"] });
    page = await context.newPage();
    said = [];
    page.on("console", (message) => said.push(`${message.type()}: ${message.text()}`));
    page.on("pageerror", (error) => said.push(`error: ${error.stack}`));
    page.on("request", (request) => { if (request.url() !== url) said.push(`request: ${request.url()}`); });
    if (editor) await page.addInitScript(asEditor, { editor, variables, kept });
    const began = Date.now();
    await page.goto(url);
    await page.waitForSelector("html[data-ready]", { timeout: 20000 });
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    return Date.now() - began;
  },
  said: () => said,
  evaluate: ({ expression }) => page.evaluate(expression),
  press: ({ keys }) => page.keyboard.press(keys),
  type: ({ text }) => page.keyboard.type(text),
  fill: ({ selector, text }) => page.fill(selector, text),
  click: ({ selector, times = 1 }) => page.locator(selector).first().click({ clickCount: times }),
  choose: ({ selector, value }) => page.selectOption(selector, value).then(() => undefined),
  pointer: async ({ x, y, times = 1 }) => page.mouse.click(x, y, { clickCount: times }),
  async drag({ from, to }) {
    await page.mouse.move(...from);
    await page.mouse.down();
    await page.mouse.move(...to, { steps: 5 });
    await page.mouse.up();
  },
  async wheel({ x, y, dx = 0, dy = 0, keys }) {
    await page.mouse.move(x, y);
    if (keys) await page.keyboard.down(keys);
    await page.mouse.wheel(dx, dy);
    if (keys) await page.keyboard.up(keys);
  },
  scheme: ({ scheme }) => page.emulateMedia({ colorScheme: scheme }),
  picture: ({ file }) => page.screenshot({ path: file }).then(() => undefined),
};

function asEditor({ editor, variables, kept }) {
  window.posted = [];
  let state = kept;
  let given = false;
  window.acquireVsCodeApi = () => {
    if (given) throw new Error("acquired twice");
    given = true;
    return { postMessage: (message) => window.posted.push(message), setState: (value) => { state = value; window.keptState = value; }, getState: () => state };
  };
  const dress = () => {
    if (!document.body) return false;
    document.body.classList.add(editor);
    for (const name of Object.keys(variables)) document.documentElement.style.setProperty(name, variables[name]);
    return true;
  };
  const watch = new MutationObserver(() => { if (dress()) watch.disconnect(); });
  watch.observe(document, { childList: true, subtree: true });
}

for await (const line of createInterface({ input: process.stdin })) {
  const { does, ...rest } = JSON.parse(line);
  try {
    const value = (await actions[does](rest)) ?? null;
    if (page && does !== "open") await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    process.stdout.write(`${JSON.stringify({ value })}\n`);
  } catch (error) {
    process.stdout.write(`${JSON.stringify({ error: `${error}` })}\n`);
  }
}
await browser.close();
