// The status of a server that knows of the trust.
"use strict";
const { until } = require("./waiting");

exports.run = (vscode) =>
  until("a trusted server", async () => {
    const status = await vscode.commands.executeCommand("stitchcuda.status").then((s) => s, () => undefined);
    return status && status.trusted ? { trusted: status.trusted } : undefined;
  });
