// A file with a race is opened, fixed by its quick fix, restored, suppressed, and restored.
"use strict";
const { asJson, closeAll, findings, open, until } = require("./waiting");

exports.run = async (vscode, { file }) => {
  const seen = {};
  const editor = await open(vscode, file);
  const { document } = editor;
  const [race] = await findings(vscode, document.uri, ["stream-race-raw"]);
  seen.opened = asJson(race);
  seen.text = document.getText(race.range);
  seen.all = vscode.languages.getDiagnostics(document.uri).length;

  const actions = await vscode.commands.executeCommand("vscode.executeCodeActionProvider", document.uri, race.range, "quickfix", 20);
  seen.actions = actions.map((action) => action.title);
  const preferred = actions.filter((action) => action.isPreferred);
  seen.preferred = preferred.length;
  await vscode.workspace.applyEdit(preferred[0].edit);
  seen.fixed = document.getText();
  await findings(vscode, document.uri, []);

  await vscode.commands.executeCommand("undo");
  seen.undone = document.getText();
  const [again] = await findings(vscode, document.uri, ["stream-race-raw"]);

  editor.selection = new vscode.Selection(again.range.start, again.range.start);
  await vscode.commands.executeCommand("stitchcuda.suppressFinding");
  seen.suppressed = document.lineAt(again.range.start.line).text;
  await findings(vscode, document.uri, []);
  await vscode.commands.executeCommand("undo");
  await findings(vscode, document.uri, ["stream-race-raw"]);

  await vscode.commands.executeCommand("stitchcuda.explainFinding");
  const tabs = () => vscode.window.tabGroups.all.flatMap((group) => group.tabs).map((tab) => tab.label);
  seen.page = await until("the page", () => tabs().find((label) => label.includes("stream-race-raw")));
  await closeAll(vscode);
  return seen;
};
