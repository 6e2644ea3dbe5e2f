// Jobs that the user asked for, as notifications that can be cancelled: the client would show them in the status bar, without.
import * as vscode from "vscode";
import type { ProgressToken, WorkDoneProgressBegin, WorkDoneProgressEnd, WorkDoneProgressReport } from "vscode-languageclient";
import type { Job } from "./session";

type Progress = WorkDoneProgressBegin | WorkDoneProgressReport | WorkDoneProgressEnd;

interface Shown {
  percentage: number;
  report: (value: Progress) => void;
  end: () => void;
}

export class JobNotifications {
  private readonly asked = new Set<ProgressToken>();
  private readonly shown = new Map<ProgressToken, Shown>();

  constructor(private readonly cancel: (token: ProgressToken) => void) {}

  /** The running jobs: the server names a job before its progress begins. */
  known(jobs: readonly Job[]): void {
    for (const job of jobs.filter((job) => job.asked)) {
      this.asked.add(job.token);
    }
  }

  /** Takes over the progress of jobs that were asked for; the rest stays with the client. */
  progress(token: ProgressToken, value: Progress, next: () => void): void {
    if (!this.asked.has(token)) {
      next();
    } else if (value.kind === "begin") {
      this.begin(token, value);
    } else if (value.kind === "report") {
      this.shown.get(token)?.report(value);
    } else {
      this.shown.get(token)?.end();
      this.asked.delete(token);
      next(); // the client forgets the token
    }
  }

  /** For when the server is gone: nothing more comes from it. */
  endAll(): void {
    for (const shown of this.shown.values()) {
      shown.end();
    }
    this.asked.clear();
  }

  private begin(token: ProgressToken, first: WorkDoneProgressBegin): void {
    const options = { location: vscode.ProgressLocation.Notification, title: first.title, cancellable: first.cancellable };
    void vscode.window.withProgress(options, (progress, cancellation) => {
      cancellation.onCancellationRequested(() => this.cancel(token));
      return new Promise<void>((resolve) => {
        const shown: Shown = {
          percentage: 0,
          report: (value) => {
            const percentage = "percentage" in value ? (value.percentage ?? shown.percentage) : shown.percentage;
            progress.report({ message: value.message, increment: percentage - shown.percentage });
            shown.percentage = percentage;
          },
          end: () => {
            this.shown.delete(token);
            resolve();
          },
        };
        this.shown.set(token, shown);
        shown.report(first);
      });
    });
  }
}
