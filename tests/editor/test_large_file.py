"""A file of 20,000 lines in a real Neovim: findings are right, and typing stays responsive."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.editor.neovim import neovim

pytestmark = pytest.mark.editor
LINES = 20_000
RACES = (7, 250, 400)  # functions whose second launch is on another stream
SECONDS = 120.0


def function(number: int) -> str:
    """24 lines of host code and a kernel; one function in a hundred has a race."""
    stream = "b" if number in RACES else "a"
    steps = "".join(f"    total += {number} * {i};\n" for i in range(10))
    return f"""\
__global__ void kernel_{number}(float *x, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * {number}.0f + 1.0f;
}}

void run_{number}(float *host, int n) {{
    int total = 0;
{steps}    float *x;
    cudaMalloc(&x, n * sizeof(float));
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaMemsetAsync(x, 0, n * sizeof(float), a);
    kernel_{number}<<<(n + 255) / 256, 256, 0, {stream}>>>(x, n);
    cudaStreamSynchronize(a);
    cudaStreamSynchronize(b);
    cudaMemcpy(host, x, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(x);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
}}

"""


def large() -> str:
    head = "#include <cuda_runtime.h>\n\n"
    each = function(0).count("\n")
    count = LINES // each
    calls = "".join(f"    run_{i}(host, n);\n" for i in range(count))
    text = head + "".join(map(function, range(count)))
    rest = f"int main() {{\n    static float host[1024];\n    const int n = 1024;\n{calls}}}\n"
    filling = LINES - text.count("\n") - rest.count("\n")
    return text + rest + "// end\n" * max(filling, 0)


def test_a6_twenty_thousand_lines(tmp_path: Path) -> None:
    text = large()
    assert text.count("\n") >= LINES
    lines = text.split("\n")
    raced = [next(i for i, line in enumerate(lines) if line.startswith(f"    kernel_{n}<<<")) for n in RACES]
    source = tmp_path / "large.cu"
    source.write_text(text, encoding="utf-8")

    with neovim(
        tmp_path, settings={"diagnosticsDelay": 200, "select": ["stream-race-raw", "stream-race-waw"]}
    ) as editor:
        editor.open(source)

        def places() -> list[int]:
            return sorted({d["lnum"] for d in editor.findings() if d["source"] == "stitchcuda"})

        editor.wait_until(lambda: places() == raced or None, "the findings", SECONDS)

        # A timer that is late says how long Neovim was busy with something else.
        editor.lua(
            """
            _G.lags, _G.last = {}, vim.uv.hrtime()
            _G.timer = vim.uv.new_timer()
            _G.timer:start(10, 10, vim.schedule_wrap(function()
              local now = vim.uv.hrtime()
              table.insert(_G.lags, (now - _G.last) / 1e6)
              _G.last = now
            end))
            """
        )
        editor.cursor(3)
        editor.type("O// ")
        typed = "".join(f"{i:04d}" for i in range(60))
        for at in range(0, len(typed), 2):
            editor.type(typed[at : at + 2])
            time.sleep(0.01)
        editor.wait_until(lambda: editor.nvim.current.line == f"// {typed}" or None, "what was typed")
        editor.type("<Esc>")
        lags = sorted(editor.lua("_G.timer:stop() return _G.lags"))
        assert lags[int(0.95 * len(lags))] < 250, lags[-10:]
        editor.wait_until(
            lambda: places() == [line + 1 for line in raced] or None, "the findings one line further", SECONDS
        )

        # What is edited far down is what counts there.
        stream = lines[raced[-1]].replace(", b>>>", ", a>>>")
        editor.lua("vim.api.nvim_buf_set_lines(0, (...), (...) + 1, true, { select(2, ...) })", raced[-1] + 1, stream)
        editor.wait_until(lambda: places() == [line + 1 for line in raced[:-1]] or None, "one finding less", SECONDS)
