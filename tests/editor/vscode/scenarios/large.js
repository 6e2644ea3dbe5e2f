// A large file: its finding is shown, what is typed is the server's text too, and the finding goes with its cause.
"use strict";
const { createHash } = require("node:crypto");
const { asJson, closeAll, findings, open, until } = require("./waiting");

exports.run = async (vscode, { file, code, mark }) => {
  const seen = {};
  const editor = await open(vscode, file);
  const { document } = editor;
  seen.lines = document.lineCount;
  try {
    seen.opened = asJson((await findings(vscode, document.uri, [code]))[0]);
  } catch (error) {
    throw new Error(`${error}; the server: ${JSON.stringify(await vscode.commands.executeCommand("stitchcuda.status"))}`);
  }
  const lineOf = () => document.positionAt(document.getText().indexOf(mark)).line;
  let column = 0;
  const above = lineOf();
  for (const character of "// typed here\n") {
    await editor.edit((builder) => builder.insert(new vscode.Position(above, column), character));
    column += 1;
  }
  seen.text = createHash("sha256").update(document.getText()).digest("hex");
  const status = await vscode.commands.executeCommand("stitchcuda.status");
  seen.server = status.texts[document.uri.toString()].sha256;
  seen.typed = document.lineAt(above).text;
  await until("the finding on its new line", async () => {
    const [found] = await findings(vscode, document.uri, [code]);
    return found.range.start.line === seen.opened.range[0] + 1 ? true : undefined;
  });
  await editor.edit((builder) => builder.delete(document.lineAt(lineOf()).rangeIncludingLineBreak));
  await findings(vscode, document.uri, []);
  await closeAll(vscode);
  return seen;
};
