// A kernel is made slower and saved, seen as a finding on its launch, and made as fast as before.
"use strict";
const { asJson, open, until } = require("./waiting");

exports.run = async (vscode, { file }) => {
  const seen = {};
  const editor = await open(vscode, file);
  const { document } = editor;
  const found = () => vscode.languages.getDiagnostics(document.uri).map(asJson).filter((d) => d.code === "latency-regression");
  const ended = (count) =>
    until(`validation ${count}`, async () => {
      const { jobs } = await vscode.commands.executeCommand("stitchcuda.status");
      return jobs.filter((job) => job.title.startsWith("Validate on save: ") && job.state === "done").length === count || undefined;
    });
  const rounds = async (number) => {
    const text = document.getText();
    const at = text.indexOf("ROUNDS = ") + "ROUNDS = ".length;
    const range = new vscode.Range(document.positionAt(at), document.positionAt(text.indexOf(";", at)));
    await editor.edit((builder) => builder.replace(range, `${number}`));
    await document.save();
  };
  await editor.edit((builder) => builder.insert(new vscode.Position(document.lineCount - 1, 0), "\n"));
  await document.save();
  await ended(1);
  seen.recorded = found();
  await rounds(24000);
  await until("the finding", () => (found().length > 0 ? true : undefined));
  await ended(2);
  seen.slower = found();
  seen.line = document.lineAt(seen.slower[0].range[0]).text;
  await rounds(20000);
  await until("the finding to go", () => (found().length === 0 ? true : undefined));
  await ended(3);
  seen.fixed = found();
  return seen;
};
