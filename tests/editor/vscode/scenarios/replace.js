// Replaces a text in an open file.
"use strict";

exports.run = async (vscode, { file, old, new: text }) => {
  const document = await vscode.workspace.openTextDocument(file);
  const at = document.getText().indexOf(old);
  const edit = new vscode.WorkspaceEdit();
  edit.replace(document.uri, new vscode.Range(document.positionAt(at), document.positionAt(at + old.length)), text);
  return vscode.workspace.applyEdit(edit);
};
