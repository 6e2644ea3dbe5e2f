// Which source a command is about.
import * as vscode from "vscode";

/** The active editor; while a web view or a page has the focus, one that shows CUDA. */
export function sourceEditor(): vscode.TextEditor | undefined {
  return vscode.window.activeTextEditor ?? vscode.window.visibleTextEditors.find((editor) => isCuda(editor.document));
}

/** The URI of its document, else of an open CUDA source that is not visible. */
export function sourceUri(): string | undefined {
  const document = sourceEditor()?.document ?? vscode.workspace.textDocuments.find(isCuda);
  return document?.uri.toString();
}

export function isCuda(document: vscode.TextDocument): boolean {
  return document.uri.scheme === "file" && document.languageId.startsWith("cuda");
}
