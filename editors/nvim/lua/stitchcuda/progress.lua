-- How far the server's jobs are, in the message area and for a status line.
local M = {}

local running = {} -- client id and token -> { title, message, percentage }
local order = {}
local shown = false

local function sentence(job)
  local percentage = job.percentage and job.percentage > 0 and (" %d %%"):format(job.percentage) or ""
  return job.title .. percentage .. (job.message and job.message ~= "" and ": " .. job.message or "")
end

-- The newest job; "" when there is none.
function M.text()
  local newest = running[order[#order]]
  return newest and sentence(newest) or ""
end

local function echo(text)
  local messages = require("stitchcuda.messages")
  if not messages.is_taken() then
    messages.echo(text)
    shown = text ~= ""
  end
end

-- An event LspProgress, of any client.
function M.show(event)
  local client = vim.lsp.get_client_by_id(event.data.client_id)
  if client == nil or client.name ~= "stitchcuda" then
    return
  end
  local key = event.data.client_id .. " " .. event.data.params.token
  local value = event.data.params.value
  if value.kind == "end" then
    running[key] = nil
    order = vim.tbl_filter(function(other) return other ~= key end, order)
  else
    if running[key] == nil then
      table.insert(order, key)
    end
    running[key] = vim.tbl_extend("force", running[key] or {}, value)
  end
  if require("stitchcuda").options.progress then
    local text = M.text()
    if text ~= "" or shown then
      echo(text)
    end
  end
  vim.cmd.redrawstatus()
end

-- A server that ended has no jobs.
function M.forget(client_id)
  for key in pairs(running) do
    if vim.startswith(key, client_id .. " ") then
      running[key] = nil
      order = vim.tbl_filter(function(other) return other ~= key end, order)
    end
  end
end

return M
