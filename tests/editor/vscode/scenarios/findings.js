// A file with a race is opened, fixed and restored.
"use strict";
const { asJson, closeAll, findings, open } = require("./waiting");

exports.run = async (vscode, { file }) => {
  const seen = {};
  const editor = await open(vscode, file);
  const { document } = editor;
  const [race] = await findings(vscode, document.uri, ["stream-race-raw"]);
  seen.opened = asJson(race);
  seen.language = document.languageId;
  seen.text = document.getText(race.range);
  return seen;
};
