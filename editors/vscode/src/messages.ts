// What the server says, with what can be done next: VS Code shows one line only of a notification that has no button.
import * as vscode from "vscode";
import { MessageType, type ShowMessageParams } from "vscode-languageclient";
import type { Status } from "./session";

/** A message of the server; `ended` is what came of the job that it is about. */
export interface Message extends ShowMessageParams {
  readonly ended?: { readonly outcome: string; readonly applied: boolean };
}

const UNCHECKED = ["unproven", "not_validated"];

export async function showMessage(message: Message, status: Status | undefined): Promise<void> {
  const shown = { [MessageType.Error]: vscode.window.showErrorMessage, [MessageType.Warning]: vscode.window.showWarningMessage }[message.type as 1 | 2];
  const next = actions(message, status);
  const chosen = await (shown ?? vscode.window.showInformationMessage)(message.message, ...next.keys());
  const command = chosen && next.get(chosen);
  if (command) {
    await vscode.commands.executeCommand(command);
  }
}

/** Labels and commands. */
function actions({ ended }: Message, status: Status | undefined): Map<string, string> {
  const found = new Map<string, string>();
  if (ended?.applied) {
    found.set("Show Before and After", "stitchcuda.showChange");
  }
  if (ended && UNCHECKED.includes(ended.outcome) && status?.unavailable) {
    if (status.trusted) {
      found.set("Show What This Machine Has", "stitchcuda.showMachine");
    } else {
      found.set("Manage Trust", "workbench.trust.manage");
    }
  }
  return found;
}
