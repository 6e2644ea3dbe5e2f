// Jobs of the server about the program that the active file belongs to. Progress, result and refusal are the server's.
import * as vscode from "vscode";
import type { Session } from "./session";
import { sourceEditor, sourceUri } from "./source";

export class Programs {
  constructor(private readonly session: Session) {}

  async stitch(): Promise<void> {
    const intent = await vscode.window.showInputBox({
      title: "Stitch end-to-end",
      prompt: "What is to be reached, in words. Empty: what stitchcuda.toml says, else simply faster",
      placeHolder: "p99 latency under 8 ms",
    });
    if (intent !== undefined) {
      await this.start("stitchcuda.stitch", intent);
    }
  }

  validate(): Promise<void> {
    return this.start("stitchcuda.validate");
  }

  /** One transform, chosen from those that the server offers for the function under the cursor. */
  async rewrite(): Promise<void> {
    const editor = sourceEditor();
    if (editor === undefined) {
      this.openFirst();
      return;
    }
    const kind = "refactor.rewrite.stitchcuda";
    const offered = await vscode.commands.executeCommand<vscode.CodeAction[]>(
      "vscode.executeCodeActionProvider", editor.document.uri, editor.selection, kind,
    );
    const choices = offered
      .filter((action) => action.command?.command === "stitchcuda.rewrite")
      .map((action) => ({ label: action.title, action }));
    if (choices.length === 0) {
      void vscode.window.showInformationMessage("stitchcuda: no rewrite for this place. Put the cursor into a host function with device work.");
      return;
    }
    const chosen = await vscode.window.showQuickPick(choices, { title: "Rewrite Step by Step", placeHolder: "One transform, proved and validated like Stitch" });
    if (chosen?.action.command) {
      await this.run(chosen.action.command.command, ...(chosen.action.command.arguments ?? []));
    }
  }

  private async start(command: string, ...rest: string[]): Promise<void> {
    const uri = sourceUri();
    if (uri === undefined) {
      this.openFirst();
    } else {
      await this.run(command, uri, ...rest);
    }
  }

  private async run(command: string, ...words: unknown[]): Promise<void> {
    try {
      await this.session.command(command, ...words);
    } catch (error) {
      void vscode.window.showErrorMessage(`stitchcuda: ${error instanceof Error ? error.message : error}`);
    }
  }

  private openFirst(): void {
    void vscode.window.showInformationMessage("stitchcuda: open a file of the program first");
  }
}
