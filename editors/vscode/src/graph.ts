// The execution graph of a file in a web view. The page is the server's; it brings its own content security policy and needs a nonce.
import { randomBytes } from "node:crypto";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Session } from "./session";
import { sourceUri } from "./source";

const NONCE = /__STITCHCUDA_NONCE__/g; // analysis/graph/to_html.py
const PAUSE = 600; // milliseconds after the last keystroke

export class GraphViews implements vscode.Disposable {
  private readonly views = new Map<string, GraphView>();
  private readonly listening: vscode.Disposable;

  constructor(private readonly session: Session) {
    const of = (document: vscode.TextDocument) => document.uri.scheme === "file" && this.views.size > 0;
    this.listening = vscode.Disposable.from(
      vscode.workspace.onDidChangeTextDocument((change) => of(change.document) && change.contentChanges.length > 0 && this.refresh(PAUSE)),
      vscode.workspace.onDidSaveTextDocument((document) => of(document) && this.refresh(0)),
      vscode.window.onDidChangeTextEditorSelection((change) => this.reveal(change.textEditor)),
      session.onDidChange(() => session.running && this.refresh(PAUSE)),
    );
  }

  dispose(): void {
    this.listening.dispose();
    for (const view of [...this.views.values()]) {
      view.dispose();
    }
  }

  /** Code lenses pass the file and the function; from the command palette it is the file in the active editor. */
  async show(file?: string, name = ""): Promise<void> {
    const uri = file ?? sourceUri();
    if (!uri || !this.session.running) {
      void vscode.window.showInformationMessage(uri ? "stitchcuda: the language server does not run." : "stitchcuda: open a CUDA source first.");
      return;
    }
    const page = await this.page(uri, name);
    if (page === undefined) {
      void vscode.window.showInformationMessage("stitchcuda: there is no device work in this file, and so no execution graph.");
      return;
    }
    const title = `Execution graph: ${nameOf(uri)}`;
    const view = this.views.get(uri) ?? new GraphView(title, (next) => this.page(uri, next), () => this.views.delete(uri));
    this.views.set(uri, view);
    view.show(page, name);
  }

  /** The versions before and after the newest run of *Stitch* on the program of the active file. They stay what they are. */
  async showChange(): Promise<void> {
    const uri = sourceUri();
    if (uri === undefined) {
      void vscode.window.showInformationMessage("stitchcuda: open a file of the stitched program first.");
      return;
    }
    try {
      const { page, folder } = (await this.session.command("stitchcuda.runGraph", uri)) as { page: string; folder: string };
      new GraphView(`Before and after: ${nameOf(uri)}`, async () => undefined, () => undefined, folder).show(page, "");
    } catch (error) {
      void vscode.window.showInformationMessage(`stitchcuda: ${error instanceof Error ? error.message : error}`);
    }
  }

  private async page(uri: string, name: string): Promise<string | undefined> {
    const page = await this.session.command("stitchcuda.graphText", uri, name, "html");
    return typeof page === "string" ? page : undefined;
  }

  private refresh(pause: number): void {
    for (const view of this.views.values()) {
      view.refreshAfter(pause);
    }
  }

  private reveal(editor: vscode.TextEditor): void {
    for (const view of this.views.values()) {
      view.reveal(editor.document.uri.fsPath, editor.selection.active.line + 1);
    }
  }
}

function nameOf(uri: string): string {
  return path.posix.basename(vscode.Uri.parse(uri).path);
}

class GraphView {
  private readonly panel: vscode.WebviewPanel;
  private name = "";
  private shown = "";
  private stale = false; // changed while nobody could see it
  private timer: NodeJS.Timeout | undefined;

  constructor(
    title: string,
    private readonly page: (name: string) => Promise<string | undefined>,
    closed: () => void,
    private readonly folder = "", // of relative paths in the page
  ) {
    const place = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true };
    this.panel = vscode.window.createWebviewPanel("stitchcuda.graph", title, place, { enableScripts: true, localResourceRoots: [] });
    this.panel.webview.onDidReceiveMessage((message: unknown) => this.open(message));
    this.panel.onDidChangeViewState(() => this.panel.visible && this.stale && this.refreshAfter(0));
    this.panel.onDidDispose(() => {
      clearTimeout(this.timer);
      closed();
    });
  }

  dispose(): void {
    this.panel.dispose();
  }

  show(page: string, name: string): void {
    this.name = name;
    this.put(page);
    this.panel.reveal(undefined, true);
  }

  refreshAfter(pause: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.refresh(), pause);
  }

  reveal(file: string, line: number): void {
    if (this.panel.visible) {
      void this.panel.webview.postMessage({ command: "reveal", path: file, line });
    }
  }

  private async refresh(): Promise<void> {
    this.stale = !this.panel.visible;
    if (this.stale) {
      return;
    }
    const page = await this.page(this.name).catch(() => undefined);
    if (page !== undefined) {
      this.put(page); // what is there no more, as in the middle of an edit, leaves the last graph
    }
  }

  private put(page: string): void {
    if (page !== this.shown) {
      this.shown = page;
      this.panel.webview.html = page.replace(NONCE, randomBytes(16).toString("hex"));
    }
  }

  /** A click on an operation: its source, in a group of editors that does not hide the graph. */
  private async open(message: unknown): Promise<void> {
    const { command, path: named, line, column } = (message ?? {}) as Record<string, unknown>;
    if (command !== "open" || typeof named !== "string" || typeof line !== "number" || typeof column !== "number") {
      return;
    }
    const file = path.resolve(this.folder, named);
    const here = vscode.window.visibleTextEditors.find((editor) => editor.document.uri.fsPath === file)?.viewColumn;
    const other = this.panel.viewColumn === vscode.ViewColumn.One ? vscode.ViewColumn.Two : vscode.ViewColumn.One;
    const at = new vscode.Position(Math.max(line - 1, 0), Math.max(column - 1, 0));
    try {
      await vscode.window.showTextDocument(vscode.Uri.file(file), { viewColumn: here ?? other, selection: new vscode.Range(at, at) });
    } catch (error) {
      void vscode.window.showErrorMessage(`stitchcuda: ${error instanceof Error ? error.message : error}`);
    }
  }
}
