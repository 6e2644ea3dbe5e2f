// Bundles the extension into dist/extension.js and puts the licence beside it, for the package.
import { copyFileSync } from "node:fs";
import { build } from "esbuild";

await build({
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
  bundle: true,
  platform: "node",
  target: "node20",
  format: "cjs",
  external: ["vscode"],
  minify: true,
});
copyFileSync("../../LICENSE", "LICENSE");
