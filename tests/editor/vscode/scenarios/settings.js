// Writes settings of the workspace.
"use strict";

exports.run = async (vscode, { values }) => {
  for (const [name, value] of Object.entries(values)) {
    await vscode.workspace.getConfiguration().update(name, value ?? undefined, vscode.ConfigurationTarget.Workspace);
  }
};
