-- *Stitch end-to-end* as a code action: buffers change as the run says, files do not, and undo restores each buffer. Then once more
-- by the command of docs/editors.md.
local driving = dofile(vim.fs.joinpath(vim.fs.dirname(arg[0]), "driving.lua"))
local steps, wait_for = driving.steps, driving.wait_for

local function texts()
  local found = {}
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_is_loaded(buffer) and vim.api.nvim_buf_get_name(buffer) ~= "" then
      found[vim.fs.basename(vim.api.nvim_buf_get_name(buffer))] = driving.text(buffer)
    end
  end
  return found
end

driving.run(function()
  steps.messages = {}
  vim.lsp.handlers["window/showMessage"] = function(_, params) table.insert(steps.messages, params.message) end
  local apply = vim.lsp.handlers["workspace/applyEdit"]
  steps.labels = {}
  vim.lsp.handlers["workspace/applyEdit"] = function(failed, params, context)
    table.insert(steps.labels, params.label)
    return apply(failed, params, context)
  end
  local client = driving.open({ diagnosticsDelay = 0 })
  vim.lsp.buf.code_action({
    context = { only = { "refactor.rewrite.stitchcuda" } },
    filter = function(action)
      steps.title = action.title
      return true
    end,
    apply = true,
  })
  wait_for("the run", function() return #steps.messages > 0 end)
  steps.stitched = texts()
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if vim.bo[buffer].modified then
      vim.api.nvim_buf_call(buffer, function() vim.cmd("silent undo") end)
    end
  end
  steps.undone = texts()

  dofile(vim.fs.joinpath(vim.fs.dirname(arg[2]), "commands.lua"))
  vim.cmd("Stitch latency below 8 ms")
  wait_for("the second run", function() return #steps.messages > 1 end)
  steps.again = texts()
  driving.close(client)
end)
