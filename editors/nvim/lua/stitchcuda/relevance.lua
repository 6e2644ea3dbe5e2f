-- Whether a server should be started for a file. Which files it has something to say about is the server's to decide
-- (server/sources.py); this only keeps other C, C++ and Python from starting one, so it lets through whatever the server might want.
local M = {}

M.words = {
  "<<<", "__global__", "cuda", "cublas", "cufft", "cudnn", "curand", "cusparse", "cusolver", "cutensor", "thrust/", "cub/", "nccl",
  "nvrtc", "cooperative_groups", "device_launch_parameters", ".cuh", "cuMem", "cuStream", "cuEvent", "cuLaunch",
}
M.python_words = { "cupy", "torch" }

function M.may_matter(bufnr)
  local filetype = vim.bo[bufnr].filetype
  local ending = vim.api.nvim_buf_get_name(bufnr):lower():match("%.([^./\\]+)$")
  if filetype == "cuda" or ending == "cu" or ending == "cuh" then
    return true
  end
  local text = table.concat(vim.api.nvim_buf_get_lines(bufnr, 0, -1, false), "\n")
  local words = (filetype == "python" or ending == "py") and M.python_words or M.words
  return vim.iter(words):any(function(word) return text:find(word, 1, true) ~= nil end)
end

return M
