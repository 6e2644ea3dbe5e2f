// One item: whether the server runs, the GPU, and what is being done. A click shows what can be done.
import * as vscode from "vscode";
import type { Session } from "./session";
import { isCuda } from "./source";

interface Choice extends vscode.QuickPickItem {
  readonly does: () => unknown;
}

export class StatusBar implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem("stitchcuda.status", vscode.StatusBarAlignment.Left, 0);
  private readonly listening: vscode.Disposable;

  constructor(private readonly session: Session) {
    this.item.name = "stitchcuda";
    this.item.command = "stitchcuda.showMenu";
    this.listening = vscode.Disposable.from(
      session.onDidChange(() => this.update()),
      vscode.workspace.onDidOpenTextDocument(() => this.update()),
      vscode.workspace.onDidCloseTextDocument(() => this.update()),
    );
    this.update();
  }

  dispose(): void {
    this.listening.dispose();
    this.item.dispose();
  }

  /** What the item shows: icon and words, and the sentences of its tooltip. */
  describe(): { text: string; lines: string[]; wrong: boolean } {
    const { state, status } = this.session;
    if (state !== "running") {
      const words = { stopped: "stopped", missing: "not installed", starting: "starting", failed: "not running" }[state];
      const icon = state === "starting" ? "$(loading~spin)" : "$(circuit-board)";
      return { text: `${icon} stitchcuda: ${words}`, lines: [`The language server is ${words}.`], wrong: state === "missing" || state === "failed" };
    }
    const jobs = status?.jobs ?? [];
    const lines = [`stitchcuda ${status?.version ?? ""}`.trim()];
    if (status?.unavailable) {
      lines.push(`Programs are not run: ${status.unavailable}`);
    } else if (status?.gpu) {
      lines.push(`GPU: ${status.gpu}`);
    }
    lines.push(...jobs.map((job) => `Running: ${job.title}`));
    const idle = !status?.trusted && status ? "not trusted" : status?.gpu ?? "";
    const words = jobs.length > 1 ? `${jobs.length} jobs` : (jobs[0]?.title ?? (idle || (status && status.gpu !== null ? "no GPU" : "")));
    return { text: `${jobs.length > 0 ? "$(sync~spin)" : "$(circuit-board)"} stitchcuda${words ? `: ${words}` : ""}`, lines, wrong: false };
  }

  /** The command `stitchcuda.showMenu`. */
  async showMenu(): Promise<void> {
    const choices: Choice[] = (this.session.status?.jobs ?? []).map((job) => ({
      label: `$(circle-slash) Cancel: ${job.title}`,
      does: () => this.session.cancel(job.token),
    }));
    const offer = (label: string, command: string) => choices.push({ label, does: () => vscode.commands.executeCommand(command) });
    if (this.session.running) {
      offer("$(rocket) Stitch the Program End-to-End", "stitchcuda.stitchProgram");
      offer("$(wand) Rewrite Step by Step", "stitchcuda.rewriteProgram");
      offer("$(check-all) Validate the Program against the Last Commit", "stitchcuda.validateProgram");
      offer("$(type-hierarchy) Show the Execution Graph", "stitchcuda.showGraph");
      offer("$(graph) Show the Execution Graph with a Measured Run", "stitchcuda.showMeasured");
      offer("$(diff) Show the Execution Graph before and after Stitching", "stitchcuda.showChange");
    } else {
      offer("$(cloud-download) Install the Language Server", "stitchcuda.installServer");
    }
    if (this.session.state !== "missing") {
      offer("$(server-environment) Show What This Machine Has", "stitchcuda.showMachine");
    }
    offer("$(debug-restart) Restart the Language Server", "stitchcuda.restart");
    offer("$(output) Show the Log", "stitchcuda.showLog");
    const [title, ...more] = this.describe().lines;
    const chosen = await vscode.window.showQuickPick(choices, { title, placeHolder: more.join("; ") });
    await chosen?.does();
  }

  private update(): void {
    const { text, lines, wrong } = this.describe();
    this.item.text = text;
    this.item.tooltip = lines.join("\n");
    this.item.backgroundColor = wrong ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
    if (vscode.workspace.textDocuments.some(isCuda) || (this.session.status?.jobs.length ?? 0) > 0) {
      this.item.show();
    } else {
      this.item.hide(); // a C or Python file alone is no reason to take room
    }
  }
}
