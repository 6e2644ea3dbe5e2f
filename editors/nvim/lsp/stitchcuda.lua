-- What Neovim starts for CUDA sources. Change it with vim.lsp.config("stitchcuda", { ... }).
return {
  cmd = function(dispatchers, config) return require("stitchcuda.server").start(dispatchers, config) end,
  filetypes = { "cuda", "c", "cpp", "python", "toml" }, -- of toml only stitchcuda.toml
  root_markers = { "stitchcuda.toml", "compile_commands.json", ".git" },
  root_dir = function(bufnr, on_dir) require("stitchcuda.server").root_dir(bufnr, on_dir) end,
  before_init = function(params, config) require("stitchcuda.server").before_init(params, config) end,
  on_exit = function(code, signal, id) require("stitchcuda.server").on_exit(code, signal, id) end,
  handlers = {
    ["window/showMessage"] = function(...) require("stitchcuda.messages").from_server(...) end,
    ["window/showMessageRequest"] = function(...) return require("stitchcuda.messages").question(...) end,
    ["workspace/applyEdit"] = function(...) return require("stitchcuda.edits").apply(...) end,
  },
  commands = {
    ["stitchcuda.showGraph"] = function(command)
      require("stitchcuda.graph").open(vim.uri_to_bufnr(command.arguments[1]), command.arguments[2] or "")
    end,
  },
}
