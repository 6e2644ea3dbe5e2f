// What the machine has for building and running programs: the words of `stitchcuda doctor`, in the log. It is run outside of the
// workspace, so that nothing of it has a say.
import { execFile } from "node:child_process";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Server } from "./server";

const SECONDS = 60;

export async function showMachine({ wanted, command }: Server, log: vscode.LogOutputChannel): Promise<void> {
  if (command === undefined) {
    void vscode.window.showInformationMessage(`stitchcuda: the command ${wanted} was not found.`);
    return;
  }
  const said = await new Promise<string>((resolve) => {
    const options = { cwd: path.dirname(command), timeout: SECONDS * 1000 };
    execFile(command, ["doctor"], options, (error, out, wrong) => resolve(out || wrong || `${error}`)).stdin?.end();
  });
  log.appendLine(said.trimEnd());
  log.show();
}
