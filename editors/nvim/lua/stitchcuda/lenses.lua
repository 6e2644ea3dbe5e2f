-- Code lenses are asked for by the client; Neovim does so only when it is told to.
local M = {}

function M.keep_fresh(wanted)
  local group = vim.api.nvim_create_augroup("stitchcuda.lenses", { clear = true })
  if not wanted then
    return
  end
  vim.api.nvim_create_autocmd({ "LspAttach", "BufEnter", "InsertLeave", "TextChanged" }, {
    group = group,
    callback = function(event)
      if #vim.lsp.get_clients({ bufnr = event.buf, name = "stitchcuda" }) > 0 then
        vim.lsp.codelens.refresh({ bufnr = event.buf })
      end
    end,
  })
end

return M
