// Puts the parts together and registers the commands. All that is not start, trust, progress or view is the server's.
import * as vscode from "vscode";
import { explain, suppress } from "./findings";
import { GraphViews } from "./graph";
import { Installation } from "./installing";
import { JobNotifications } from "./jobs";
import { showMachine } from "./machine";
import { environment, setModelKey } from "./modelKey";
import { Programs } from "./programs";
import { findServer } from "./server";
import { Session } from "./session";
import { isCuda } from "./source";
import { StatusBar } from "./statusBar";

let session: Session | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel("stitchcuda", { log: true });
  const jobs = new JobNotifications((token) => void running.cancel(token));
  const running: Session = new Session(
    log,
    jobs,
    () => findServer(installation.programs),
    () => environment(context.secrets),
    offerServer,
  );
  session = running;
  const installation = new Installation(context, log, () => running.end(), () => running.restart());
  const graphs = new GraphViews(running);
  const statusBar = new StatusBar(running);
  const programs = new Programs(running);
  context.subscriptions.push(
    log,
    running,
    graphs,
    statusBar,
    vscode.commands.registerCommand("stitchcuda.restart", () => running.restart()),
    vscode.commands.registerCommand("stitchcuda.installServer", () => installation.install()),
    vscode.commands.registerCommand("stitchcuda.showLog", () => log.show()),
    vscode.commands.registerCommand("stitchcuda.showMachine", () => showMachine(findServer(installation.programs), log)),
    vscode.commands.registerCommand("stitchcuda.showMenu", () => statusBar.showMenu()),
    vscode.commands.registerCommand("stitchcuda.showGraph", (uri?: unknown, name?: unknown) =>
      graphs.show(typeof uri === "string" ? uri : undefined, typeof name === "string" ? name : undefined),
    ),
    vscode.commands.registerCommand("stitchcuda.showMeasured", (uri?: unknown, run?: unknown) =>
      graphs.showMeasured(typeof uri === "string" ? uri : undefined, typeof run === "string" ? run : undefined),
    ),
    vscode.commands.registerCommand("stitchcuda.showChange", () => graphs.showChange()),
    vscode.commands.registerCommand("stitchcuda.stitchProgram", () => programs.stitch()),
    vscode.commands.registerCommand("stitchcuda.rewriteProgram", () => programs.rewrite()),
    vscode.commands.registerCommand("stitchcuda.validateProgram", () => programs.validate()),
    vscode.commands.registerCommand("stitchcuda.explainFinding", explain),
    vscode.commands.registerCommand("stitchcuda.suppressFinding", suppress),
    vscode.commands.registerCommand("stitchcuda.setModelKey", async () => {
      if (await setModelKey(context.secrets)) {
        await running.restart();
      }
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(() => running.restart()),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("stitchcuda.server.path")) {
        void running.restart();
      }
    }),
  );
  await running.restart();
  void installation.offerUpdate();
}

export function deactivate(): Promise<void> | undefined {
  return session?.end();
}

/** The server is not there: says how it comes, where that matters. Nobody waits for the answer. */
function offerServer(wanted: string): void {
  if (!vscode.workspace.textDocuments.some(isCuda)) {
    return; // a C or Python file alone is no reason to interrupt anybody
  }
  const install = "Install It";
  const settings = "Open the Setting";
  const text = `stitchcuda: the language server is not installed: there is no command ${wanted}.`;
  void vscode.window.showErrorMessage(text, install, settings).then((answer) => {
    if (answer === install) {
      void vscode.commands.executeCommand("stitchcuda.installServer");
    } else if (answer === settings) {
      void vscode.commands.executeCommand("workbench.action.openSettings", "stitchcuda.server.path");
    }
  });
}
