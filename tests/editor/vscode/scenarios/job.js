// Starts a job by a command of the server and waits for its end, if that is wanted.
"use strict";
const { until } = require("./waiting");

exports.run = async (vscode, { command, given, job, wait = true, seconds = 90 }) => {
  await until("the server", async () => ((await vscode.commands.getCommands()).includes("stitchcuda.status") ? true : undefined));
  const id = job ?? (await vscode.commands.executeCommand(command, ...given)).job;
  if (!wait) {
    return { id };
  }
  const ended = await until(
    `the end of ${id}`,
    async () => (await vscode.commands.executeCommand("stitchcuda.status")).jobs.find((j) => j.id === id && j.state !== "running"),
    seconds,
  );
  return ended;
};
