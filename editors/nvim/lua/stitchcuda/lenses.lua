-- Code lenses are asked for by the client; Neovim does so only when it is told to: from 0.12 on once, before that each time.
local M = {}

local function switch(client_id, on) vim.lsp.codelens.enable(on, { client_id = client_id }) end

function M.keep_fresh(wanted)
  local group = vim.api.nvim_create_augroup("stitchcuda.lenses", { clear = true })
  local once = vim.lsp.codelens.enable ~= nil
  if once then
    for _, client in ipairs(vim.lsp.get_clients({ name = "stitchcuda" })) do
      switch(client.id, wanted)
    end
  end
  if not wanted then
    return
  end
  vim.api.nvim_create_autocmd(once and "LspAttach" or { "LspAttach", "BufEnter", "InsertLeave", "TextChanged" }, {
    group = group,
    callback = function(event)
      local client = vim.lsp.get_clients({ bufnr = event.buf, name = "stitchcuda" })[1]
      if client and once then
        switch(client.id, true)
      elseif client then
        vim.lsp.codelens.refresh({ bufnr = event.buf })
      end
    end,
  })
end

return M
