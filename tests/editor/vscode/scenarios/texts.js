// The texts of the open files in a folder by name, and whether they are unsaved. VS Code keeps closed files open for a while.
"use strict";

exports.run = async (vscode, { folder }) =>
  Object.fromEntries(
    vscode.workspace.textDocuments
      .filter((document) => document.uri.scheme === "file" && document.uri.path.startsWith(`${folder}/`))
      .map((document) => [document.uri.path.split("/").pop(), { text: document.getText(), dirty: document.isDirty }]),
  );
