// The language client: started, stopped, restarted after a crash. Everything else asks it for what the server knows.
import * as vscode from "vscode";
import {
  CloseAction,
  ErrorAction,
  LanguageClient,
  RevealOutputChannelOn,
  ShowMessageNotification,
  State as ClientState,
  type CloseHandlerResult,
  type Executable,
} from "vscode-languageclient/node";
import type { JobNotifications } from "./jobs";
import { showMessage } from "./messages";
import type { Server } from "./server";

const LANGUAGES = ["cuda", "cuda-cpp", "cpp", "c", "python"];
const CRASHES = 4; // as many in MINUTES, and the server is left alone
const MINUTES = 3;
const TOGETHER = 150; // milliseconds

/** `stitchcuda/status` of the server. */
export interface Status {
  readonly version: string;
  readonly trusted: boolean;
  readonly gpu: string | null; // null while it is not known, "" where there is none
  readonly unavailable: string; // why programs are not run, "" when they are
  readonly jobs: readonly Job[];
}

export interface Job {
  readonly id: string;
  readonly title: string;
  readonly token: string;
  readonly asked: boolean;
}

export type State = "stopped" | "missing" | "starting" | "running" | "failed";

export class Session implements vscode.Disposable {
  private client: LanguageClient | undefined;
  private restarting: Promise<void> = Promise.resolve();
  private waiting: Promise<void> | undefined; // the restart that has not begun
  private crashes: number[] = [];
  private readonly changed = new vscode.EventEmitter<void>();
  /** Fires when `state` or `status` is another. */
  readonly onDidChange = this.changed.event;
  state: State = "stopped";
  status: Status | undefined;

  constructor(
    private readonly log: vscode.LogOutputChannel,
    private readonly jobs: JobNotifications,
    private readonly find: () => Server,
    private readonly environment: () => Thenable<Record<string, string>>,
    private readonly missing: (wanted: string) => void,
  ) {}

  dispose(): void {
    this.changed.dispose();
  }

  /**
   * One restart after the other: two at once would leave a server that nobody stops. Reasons that come together, as when trust lets a
   * setting of the workspace count, make one.
   */
  restart(): Promise<void> {
    this.crashes = [];
    this.waiting ??= this.restarting = this.restarting.then(async () => {
      await new Promise((resolve) => setTimeout(resolve, this.client ? TOGETHER : 0));
      this.waiting = undefined;
      await this.stop();
      try {
        await this.start();
      } catch (error) { // told here, or there would be no restart after this one
        this.become("failed");
        this.tell(`The server could not be started: ${error instanceof Error ? error.message : error}`, "Start It");
      }
    });
    return this.waiting;
  }

  /** Stops for good, after a restart that may be on its way. */
  end(): Promise<void> {
    this.restarting = this.restarting.then(() => this.stop());
    return this.restarting;
  }

  get running(): boolean {
    return this.state === "running";
  }

  /** What a command of the server answers. Rejects with the server's words, also where none runs. */
  async command(name: string, ...words: unknown[]): Promise<unknown> {
    if (this.client === undefined || !this.running) {
      throw new Error("the language server does not run");
    }
    return this.client.sendRequest("workspace/executeCommand", { command: name, arguments: words });
  }

  async cancel(token: string | number): Promise<void> {
    await this.client?.sendNotification("window/workDoneProgress/cancel", { token });
  }

  private become(state: State, status?: Status): void {
    this.state = state;
    this.status = status;
    void vscode.commands.executeCommand("setContext", "stitchcuda.running", state === "running");
    this.changed.fire();
  }

  private async stop(): Promise<void> {
    const stopping = this.client;
    this.client = undefined;
    this.jobs.endAll();
    this.become("stopped");
    try {
      await stopping?.dispose();
    } catch (error) {
      this.log.warn(`The server did not stop cleanly: ${error}`);
    }
  }

  private async start(): Promise<void> {
    const { wanted, command } = this.find();
    if (command === undefined) {
      this.log.error(`${wanted} was not found`);
      this.become("missing");
      this.missing(wanted);
      return;
    }
    const options = { env: { ...process.env, ...(await this.environment()) } };
    const server: Executable = { command, args: ["lsp", "--stdio"], options };
    const client: LanguageClient = new LanguageClient("stitchcuda", "stitchcuda", server, {
      documentSelector: [
        ...LANGUAGES.map((language) => ({ scheme: "file", language })),
        { scheme: "file", pattern: "**/stitchcuda.toml" },
      ],
      initializationOptions: { commands: ["stitchcuda.showGraph"], status: true, trusted: vscode.workspace.isTrusted },
      outputChannel: this.log,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      middleware: { handleWorkDoneProgress: (token, value, next) => this.jobs.progress(token, value, () => next(token, value)) },
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue }), // what does not get through is seen when the connection closes
        closed: () => this.closed(),
      },
    });
    client.onNotification("stitchcuda/status", (status: Status) => {
      if (this.client === client) { // else it is ending, and what it says of its jobs is no news
        this.jobs.known(status.jobs);
        this.become("running", status);
      }
    });
    client.onDidChangeState(({ newState }) => {
      // After it ended unexpectedly nobody else looks whether it starts again.
      if (this.client === client && this.state === "starting" && (newState === ClientState.Running || newState === ClientState.StartFailed)) {
        this.become(newState === ClientState.Running ? "running" : "failed");
      }
    });
    client.onNotification(ShowMessageNotification.type, (message) => void showMessage(message, this.status));
    this.log.info(`Starting ${command}`);
    this.become("starting");
    this.client = client;
    try {
      await client.start();
      this.become("running", this.status);
    } catch (error) {
      this.log.error(`${command} did not start: ${error}`); // the client has told the user
      this.become("failed");
    }
  }

  /** The server has gone without being asked to. */
  private closed(): CloseHandlerResult {
    const lost = this.status?.jobs.filter((job) => job.asked).map((job) => job.title) ?? [];
    this.jobs.endAll();
    const now = Date.now();
    this.crashes = [...this.crashes.filter((time) => now - time < MINUTES * 60_000), now];
    const jobs = lost.length > 0 ? ` Not finished: ${lost.join(", ")}.` : "";
    if (this.crashes.length > CRASHES) {
      this.become("failed");
      this.tell(`The server ended unexpectedly ${this.crashes.length} times in ${MINUTES} minutes and is not started again.${jobs}`, "Start It");
      return { action: CloseAction.DoNotRestart, handled: true };
    }
    this.become("starting");
    this.tell(`The server ended unexpectedly and was started again. Your files are as they were.${jobs}`);
    return { action: CloseAction.Restart, handled: true };
  }

  private tell(text: string, start?: string): void {
    const show = "Show the Log";
    this.log.error(text);
    void vscode.window.showErrorMessage(`stitchcuda: ${text}`, ...(start ? [start] : []), show).then((answer) => {
      if (answer === show) {
        this.log.show();
      } else if (answer !== undefined) {
        void this.restart();
      }
    });
  }
}
