// Builds the wheel of the server into wheel/, for the package, with $PYTHON, the repository's .venv, or python3. Needs no network where
// that Python has setuptools 77 or newer.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const own = join(root, ".venv", "bin", "python");
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

const scratch = mkdtempSync(join(tmpdir(), "stitchcuda-wheel-"));
try {
  const isolation = passes(has) ? ["--no-build-isolation"] : [];
  // What an earlier build left in the repository would come into the wheel, so this one builds elsewhere.
  const config = join(scratch, "build.cfg");
  writeFileSync(config, `[build]\nbuild_base = ${join(scratch, "build")}\n[egg_info]\negg_base = ${scratch}\n`);
  const env = { ...process.env, DIST_EXTRA_CONFIG: config };
  execFileSync(python, ["-m", "pip", "wheel", "-q", "--no-deps", ...isolation, "-w", join(scratch, "made"), root], { stdio: "inherit", env });
  rmSync("wheel", { recursive: true, force: true });
  mkdirSync("wheel");
  for (const name of readdirSync(join(scratch, "made"))) {
    copyFileSync(join(scratch, "made", name), join("wheel", name));
    console.log(`wheel/${name}`);
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
