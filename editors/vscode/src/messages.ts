// What the server says, with what can be done next: VS Code shows one line only of a notification that has no button.
import * as vscode from "vscode";
import { MessageType } from "vscode-languageclient";
import type { Status } from "./session";

const UNCHANGED = /^(no safe change|failed|not applied|the model was not asked)/;
const UNCHECKED = /^(unproven|not validated)/;

export async function showMessage(type: MessageType, text: string, status: Status | undefined): Promise<void> {
  const shown = { [MessageType.Error]: vscode.window.showErrorMessage, [MessageType.Warning]: vscode.window.showWarningMessage }[type as 1 | 2];
  const next = actions(text, status);
  const chosen = await (shown ?? vscode.window.showInformationMessage)(text, ...next.keys());
  const command = chosen && next.get(chosen);
  if (command) {
    await vscode.commands.executeCommand(command);
  }
}

/** Labels and commands. The result of a job comes while it is still among those that run. */
function actions(text: string, status: Status | undefined): Map<string, string> {
  const found = new Map<string, string>();
  const [, program, result] = /^stitchcuda: (.+?): (.*)/s.exec(text) ?? [];
  const jobs = status?.jobs.filter((job) => job.asked) ?? [];
  if (program === undefined || result === undefined || jobs.length === 0) {
    return found;
  }
  const validates = jobs.some((job) => job.title === `Validate: ${program}`);
  if (!validates && !UNCHANGED.test(result)) {
    found.set("Show Before and After", "stitchcuda.showChange");
  }
  if (UNCHECKED.test(result) && status?.unavailable) {
    if (status.trusted) {
      found.set("Show What This Machine Has", "stitchcuda.showMachine");
    } else {
      found.set("Manage Trust", "workbench.trust.manage");
    }
  }
  return found;
}
