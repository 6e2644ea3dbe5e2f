// Runs a command of VS Code, and waits for it if that is wanted.
"use strict";

exports.run = async (vscode, { command, given = [], wait = true }) => {
  const words = given.map((word) => (typeof word === "string" && word.startsWith("file:") ? vscode.Uri.parse(word).toString() : word));
  const done = vscode.commands.executeCommand(command, ...words);
  if (!wait) {
    done.then(undefined, () => undefined);
    return undefined;
  }
  const value = await done;
  return value === undefined ? null : JSON.parse(JSON.stringify(value));
};
