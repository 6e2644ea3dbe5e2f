// Finds the `stitchcuda` command.
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";

const NAMES_ENDING = process.platform === "win32" ? [".exe", ".cmd", ""] : [""];

export interface Server {
  readonly wanted: string; // what the setting says
  readonly command: string | undefined; // the program, if it is there
}

/** The setting as a path, absolute or in the workspace; a bare name in the workspace's `.venv`, then on PATH. */
export function findServer(): Server {
  const wanted = vscode.workspace.getConfiguration("stitchcuda").get("server.path", "stitchcuda").trim() || "stitchcuda";
  const places = candidates(wanted).flatMap((place) => NAMES_ENDING.map((ending) => place + ending));
  return { wanted, command: places.find((place) => fs.statSync(place, { throwIfNoEntry: false })?.isFile()) };
}

function candidates(wanted: string): string[] {
  if (path.isAbsolute(wanted)) {
    return [wanted];
  }
  // What the workspace brings may only be started once the user trusts it.
  const folders = vscode.workspace.isTrusted ? (vscode.workspace.workspaceFolders ?? []).map((folder) => folder.uri.fsPath) : [];
  if (path.basename(wanted) !== wanted) {
    return folders.map((folder) => path.join(folder, wanted));
  }
  const scripts = process.platform === "win32" ? "Scripts" : "bin";
  const search = (process.env.PATH ?? "").split(path.delimiter).filter((folder) => path.isAbsolute(folder));
  return [...folders.map((folder) => path.join(folder, ".venv", scripts)), ...search].map((folder) => path.join(folder, wanted));
}
