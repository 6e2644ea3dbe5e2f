// Waits until a file has exactly the findings of these codes.
"use strict";
const { findings, open } = require("./waiting");

exports.run = async (vscode, { file, codes }) => {
  const { document } = await open(vscode, file);
  await findings(vscode, document.uri, codes);
};
