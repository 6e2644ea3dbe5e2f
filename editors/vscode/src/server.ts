// Finds the `stitchcuda` command.
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";

/** The command to start: the setting when it is a path; for a bare name the workspace's `.venv` first, else PATH decides. */
export function serverCommand(): string {
  const setting = vscode.workspace.getConfiguration("stitchcuda").get("server.path", "stitchcuda").trim() || "stitchcuda";
  if (path.isAbsolute(setting)) {
    return setting;
  }
  // What the workspace brings may only be started once the user trusts it.
  for (const folder of vscode.workspace.isTrusted ? (vscode.workspace.workspaceFolders ?? []) : []) {
    const candidates = isBareName(setting) ? inEnvironment(folder.uri.fsPath, setting) : [path.join(folder.uri.fsPath, setting)];
    const found = candidates.find((candidate) => fs.existsSync(candidate));
    if (found) {
      return found;
    }
  }
  return setting;
}

function isBareName(setting: string): boolean {
  return path.basename(setting) === setting;
}

function inEnvironment(folder: string, name: string): string[] {
  return process.platform === "win32"
    ? [path.join(folder, ".venv", "Scripts", `${name}.exe`)]
    : [path.join(folder, ".venv", "bin", name)];
}
