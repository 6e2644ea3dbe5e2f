// Shows the execution graph that the server writes as text, in a read-only document.
import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";

const SCHEME = "stitchcuda-graph";

export class GraphView implements vscode.TextDocumentContentProvider {
  private readonly texts = new Map<string, string>();
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changed.event;

  constructor(private readonly client: () => LanguageClient | undefined) {}

  register(): vscode.Disposable {
    return vscode.Disposable.from(
      this.changed,
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
      vscode.workspace.onDidCloseTextDocument((document) => this.texts.delete(document.uri.toString())),
    );
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.texts.get(uri.toString()) ?? "";
  }

  /** Code lenses pass the file and the function; from the command palette it is the file in the active editor. */
  async show(file?: string, name?: string): Promise<void> {
    const uri = file ?? vscode.window.activeTextEditor?.document.uri.toString();
    const client = this.client();
    if (!uri || !client) {
      void vscode.window.showInformationMessage(client ? "Open a CUDA source first." : "The stitchcuda server is not running.");
      return;
    }
    const text: unknown = await client.sendRequest("workspace/executeCommand", {
      command: "stitchcuda.graphText",
      arguments: name ? [uri, name] : [uri],
    });
    if (typeof text !== "string") {
      void vscode.window.showInformationMessage("There is no execution graph for this file.");
      return;
    }
    const title = `${vscode.Uri.parse(uri).path.split("/").pop()}${name ? ` ${name}` : ""} execution graph.txt`;
    const shown = vscode.Uri.from({ scheme: SCHEME, path: `/${title}`, query: uri });
    this.texts.set(shown.toString(), text);
    this.changed.fire(shown);
    const document = await vscode.workspace.openTextDocument(shown);
    await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true });
  }
}
