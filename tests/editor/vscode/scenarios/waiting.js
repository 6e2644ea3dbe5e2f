// What scenarios share.
"use strict";

/** The first value of `probe` that is not undefined; `probe` may be asynchronous. */
exports.until = async (what, probe, seconds = 60) => {
  for (const end = Date.now() + 1000 * seconds; Date.now() < end; ) {
    const value = await probe();
    if (value !== undefined) {
      return value;
    }
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  throw new Error(`timed out: ${what}`);
};

exports.pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** The findings of a file, once there are exactly these codes. */
exports.findings = (vscode, uri, codes) =>
  exports.until(`findings ${codes}; there are ${vscode.languages.getDiagnostics(uri).map(code)}`, () => {
    const found = vscode.languages.getDiagnostics(uri).filter((d) => d.source === "stitchcuda");
    return JSON.stringify(found.map(code).sort()) === JSON.stringify([...codes].sort()) ? found : undefined;
  });

const code = (diagnostic) => (typeof diagnostic.code === "object" ? diagnostic.code.value : diagnostic.code);

exports.asJson = (diagnostic) => ({
  code: code(diagnostic),
  page: diagnostic.code.target?.toString(true),
  source: diagnostic.source,
  severity: diagnostic.severity,
  message: diagnostic.message,
  range: [diagnostic.range.start.line, diagnostic.range.start.character, diagnostic.range.end.line, diagnostic.range.end.character],
  related: (diagnostic.relatedInformation ?? []).map((r) => ({
    path: r.location.uri.fsPath,
    line: r.location.range.start.line,
    message: r.message,
  })),
});

exports.open = async (vscode, file) => {
  const document = await vscode.workspace.openTextDocument(file);
  return vscode.window.showTextDocument(document, { preview: false, viewColumn: vscode.ViewColumn.One });
};

/** Closes all editors, with unsaved text dropped. */
exports.closeAll = async (vscode) => {
  for (const document of vscode.workspace.textDocuments) {
    if (document.isDirty && document.uri.scheme === "file") {
      await vscode.window.showTextDocument(document);
      await vscode.commands.executeCommand("workbench.action.files.revert");
    }
  }
  await vscode.commands.executeCommand("workbench.action.closeAllEditors");
};
