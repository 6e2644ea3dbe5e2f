-- Switches the server on for the filetypes of lsp/stitchcuda.lua and makes the commands. The rest is loaded when it is used.
if vim.g.loaded_stitchcuda then
  return
end
vim.g.loaded_stitchcuda = true
if vim.fn.has("nvim-0.11") == 0 then
  local is = vim.version()
  local text = ("stitchcuda needs Neovim 0.11 or newer, and this is %d.%d.%d"):format(is.major, is.minor, is.patch)
  vim.api.nvim_echo({ { text, "ErrorMsg" } }, true, {})
  return
end

vim.filetype.add({ extension = { cu = "cuda", cuh = "cuda" } })
require("stitchcuda.commands").create()

local group = vim.api.nvim_create_augroup("stitchcuda", { clear = true })
vim.api.nvim_create_autocmd("LspProgress", {
  group = group,
  callback = function(event) require("stitchcuda.progress").show(event) end,
})
vim.api.nvim_create_autocmd("BufReadCmd", {
  group = group,
  pattern = "stitchcuda-graph://*",
  callback = function(event) require("stitchcuda.graph").read(event.buf) end,
})
vim.lsp.enable("stitchcuda")
