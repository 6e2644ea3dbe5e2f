// Installs the server into a Python environment of the extension's own, when the user agrees: from the wheel in the extension, or from
// what the user names. Python and pip run outside of the workspace, so that nothing of it is taken for a module.
import { spawn } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import { SCRIPTS, firstFile, searchPath } from "./server";

const NAMES = ["python3", "python", "python3.14", "python3.13", "python3.12", "python3.11"];
const SUITABLE = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";

export class Installation {
  private readonly folder: string;
  private readonly stamp: string;
  private readonly version: string;

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly log: vscode.LogOutputChannel,
    private readonly stopServer: () => Promise<void>,
    private readonly startServer: () => Promise<void>,
  ) {
    this.folder = path.join(context.globalStorageUri.fsPath, "server");
    this.stamp = path.join(this.folder, "installed-by"); // written last: without it the folder is half an installation
    this.version = context.extension.packageJSON.version;
  }

  /** Where its programs lie, whether or not there are any. */
  get programs(): string {
    return fs.existsSync(this.stamp) ? path.join(this.folder, SCRIPTS) : path.join(this.folder, "nothing");
  }

  /** The command: asks from what, asks for agreement, installs, and restarts the server. */
  async install(): Promise<void> {
    const source = await this.source();
    if (source === undefined) {
      return;
    }
    const python = await this.python();
    if (python === undefined) {
      void vscode.window.showErrorMessage(
        "stitchcuda: no Python 3.11 or newer with venv and pip was found on PATH. Install one, or name it in the setting stitchcuda.server.python.",
      );
      return;
    }
    const agree = "Install";
    const detail =
      `A Python environment is made in ${this.folder} with ${python}. pip installs ${source === this.wheel() ? `version ${this.version} of stitchcuda, which comes with the extension,` : source} ` +
      "into it, with what it depends on from the package index that pip is set to. Nothing else is changed.";
    if ((await vscode.window.showInformationMessage("Install the stitchcuda server?", { modal: true, detail }, agree)) !== agree) {
      return;
    }
    await this.stopServer();
    try {
      await this.installFrom(source, python);
      void vscode.window.showInformationMessage("stitchcuda: the server is installed.");
    } catch (error) {
      fs.rmSync(this.folder, { recursive: true, force: true });
      if (error instanceof vscode.CancellationError) {
        this.log.info("The installation was cancelled");
      } else {
        const show = "Show the Log";
        const text = error instanceof Error ? error.message : `${error}`;
        void vscode.window.showErrorMessage(`stitchcuda: the server was not installed: ${text}`, show).then((answer) => answer && this.log.show());
      }
    } finally {
      await this.startServer();
    }
  }

  /** Says so when the installed server is another version than the extension's. */
  async offerUpdate(): Promise<void> {
    const installed = fs.existsSync(this.stamp) ? fs.readFileSync(this.stamp, "utf8") : this.version;
    const update = "Update";
    if (
      installed !== this.version &&
      (await vscode.window.showInformationMessage(`stitchcuda: the installed server is of version ${installed}, the extension of ${this.version}.`, update))
    ) {
      await this.install();
    }
  }

  /** What pip is to install: a requirement, a file, or a folder. */
  private async source(): Promise<string | undefined> {
    const wheel = this.wheel();
    const own = wheel && { label: `Version ${this.version}`, description: "comes with the extension", wheel };
    const other = { label: "Another One...", description: "a wheel, a folder with the sources, or a requirement", wheel: undefined };
    const chosen = own ? await vscode.window.showQuickPick([own, other], { title: "Install the stitchcuda Server" }) : other;
    if (chosen === undefined || chosen.wheel !== undefined) {
      return chosen?.wheel;
    }
    const named = await vscode.window.showInputBox({
      title: "Install the stitchcuda Server",
      prompt: "A wheel, a folder with the sources, or a requirement for pip",
      placeHolder: "/path/to/stitchcuda",
      ignoreFocusOut: true,
      validateInput: (text) => (text.trim().startsWith("-") ? "An option for pip is not possible here" : undefined),
    });
    return named?.trim() || undefined;
  }

  private wheel(): string | undefined {
    const folder = path.join(this.context.extensionPath, "wheel");
    const name = fs.existsSync(folder) ? fs.readdirSync(folder).find((file) => file.endsWith(".whl")) : undefined;
    return name && path.join(folder, name);
  }

  private async python(): Promise<string | undefined> {
    const set = vscode.workspace.getConfiguration("stitchcuda").get("server.python", "").trim();
    const places = set ? [set] : NAMES.flatMap((name) => searchPath().map((folder) => path.join(folder, name)));
    for (const place of places) {
      const found = firstFile([place]);
      if (found !== undefined && (await this.run(found, ["-I", "-c", SUITABLE]).then(() => true, () => false))) {
        return found;
      }
    }
    return undefined;
  }

  private async installFrom(source: string, python: string): Promise<void> {
    fs.rmSync(this.folder, { recursive: true, force: true });
    fs.mkdirSync(this.context.globalStorageUri.fsPath, { recursive: true });
    const options = { location: vscode.ProgressLocation.Notification, title: "Installing the stitchcuda server", cancellable: true };
    await vscode.window.withProgress(options, async (progress, cancellation) => {
      progress.report({ message: "making the environment" });
      await this.run(python, ["-I", "-m", "venv", this.folder], cancellation);
      progress.report({ message: "pip install" });
      const inside = firstFile([path.join(this.folder, SCRIPTS, "python")]) ?? python;
      await this.run(inside, ["-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input", source], cancellation);
    });
    fs.writeFileSync(this.stamp, this.version);
  }

  /** Rejects with the end of what the program said when it fails. */
  private run(program: string, words: string[], cancellation?: vscode.CancellationToken): Promise<void> {
    this.log.info([program, ...words].join(" "));
    return new Promise((resolve, reject) => {
      const child = spawn(program, words, { cwd: path.dirname(program), stdio: ["ignore", "pipe", "pipe"] });
      let said = "";
      const hear = (part: Buffer) => {
        said = (said + part).slice(-2000);
        this.log.info(`${part}`.trimEnd());
      };
      child.stdout.on("data", hear);
      child.stderr.on("data", hear);
      const asked = cancellation?.onCancellationRequested(() => child.kill());
      child.on("error", reject);
      child.on("close", (code) => {
        asked?.dispose();
        if (cancellation?.isCancellationRequested) {
          reject(new vscode.CancellationError());
        } else if (code === 0) {
          resolve();
        } else {
          reject(new Error(said.trim().split("\n").pop() || `${path.basename(program)} ended with ${code}`));
        }
      });
    });
  }
}
