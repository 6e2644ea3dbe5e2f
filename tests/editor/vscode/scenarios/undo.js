// Undoes once in each of the files.
"use strict";
const { open } = require("./waiting");

exports.run = async (vscode, { files }) => {
  for (const file of files) {
    await open(vscode, file);
    await vscode.commands.executeCommand("undo");
  }
};
