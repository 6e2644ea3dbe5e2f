// A person at VS Code's page: opens it in Chromium, clicks, presses keys, takes pictures. One JSON request a line on stdin, one answer a
// line on stdout. `page.mjs CHROMIUM`
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const browser = await chromium.launch({
  executablePath: process.argv[2],
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
});
const pages = new Map();
const SECONDS = 60; // for things to appear; a busy machine is slow
const pause = () => new Promise((resolve) => setTimeout(resolve, 100));

const actions = {
  async open({ page, url }) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    context.setDefaultTimeout(SECONDS * 1000);
    pages.set(page, await context.newPage());
    await pages.get(page).goto(url, { waitUntil: "domcontentloaded" });
  },
  reload: ({ page }) => pages.get(page).reload({ waitUntil: "domcontentloaded" }).then(() => undefined),
  press: ({ page, keys }) => pages.get(page).keyboard.press(keys),
  type: ({ page, text, delay }) => pages.get(page).keyboard.type(text, { delay }),
  click: ({ page, selector, text }) => place(pages.get(page), selector, text).click(),
  wait: ({ page, selector, text, seconds = SECONDS }) => place(pages.get(page), selector, text).waitFor({ timeout: seconds * 1000 }),
  gone: ({ page, selector, text }) => place(pages.get(page), selector, text).waitFor({ state: "detached" }),
  hover: ({ page, selector, text }) => place(pages.get(page), selector, text).hover(),
  text: ({ page, selector, text }) => place(pages.get(page), selector, text).innerText(),
  count: ({ page, selector }) => pages.get(page).locator(selector).count(),
  picture: ({ page, file }) => pages.get(page).screenshot({ path: file }).then(() => undefined),
  async close({ page }) {
    await pages.get(page).context().close();
    pages.delete(page);
  },
  /** VS Code writes down what is open every few seconds, here into a database of the browser: waits until a value there has all texts. */
  async stored({ page, texts }) {
    for (const end = Date.now() + SECONDS * 1000; Date.now() < end; await pause()) {
      const values = await pages.get(page).evaluate(databaseValues);
      if (values.some((value) => texts.every((text) => value.includes(text)))) {
        return;
      }
    }
    throw new Error(`no value has ${texts}`);
  },
  // In the page of a web view: VS Code puts it into a frame in a frame.
  async frameClick({ page, selector }) {
    await (await webview(pages.get(page), selector)).click(selector);
  },
  /** The value of an expression as soon as `holds`, an expression about `value`, is true. */
  async frameEvaluate({ page, selector, expression, holds = "true" }) {
    const test = new Function("value", `return ${holds}`);
    let value;
    for (const end = Date.now() + SECONDS * 1000; Date.now() < end; await pause()) {
      try {
        value = await (await webview(pages.get(page), selector)).evaluate(expression);
        if (test(value)) {
          return value;
        }
      } catch (error) {
        value = `${error}`; // the page is being exchanged for a newer one
      }
    }
    throw new Error(`${expression} is ${value}`);
  },
};

async function databaseValues() {
  const wait = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  const found = [];
  for (const { name } of await indexedDB.databases()) {
    const database = await wait(indexedDB.open(name));
    for (const store of database.objectStoreNames) {
      found.push(...(await wait(database.transaction(store).objectStore(store).getAll())).filter((value) => typeof value === "string"));
    }
    database.close();
  }
  return found;
}

function place(page, selector, text) {
  const found = page.locator(selector);
  return (text === undefined ? found : found.filter({ hasText: text })).first();
}

async function webview(page, selector) {
  for (const end = Date.now() + SECONDS * 1000; Date.now() < end; await pause()) {
    for (const frame of page.frames()) {
      if (frame !== page.mainFrame() && (await frame.locator(selector).count().catch(() => 0)) > 0) {
        return frame;
      }
    }
  }
  throw new Error(`no frame holds ${selector}`);
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, does, ...rest } = JSON.parse(line);
  try {
    process.stdout.write(`${JSON.stringify({ id, value: (await actions[does](rest)) ?? null })}\n`);
  } catch (error) {
    process.stdout.write(`${JSON.stringify({ id, error: `${error}` })}\n`);
  }
}
await browser.close();
