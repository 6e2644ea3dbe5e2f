// A large file: how long until its finding is shown, and how long keys and their effect take.
"use strict";
const { closeAll, findings, open } = require("./waiting");

exports.run = async (vscode, { file, code, mark }) => {
  const seen = {};
  let start = Date.now();
  const editor = await open(vscode, file);
  const { document } = editor;
  seen.lines = document.lineCount;
  await findings(vscode, document.uri, [code]);
  seen.opened = Date.now() - start;
  const at = document.positionAt(document.getText().indexOf(mark));
  start = Date.now();
  for (const character of "// typed here\n") {
    await editor.edit((builder) => builder.insert(new vscode.Position(at.line, 0), character), { undoStopBefore: false, undoStopAfter: false });
  }
  seen.typed = Date.now() - start;
  start = Date.now();
  const status = await vscode.commands.executeCommand("stitchcuda.status");
  seen.answered = Date.now() - start;
  seen.text = status.texts?.[document.uri.toString()];
  await vscode.commands.executeCommand("undo");
  const line = document.positionAt(document.getText().indexOf(mark)).line;
  start = Date.now();
  await editor.edit((builder) => builder.delete(document.lineAt(line).rangeIncludingLineBreak));
  await findings(vscode, document.uri, []);
  seen.cleared = Date.now() - start;
  await closeAll(vscode);
  return seen;
};
