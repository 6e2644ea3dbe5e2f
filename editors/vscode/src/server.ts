// Finds the `stitchcuda` command.
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";

const WINDOWS = process.platform === "win32";
const ENDINGS = WINDOWS ? [".exe", ".cmd", ""] : [""];
export const SCRIPTS = WINDOWS ? "Scripts" : "bin"; // of a virtual environment

export interface Server {
  readonly wanted: string; // what the setting says
  readonly command: string | undefined; // the program, if it is there
}

/** The setting as a path, absolute or in the workspace; a bare name in the workspace's `.venv`, in `own`, then on PATH. */
export function findServer(own: string): Server {
  const wanted = vscode.workspace.getConfiguration("stitchcuda").get("server.path", "stitchcuda").trim() || "stitchcuda";
  return { wanted, command: firstFile(candidates(wanted, own)) };
}

/** The first that is a file, with an ending of programs where the system has such. */
export function firstFile(places: readonly string[]): string | undefined {
  return places
    .flatMap((place) => ENDINGS.map((ending) => place + ending))
    .find(isFile);
}

/** Also of what cannot be looked at, such as a folder of PATH that belongs to somebody else: no. */
function isFile(place: string): boolean {
  try {
    return fs.statSync(place).isFile();
  } catch {
    return false;
  }
}

/** The folders of PATH. A relative one would mean a folder of whatever is open. */
export function searchPath(): string[] {
  return (process.env.PATH ?? "").split(path.delimiter).filter((folder) => path.isAbsolute(folder));
}

function candidates(wanted: string, own: string): string[] {
  if (path.isAbsolute(wanted)) {
    return [wanted];
  }
  // What the workspace brings may only be started once the user trusts it.
  const folders = vscode.workspace.isTrusted ? (vscode.workspace.workspaceFolders ?? []).map((folder) => folder.uri.fsPath) : [];
  if (path.basename(wanted) !== wanted) {
    return folders.map((folder) => path.join(folder, wanted));
  }
  return [...folders.map((folder) => path.join(folder, ".venv", SCRIPTS)), own, ...searchPath()].map((folder) => path.join(folder, wanted));
}
