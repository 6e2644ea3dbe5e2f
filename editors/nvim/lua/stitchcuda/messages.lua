-- What the user is told, without a "Press ENTER" prompt: jobs end while text is typed, and the prompt takes keys away.
local M = {}

local LEVELS = { vim.log.levels.ERROR, vim.log.levels.WARN, vim.log.levels.INFO, vim.log.levels.DEBUG } -- by MessageType
local AGAIN = 200 -- milliseconds until a message is tried again that must wait for the command line
local STAYS = 5000 -- milliseconds in which progress does not take a message's place
local PAUSE = 1000 -- milliseconds without a key before a question is put
local shown_at, key_at

-- Whether messages go where Neovim puts them; plugins with windows of their own need no help.
local function is_default(notify) return debug.getinfo(notify, "S").source:find("vim/_[%a/]*editor.lua", 1) ~= nil end

-- One line that fits, not kept in :messages.
function M.echo(text)
  text = text:gsub("%s*\n%s*", " ")
  if vim.fn.strdisplaywidth(text) > vim.v.echospace then
    text = vim.fn.strcharpart(text, 0, math.max(vim.v.echospace - 3, 0)) .. "..."
  end
  vim.api.nvim_echo({ { text } }, false, {})
end

local function is_typed_in()
  local mode = vim.api.nvim_get_mode()
  return mode.blocking or mode.mode:match("^[cr]") ~= nil
end

-- Whether the place for messages is needed by something else than progress.
function M.is_taken() return is_typed_in() or (shown_at ~= nil and vim.uv.now() - shown_at < STAYS) end

local function show(text, level)
  if not is_default(vim.notify) or vim.fn.exists("+messagesopt") == 0 then
    return vim.notify(text, level)
  elseif is_typed_in() then
    return vim.defer_fn(function() show(text, level) end, AGAIN)
  end
  local options = vim.o.messagesopt
  vim.o.messagesopt = options:gsub("hit%-enter", "wait:0")
  local ok, failed = pcall(vim.notify, text, level)
  vim.cmd.redraw()
  vim.o.messagesopt = options
  if not ok then
    error(failed, 0)
  end
  M.echo(text)
  shown_at = vim.uv.now()
end

-- Shows a text, the whole of it in :messages. `level` is one of vim.log.levels. Later, since an error message would end the command or
-- the autocommand that gives it.
function M.show(text, level)
  vim.schedule(function() show(text, level) end)
end

-- The handler of window/showMessage. The server's messages begin with its name already.
function M.from_server(_, params)
  local text = vim.trim(params.message)
  M.show(vim.startswith(text, "stitchcuda") and text or "stitchcuda: " .. text, LEVELS[params.type] or vim.log.levels.INFO)
end

-- Whether a question would now get keys that are meant for the text.
local function is_working()
  return vim.api.nvim_get_mode().mode ~= "n" or (key_at ~= nil and vim.uv.hrtime() / 1e6 - key_at < PAUSE)
end

-- From now on it is known when a key was typed.
function M.watch_keys()
  key_at = key_at or 0
  vim.on_key(function() key_at = vim.uv.hrtime() / 1e6 end, vim.api.nvim_create_namespace("stitchcuda.keys"))
end

-- The handler of window/showMessageRequest: Neovim's own, once the user pauses. Its prompt takes keys, and it comes at any time. What is
-- asked is in :messages before and after.
function M.question(failed, params, context)
  M.from_server(failed, params)
  local waiting, is_main = coroutine.running()
  local function is_there() return vim.lsp.get_client_by_id(context.client_id) ~= nil end
  while waiting and not is_main and is_there() and is_working() do
    vim.defer_fn(function() coroutine.resume(waiting) end, AGAIN)
    coroutine.yield()
  end
  if not is_there() then
    return vim.NIL -- who asked has ended
  end
  return vim.lsp.handlers["window/showMessageRequest"](failed, params, context)
end

return M
