-- The server's edits: all files of one, or none of them. Neovim itself looks at the version of an edit's first file only, and not at that
-- when it is the version that was opened.
local M = {}
local METHOD = "workspace/applyEdit"

-- Why a file cannot be changed as the server means it; nil when it can.
local function hindrance(change, client)
  local document = change.textDocument
  local bufnr = document and vim.uri_to_bufnr(document.uri)
  if document == nil then
    return
  end
  local name = vim.fs.basename(vim.uri_to_fname(document.uri))
  if not vim.bo[bufnr].modifiable then
    return name .. " cannot be changed in the editor ('nomodifiable')"
  elseif not vim.api.nvim_buf_is_loaded(bufnr) then
    return
  elseif client.attached_buffers[bufnr] then
    -- No version stands for the text that was opened.
    if vim.lsp.util.buf_versions[bufnr] ~= (type(document.version) == "number" and document.version or 0) then
      return name .. " was changed in the editor meanwhile"
    end
  elseif vim.bo[bufnr].modified then
    return name .. " has text in the editor that is not saved"
  else
    vim.cmd.checktime(bufnr) -- the server has read it from the disk
  end
end

-- The handler of workspace/applyEdit.
function M.apply(failed, params, context)
  local client = assert(vim.lsp.get_client_by_id(context.client_id))
  for _, change in ipairs(params.edit.documentChanges or {}) do
    local reason = hindrance(change, client)
    if reason then
      return { applied = false, failureReason = reason }
    end
  end
  -- Without the label, which Neovim prints: what the edit is about is said when it has been applied.
  return vim.lsp.handlers[METHOD](failed, { edit = params.edit }, context)
end

return M
