// Commands about the finding under the cursor: its page, and the comment that suppresses it.
import * as vscode from "vscode";
import { sourceEditor } from "./source";

export async function explain(): Promise<void> {
  const pages = new Map(findings().flatMap(({ code, page }) => (page ? [[code, page] as const] : [])));
  const chosen = pages.size > 1 ? await vscode.window.showQuickPick([...pages.keys()], { title: "Explain the Finding" }) : [...pages.keys()][0];
  const page = chosen && pages.get(chosen);
  if (page) {
    await vscode.commands.executeCommand("markdown.showPreviewToSide", page);
  } else if (pages.size === 0) {
    none();
  }
}

export async function suppress(): Promise<void> {
  const editor = sourceEditor();
  const codes = new Set(findings().map(({ code }) => code));
  if (editor === undefined || codes.size === 0) {
    none();
    return;
  }
  const line = editor.document.lineAt(editor.selection.active.line).range;
  const offered = await vscode.commands.executeCommand<vscode.CodeAction[]>(
    "vscode.executeCodeActionProvider", editor.document.uri, line, vscode.CodeActionKind.QuickFix.value, 50,
  );
  const choices = offered
    .filter((action) => action.edit && [...codes].some((code) => action.title === `Suppress ${code} on this line`))
    .map((action) => ({ label: action.title, action }));
  const chosen = choices.length > 1 ? await vscode.window.showQuickPick(choices, { title: "Suppress the Finding" }) : choices[0];
  if (chosen?.action.edit) {
    await vscode.workspace.applyEdit(chosen.action.edit);
  }
}

/** Those on the line of the cursor. */
function findings(): { code: string; page?: vscode.Uri }[] {
  const editor = sourceEditor();
  if (editor === undefined) {
    return [];
  }
  const line = editor.selection.active.line;
  return vscode.languages
    .getDiagnostics(editor.document.uri)
    .filter((found) => found.source === "stitchcuda" && found.range.start.line <= line && line <= found.range.end.line)
    .flatMap(({ code }) => (code !== null && typeof code === "object" ? [{ code: `${code.value}`, page: code.target }] : code ? [{ code: `${code}` }] : []));
}

function none(): void {
  void vscode.window.showInformationMessage("stitchcuda: there is no finding on this line.");
}
