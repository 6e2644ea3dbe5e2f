// Builds the wheel of the server into wheel/, for the package, with $PYTHON, the repository's .venv, or python3. Needs no network where
// that Python has setuptools 77 or newer.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const own = `${root}.venv/bin/python`;
const python = process.env.PYTHON || (existsSync(own) ? own : "python3");
const has = "import re, setuptools; raise SystemExit(int(re.match(r'\\d+', setuptools.__version__)[0]) < 77)";

function passes(code) {
  try {
    execFileSync(python, ["-c", code], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

for (const leftover of ["wheel", `${root}build`]) {
  rmSync(leftover, { recursive: true, force: true }); // what lies there would come into the wheel
}
const isolation = passes(has) ? ["--no-build-isolation"] : [];
execFileSync(python, ["-m", "pip", "wheel", "-q", "--no-deps", ...isolation, "-w", "wheel", root], { stdio: "inherit" });
rmSync(`${root}build`, { recursive: true, force: true });
console.log(`wheel/${readdirSync("wheel")}`);
