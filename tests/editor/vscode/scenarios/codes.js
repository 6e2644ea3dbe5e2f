// Waits until a file has exactly the findings of these codes; gives them.
"use strict";
const { asJson, findings, open } = require("./waiting");

exports.run = async (vscode, { file, codes }) => {
  const { document } = await open(vscode, file);
  return (await findings(vscode, document.uri, codes)).map(asJson);
};
