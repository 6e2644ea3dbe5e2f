-- The server's edits: all files of one, or none of them. Neovim itself leaves out the files that were typed in meanwhile and changes the
-- others, and it takes an edit for a file's first version whatever was typed since.
local M = {}
local METHOD = "workspace/applyEdit"

local function changed_since(change, client)
  local document = change.textDocument
  local bufnr = document and vim.uri_to_bufnr(document.uri)
  if document == nil or not client.attached_buffers[bufnr] then
    return false -- not open here: the server has read it from the disk
  end
  -- No version stands for the text that was opened.
  return vim.lsp.util.buf_versions[bufnr] ~= (type(document.version) == "number" and document.version or 0)
end

-- The handler of workspace/applyEdit.
function M.apply(failed, params, context)
  local client = assert(vim.lsp.get_client_by_id(context.client_id))
  for _, change in ipairs(params.edit.documentChanges or {}) do
    if changed_since(change, client) then
      local name = vim.fs.basename(vim.uri_to_fname(change.textDocument.uri))
      return { applied = false, failureReason = name .. " was changed in the editor meanwhile" }
    end
  end
  -- Without the label, which Neovim prints: what the edit is about is said when it has been applied.
  return vim.lsp.handlers[METHOD](failed, { edit = params.edit }, context)
end

return M
