-- Drives Neovim through one session: findings in place, fix, undo, and a clean buffer after the fix.
local driving = dofile(vim.fs.joinpath(vim.fs.dirname(arg[0]), "driving.lua"))
local steps, wait_for, text, as_list = driving.steps, driving.wait_for, driving.text, driving.as_list

local function diagnostics()
  local found = {}
  for _, d in ipairs(vim.diagnostic.get(0)) do
    table.insert(found, { code = d.code, source = d.source, lnum = d.lnum, col = d.col, end_col = d.end_col })
  end
  return as_list(found)
end

driving.run(function()
  local client = driving.open({ diagnosticsDelay = 0 })
  wait_for("the first finding", function() return #vim.diagnostic.get(0) == 1 end)
  steps.encoding = client.offset_encoding
  steps.opened = diagnostics()
  local seen = {}
  for _, d in ipairs(vim.diagnostic.get(0)) do
    seen[d.namespace] = true
  end
  steps.namespaces = vim.tbl_count(seen)

  local where = vim.diagnostic.get(0)[1]
  vim.api.nvim_win_set_cursor(0, { where.lnum + 1, where.col + 1 })
  local position = vim.lsp.util.make_position_params(0, client.offset_encoding)
  local hover = client:request_sync("textDocument/hover", position, 5000, 0)
  steps.hover = hover.result.contents.value
  local params = { textDocument = vim.lsp.util.make_text_document_params() }
  local lenses = client:request_sync("textDocument/codeLens", params, 5000, 0)
  steps.lenses = vim.tbl_map(function(lens) return lens.command.title end, lenses.result)

  vim.lsp.buf.code_action({
    context = { only = { "quickfix" } },
    filter = function(action) return action.isPreferred end,
    apply = true,
  })
  wait_for("the fix", function() return text():find("cudaStreamWaitEvent") ~= nil end)
  wait_for("the finding to go", function() return #vim.diagnostic.get(0) == 0 end)
  steps.fixed = diagnostics()
  steps.fixed_text = text()

  vim.cmd("silent undo")
  wait_for("the finding to come back", function() return #vim.diagnostic.get(0) == 1 end)
  steps.undone = diagnostics()
  steps.undone_text = text()

  vim.api.nvim_buf_set_lines(0, 0, -1, false, { "int nothing;" })
  wait_for("everything to be taken back", function() return #vim.diagnostic.get(0) == 0 end)
  steps.cleared = diagnostics()
  driving.close(client)
end)
