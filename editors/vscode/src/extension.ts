// Starts the language server, restarts it when trust or its path changes, and registers the commands. All else is the server's.
import * as vscode from "vscode";
import { LanguageClient, RevealOutputChannelOn, type Executable } from "vscode-languageclient/node";
import { GraphView } from "./graph";
import { findServer } from "./server";

const LANGUAGES = ["cuda", "cuda-cpp", "cpp", "c", "python"];

const MODEL_KEY = "stitchcuda.modelKey";

let client: LanguageClient | undefined;
let secrets: vscode.SecretStorage;
let log: vscode.LogOutputChannel;
let restarting: Promise<void> = Promise.resolve();

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  log = vscode.window.createOutputChannel("stitchcuda", { log: true });
  secrets = context.secrets;
  const graph = new GraphView(() => client);
  context.subscriptions.push(
    log,
    graph.register(),
    vscode.commands.registerCommand("stitchcuda.restart", restart),
    vscode.commands.registerCommand("stitchcuda.showLog", () => log.show()),
    vscode.commands.registerCommand("stitchcuda.showGraph", (uri?: unknown, name?: unknown) =>
      graph.show(typeof uri === "string" ? uri : undefined, typeof name === "string" ? name : undefined),
    ),
    vscode.commands.registerCommand("stitchcuda.stitchProgram", stitch),
    vscode.commands.registerCommand("stitchcuda.setModelKey", setModelKey),
    vscode.commands.registerCommand("stitchcuda.validateProgram", () => runOnProgram("stitchcuda.validate")),
    vscode.workspace.onDidGrantWorkspaceTrust(restart),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("stitchcuda.server.path")) {
        void restart();
      }
    }),
  );
  await restart();
}

export function deactivate(): Promise<void> {
  return stop();
}

/** One restart after the other: two at once would leave a server that nobody stops. */
function restart(): Promise<void> {
  restarting = restarting.then(stop).then(start);
  return restarting;
}

async function stop(): Promise<void> {
  const stopping = client;
  client = undefined;
  try {
    await stopping?.dispose();
  } catch (error) {
    log.warn(`The server did not stop cleanly: ${error}`);
  }
}

async function start(): Promise<void> {
  const { wanted, command } = findServer();
  if (command === undefined) {
    log.error(`${wanted} was not found`);
    if (vscode.workspace.textDocuments.some((document) => document.languageId.startsWith("cuda"))) {
      void offerHelp(wanted); // without await: a restart must not wait until the message is answered
    } // a C or Python file alone is no reason to interrupt anybody
    return;
  }
  // In the environment rather than in a request: requests are written to the log when they are traced.
  const key = vscode.workspace.isTrusted ? await secrets.get(MODEL_KEY) : undefined;
  const options = key ? { env: { ...process.env, STITCHCUDA_LLM_KEY: key } } : undefined;
  const server: Executable = { command, args: ["lsp", "--stdio"], options };
  const starting = new LanguageClient("stitchcuda", "stitchcuda", server, {
    documentSelector: LANGUAGES.map((language) => ({ scheme: "file", language })),
    initializationOptions: { commands: ["stitchcuda.showGraph"], trusted: vscode.workspace.isTrusted },
    outputChannel: log,
    revealOutputChannelOn: RevealOutputChannelOn.Never,
  });
  log.info(`Starting ${command}`);
  try {
    await starting.start();
    client = starting;
  } catch (error) {
    log.error(`${command} did not start: ${error}`); // the client has told the user
  }
}

async function stitch(): Promise<void> {
  const intent = await vscode.window.showInputBox({
    title: "Stitch end-to-end",
    prompt: "What is to be reached, in words. Empty: what stitchcuda.toml says, else simply faster",
    placeHolder: "p99 latency under 8 ms",
  });
  if (intent !== undefined) {
    await runOnProgram("stitchcuda.stitch", intent);
  }
}

async function setModelKey(): Promise<void> {
  const key = await vscode.window.showInputBox({
    title: "Key of the Language Model",
    prompt: "Kept in the secret storage of VS Code, for trusted workspaces. Empty: the key is forgotten",
    password: true,
    ignoreFocusOut: true,
  });
  if (key !== undefined) {
    await (key ? secrets.store(MODEL_KEY, key) : secrets.delete(MODEL_KEY));
    await restart();
  }
}

/** Starts a job of the server about the program that the active file belongs to; progress and result are the server's. */
async function runOnProgram(command: string, ...rest: string[]): Promise<void> {
  const uri = vscode.window.activeTextEditor?.document.uri.toString();
  if (client === undefined || uri === undefined) {
    void vscode.window.showInformationMessage("stitchcuda: open a file of the program first");
    return;
  }
  try {
    await client.sendRequest("workspace/executeCommand", { command, arguments: [uri, ...rest] });
  } catch (error) {
    void vscode.window.showErrorMessage(`stitchcuda: ${error instanceof Error ? error.message : error}`);
  }
}

async function offerHelp(wanted: string): Promise<void> {
  const settings = "Open the Setting";
  const answer = await vscode.window.showErrorMessage(
    `The command ${wanted} was not found. Install it with "pip install stitchcuda", or set stitchcuda.server.path.`,
    settings,
  );
  if (answer === settings) {
    await vscode.commands.executeCommand("workbench.action.openSettings", "stitchcuda.server.path");
  }
}
