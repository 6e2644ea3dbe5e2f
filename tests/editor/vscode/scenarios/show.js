// Shows a file, with the cursor before `at` if that is given.
"use strict";
const { open } = require("./waiting");

exports.run = async (vscode, { file, at }) => {
  const editor = await open(vscode, file);
  if (at !== undefined) {
    const place = editor.document.positionAt(editor.document.getText().indexOf(at));
    editor.selection = new vscode.Selection(place, place);
    editor.revealRange(new vscode.Range(place, place));
  }
};
