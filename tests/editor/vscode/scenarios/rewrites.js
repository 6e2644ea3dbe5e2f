// What is offered as rewrites before `at` in a file.
"use strict";
const { open, until } = require("./waiting");

exports.run = async (vscode, { file, at, count }) => {
  const { document } = await open(vscode, file);
  const place = document.positionAt(document.getText().indexOf(at));
  const offered = await until("the rewrites", async () => {
    const actions = await vscode.commands.executeCommand(
      "vscode.executeCodeActionProvider", document.uri, new vscode.Range(place, place), "refactor.rewrite.stitchcuda",
    );
    const found = actions.filter((action) => action.command && action.command.command === "stitchcuda.rewrite");
    return found.length >= count ? found : undefined;
  });
  return offered.map((action) => ({ title: action.title, kind: action.kind.value, given: action.command.arguments }));
};
