// The key of the language model: in VS Code's secret storage, for trusted workspaces only.
import * as vscode from "vscode";

const NAME = "stitchcuda.modelKey";

/** The server's variables. In the environment rather than in a request: requests are written to the log when they are traced. */
export async function environment(secrets: vscode.SecretStorage): Promise<Record<string, string>> {
  const key = vscode.workspace.isTrusted ? await secrets.get(NAME) : undefined;
  return key ? { STITCHCUDA_LLM_KEY: key } : {};
}

/** Asks for the key; whether it was given or taken away. */
export async function setModelKey(secrets: vscode.SecretStorage): Promise<boolean> {
  const key = await vscode.window.showInputBox({
    title: "Key of the Language Model",
    prompt: "Kept in the secret storage of VS Code, for trusted workspaces. Empty: the key is forgotten",
    password: true,
    ignoreFocusOut: true,
  });
  if (key === undefined) {
    return false;
  }
  await (key ? secrets.store(NAME, key) : secrets.delete(NAME));
  return true;
}
