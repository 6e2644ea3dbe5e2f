// The open files' texts by name, and whether they are unsaved.
"use strict";

exports.run = async (vscode) =>
  Object.fromEntries(
    vscode.workspace.textDocuments
      .filter((document) => document.uri.scheme === "file")
      .map((document) => [document.uri.path.split("/").pop(), { text: document.getText(), dirty: document.isDirty }]),
  );
