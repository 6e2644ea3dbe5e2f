-- The server's edits: all files of one, or none of them. Neovim itself leaves out the files that were typed in meanwhile and changes the
-- others, and it takes an edit for a file's first version whatever was typed since.
local M = {}
local METHOD = "workspace/applyEdit"

local function changed_since(change)
  local document = change.textDocument
  if document == nil or type(document.version) ~= "number" then
    return false -- not open here: the server has read it from the disk
  end
  local bufnr = vim.uri_to_bufnr(document.uri)
  return vim.api.nvim_buf_is_loaded(bufnr) and vim.lsp.util.buf_versions[bufnr] ~= document.version
end

-- The handler of workspace/applyEdit.
function M.apply(failed, params, context)
  for _, change in ipairs(params.edit.documentChanges or {}) do
    if changed_since(change) then
      local name = vim.fs.basename(vim.uri_to_fname(change.textDocument.uri))
      return { applied = false, failureReason = name .. " was changed in the editor meanwhile" }
    end
  end
  return vim.lsp.handlers[METHOD](failed, params, context)
end

return M
