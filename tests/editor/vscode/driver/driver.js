// Runs scenarios inside VS Code: POST {"scenario": FILE, "given": ...} calls the file's `run(vscode, given)` and answers with what it
// returns. The port is written to $STITCHCUDA_DRIVER/NAME, NAME being the workspace folder's.
"use strict";
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");
const vscode = require("vscode");

exports.activate = (context) => {
  const server = http.createServer(async (request, response) => {
    let answer;
    try {
      let body = "";
      for await (const part of request) {
        body += part;
      }
      const { scenario, given } = JSON.parse(body);
      delete require.cache[require.resolve(scenario)];
      answer = { value: (await require(scenario).run(vscode, given)) ?? null };
    } catch (error) {
      answer = { error: (error && error.stack) || `${error}` };
    }
    response.end(JSON.stringify(answer));
  });
  server.listen(0, "127.0.0.1", () => {
    const file = path.join(process.env.STITCHCUDA_DRIVER, path.basename(vscode.workspace.workspaceFolders[0].uri.fsPath));
    fs.writeFileSync(`${file}.new`, String(server.address().port));
    fs.renameSync(`${file}.new`, file);
  });
  context.subscriptions.push({ dispose: () => server.close() });
};
