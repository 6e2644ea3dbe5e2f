// The execution graph of a file in a web view. The page is the server's; it brings its own content security policy and needs a nonce.
import { randomBytes } from "node:crypto";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Session } from "./session";
import { sourceUri } from "./source";

const TYPE = "stitchcuda.graph";
const NONCE = /__STITCHCUDA_NONCE__/g; // analysis/graph/to_html.py
const SUBJECT = 'data-subject="" data-scale=""'; // analysis/graph/page/page.html
const PAUSE = 600; // milliseconds after the last keystroke
const NEWEST = "run"; // server/traced.py
const NO_WORK = "there is no device work in this file, and so no execution graph.";

/** What a view is about. The page keeps it in its state, from which VS Code gives it back after the window was closed. */
interface Subject {
  readonly uri: string;
  readonly name: string; // of a function, "" for the whole program
  readonly run?: string; // before and after this run of *Stitch*
  readonly trace?: string; // a measured run: a file, or NEWEST
}

export class GraphViews implements vscode.Disposable, vscode.WebviewPanelSerializer {
  private readonly views = new Set<GraphView>();
  private readonly listening: vscode.Disposable;

  constructor(private readonly session: Session) {
    const of = (document: vscode.TextDocument) => document.uri.scheme === "file" && this.views.size > 0;
    this.listening = vscode.Disposable.from(
      vscode.workspace.onDidChangeTextDocument((change) => of(change.document) && change.contentChanges.length > 0 && this.refresh(PAUSE)),
      vscode.workspace.onDidSaveTextDocument((document) => of(document) && this.refresh(0)),
      vscode.window.onDidChangeTextEditorSelection((change) => this.reveal(change.textEditor)),
      vscode.window.registerWebviewPanelSerializer(TYPE, this),
      session.onDidChange(() => session.running && this.refresh(PAUSE)),
    );
  }

  dispose(): void {
    this.listening.dispose();
    for (const view of [...this.views]) {
      view.dispose();
    }
  }

  /** Code lenses pass the file and the function; from the command palette it is the file in the active editor. */
  async show(file?: string, name = ""): Promise<void> {
    const uri = file ?? sourceUri();
    if (uri === undefined) {
      void vscode.window.showInformationMessage("stitchcuda: open a CUDA source first.");
    } else {
      await this.showAbout({ uri, name }, `Execution graph: ${nameOf(uri)}`);
    }
  }

  /** With the run that the newest *Stitch* measured, or one that `stitchcuda trace` wrote; asks for it unless it is passed. */
  async showMeasured(file?: string, run?: string): Promise<void> {
    const uri = file ?? sourceUri();
    if (uri === undefined) {
      void vscode.window.showInformationMessage("stitchcuda: open a CUDA source first.");
      return;
    }
    const trace = run ?? (await askForRun());
    if (trace !== undefined) {
      await this.showAbout({ uri, name: "", trace }, `Measured run: ${nameOf(uri)}`);
    }
  }

  /** The versions before and after the newest run of *Stitch* on the program of the active file. They stay what they are. */
  async showChange(): Promise<void> {
    const uri = sourceUri();
    if (uri === undefined) {
      void vscode.window.showInformationMessage("stitchcuda: open a file of the stitched program first.");
      return;
    }
    try {
      const { page, folder, run } = await runGraph(this.session, uri);
      const subject = { uri, name: "", run };
      this.open(`Before and after: ${nameOf(uri)}`, subject).show(subject, page, folder);
    } catch (error) {
      void vscode.window.showInformationMessage(`stitchcuda: ${error instanceof Error ? error.message : error}`);
    }
  }

  private async showAbout(subject: Subject, title: string): Promise<void> {
    try {
      const page = await pageOf(this.session, subject);
      if (page === undefined) {
        void vscode.window.showInformationMessage(`stitchcuda: ${NO_WORK}`);
        return;
      }
      const { uri, trace } = subject;
      const known = [...this.views].find(({ subject: its }) => its.uri === uri && its.run === undefined && its.trace === trace);
      (known ?? this.open(title, subject)).show(subject, page);
    } catch (error) {
      void vscode.window.showInformationMessage(`stitchcuda: ${error instanceof Error ? error.message : error}`);
    }
  }

  /** A view that was open when the window was closed. It is filled as soon as the server runs. */
  async deserializeWebviewPanel(panel: vscode.WebviewPanel, state: unknown): Promise<void> {
    const subject = subjectIn(state);
    if (subject === undefined) {
      panel.dispose();
      return;
    }
    panel.webview.options = OPTIONS;
    await this.add(panel, subject).fill();
  }

  private open(title: string, subject: Subject): GraphView {
    const place = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true };
    return this.add(vscode.window.createWebviewPanel(TYPE, title, place, OPTIONS), subject);
  }

  private add(panel: vscode.WebviewPanel, subject: Subject): GraphView {
    const view: GraphView = new GraphView(panel, subject, this.session, () => this.views.delete(view));
    this.views.add(view);
    return view;
  }

  private refresh(pause: number): void {
    for (const view of this.views) {
      view.refreshAfter(pause);
    }
  }

  private reveal(editor: vscode.TextEditor): void {
    for (const view of this.views) {
      view.reveal(editor.document.uri.fsPath, editor.selection.active.line + 1);
    }
  }
}

const OPTIONS = { enableScripts: true, localResourceRoots: [] };

function nameOf(uri: string): string {
  return path.posix.basename(vscode.Uri.parse(uri).path);
}

async function askForRun(): Promise<string | undefined> {
  const stitch = { label: "The Newest Run of Stitch", description: "on this program, where it could be run" };
  const file = { label: "A File...", description: "that stitchcuda trace --format json wrote" };
  const chosen = await vscode.window.showQuickPick([stitch, file], { title: "Which Measured Run?" });
  if (chosen !== file) {
    return chosen && NEWEST;
  }
  const [named] = (await vscode.window.showOpenDialog({ title: "A Measured Run", filters: { JSON: ["json"] } })) ?? [];
  return named?.fsPath;
}

async function pageOf(session: Session, { uri, name, trace }: Subject): Promise<string | undefined> {
  const page = await session.command("stitchcuda.graphText", uri, name, "html", false, ...(trace ? [trace] : []));
  return typeof page === "string" ? page : undefined;
}

/** `folder` is where the page's relative paths count from. */
async function runGraph(session: Session, uri: string, run = ""): Promise<{ page: string; folder: string; run: string }> {
  const answer = (await session.command("stitchcuda.runGraph", uri, run)) as { page: string; folder: string; run?: string };
  return { ...answer, run: answer.run ?? run }; // an older server does not name it
}

function subjectIn(state: unknown): Subject | undefined {
  try {
    const { uri, name, run, trace } = JSON.parse((state as { subject: string }).subject) as Record<string, unknown>;
    const optional = (value: unknown): value is string | undefined => value === undefined || typeof value === "string";
    return typeof uri === "string" && typeof name === "string" && optional(run) && optional(trace) ? { uri, name, run, trace } : undefined;
  } catch {
    return undefined;
  }
}

class GraphView {
  private shown = "";
  private folder = "";
  private stale = false; // changed while nobody could see it
  private closed = false; // what arrives later has no place
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly panel: vscode.WebviewPanel,
    public subject: Subject,
    private readonly session: Session,
    closed: () => void,
  ) {
    this.panel.webview.onDidReceiveMessage((message: unknown) => this.open(message));
    this.panel.onDidChangeViewState(() => this.panel.visible && this.stale && this.refreshAfter(0));
    this.panel.onDidDispose(() => {
      this.closed = true;
      clearTimeout(this.timer);
      closed();
    });
  }

  dispose(): void {
    this.panel.dispose();
  }

  show(subject: Subject, page: string, folder = ""): void {
    this.subject = subject;
    this.folder = folder;
    this.put(page);
    this.panel.reveal(undefined, true);
  }

  /** For a view without a page: shows one, or why there is none. */
  async fill(): Promise<void> {
    if (!this.session.running) {
      this.say("The execution graph comes when the language server runs.");
      return;
    }
    const { uri, run } = this.subject;
    try {
      await vscode.workspace.openTextDocument(vscode.Uri.parse(uri)); // the server knows what is open
      if (run !== undefined) {
        const { page, folder } = await runGraph(this.session, uri, run);
        this.folder = folder;
        this.put(page);
        return;
      }
      const page = await pageOf(this.session, this.subject);
      if (page === undefined) {
        this.say(NO_WORK);
      } else {
        this.put(page);
      }
    } catch (error) {
      this.say(error instanceof Error ? error.message : `${error}`);
    }
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
    if (this.stale || (this.shown && this.subject.run !== undefined)) {
      return;
    }
    if (!this.shown) {
      await this.fill();
      return;
    }
    const page = await pageOf(this.session, this.subject).catch(() => undefined);
    if (page !== undefined) {
      this.put(page); // what is there no more, as in the middle of an edit, leaves the last graph
    }
  }

  private put(page: string): void {
    if (page !== this.shown && !this.closed) {
      this.shown = page;
      const subject = JSON.stringify(this.subject).replace(/[^\w{}:,./ -]/gu, (sign) => `&#${sign.codePointAt(0)};`);
      const told = `data-subject="${subject}" data-scale="${this.subject.trace ? "measured" : ""}"`;
      this.panel.webview.html = page.replace(SUBJECT, () => told).replace(NONCE, randomBytes(16).toString("hex"));
    }
  }

  private say(text: string): void {
    if (this.closed) {
      return;
    }
    const safe = text.replace(/[&<>"]/g, (sign) => `&#${sign.codePointAt(0)};`);
    const policy = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'">`;
    this.panel.webview.html = `<!DOCTYPE html><html lang="en"><head>${policy}</head><body><p>stitchcuda: ${safe}</p></body></html>`;
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
