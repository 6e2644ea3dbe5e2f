-- The server's process: where its command is, for which buffers it runs, what it is told at the start, and what happens when it ends.
local M = {}
local NAME = "stitchcuda"
local RESTARTS, RESTARTS_WITHIN = 3, 180 -- times, seconds
local SECONDS_TO_END = 3
local SECONDS_TO_ATTACH = 60

local function stitchcuda() return require("stitchcuda") end

-- ------------------------------------------------------------------------------------------------------------ where it is

local function in_environment(root, name)
  for _, folder in ipairs({ "bin", "Scripts" }) do
    local path = vim.fs.joinpath(root, ".venv", folder, name)
    if vim.fn.executable(path) == 1 then
      return path
    end
  end
end

local function on_path(name)
  for _, folder in ipairs(vim.split(vim.env.PATH or "", vim.fn.has("win32") == 1 and ";" or ":")) do
    -- A relative entry would take what the opened folder brings.
    if folder:match("^/") or folder:match("^%a:[/\\]") then
      local path = vim.fs.joinpath(folder, name)
      if vim.fn.executable(path) == 1 then
        return path
      end
    end
  end
end

-- The words of the command without its arguments, or nil, why not, and what to do. `root` is the folder that is opened.
function M.find(root)
  local wanted = stitchcuda().options.server
  if type(wanted) == "table" then
    if vim.fn.executable(wanted[1]) == 0 then
      return nil, ("the option `server` begins with %s, which is no command here"):format(wanted[1])
    end
    return vim.deepcopy(wanted)
  end
  if wanted:find("[/\\~]") then
    local path = vim.fs.normalize(wanted)
    if not (path:match("^/") or path:match("^%a:/")) then
      return nil, ("the option `server` is %s, which is not an absolute path"):format(wanted)
    elseif vim.fn.executable(path) == 0 then
      return nil, ("the option `server` is %s, which is no command"):format(wanted)
    end
    return { path }
  end
  local inside = root and in_environment(root, wanted)
  if inside and require("stitchcuda.trust").of(root) == true then
    return { inside }
  end
  local beside = M.checkout() and in_environment(M.checkout(), wanted)
  local found = on_path(wanted) or beside
  if found then
    return { found }
  elseif inside then
    return nil, ":StitchCudaTrust lets the server in this folder's .venv run", inside .. " is used once you trust the folder"
  end
  local advice = 'Install it with "%s" into the .venv of the checkout or of a folder that you trust, or onto PATH, '
    .. 'or name it: require("stitchcuda").setup({ server = "/path/to/stitchcuda" })'
  return nil, ("the command %s was not found"):format(wanted), advice:format(M.installation())
end

-- The checkout that this plugin is in; nil when it was copied out of it.
function M.checkout()
  local here = debug.getinfo(1, "S").source:sub(2)
  return vim.fs.root(vim.uv.fs_realpath(here) or here, "pyproject.toml")
end

-- The command that installs the server from there.
function M.installation()
  local checkout = M.checkout()
  return "pip install " .. (checkout and vim.fn.shellescape(checkout) or "/path/to/the/checkout")
end

-- All words that start the server for a folder, and whether they are the user's own.
function M.command(root)
  local configured = vim.lsp.config[NAME].cmd
  if type(configured) == "table" then
    return configured, true
  end
  local found, reason, advice = M.find(root)
  if found == nil then
    return nil, reason, advice
  end
  local own = type(stitchcuda().options.server) == "table"
  return own and found or vim.list_extend(found, { "lsp", "--stdio" }), own
end

-- The command line tool itself, with other arguments: what comes before `lsp` in the command.
function M.tool(root, arguments)
  local words, reason = M.command(root)
  if words == nil then
    return nil, reason
  end
  local before = {}
  for _, word in ipairs(words) do
    if word == "lsp" then
      return vim.list_extend(before, arguments)
    end
    table.insert(before, word)
  end
  return nil, "the server's command has no word `lsp`"
end

-- ----------------------------------------------------------------------------------------------------- for which buffers

-- The folder that a buffer's file belongs to.
function M.root_of(bufnr)
  local name = vim.api.nvim_buf_get_name(bufnr)
  if name == "" then
    return vim.fn.getcwd()
  end
  return vim.fs.root(bufnr, vim.lsp.config[NAME].root_markers or {}) or vim.fs.dirname(vim.fs.normalize(name))
end

local told = {} -- folders in which the user knows that there is no server
local waiting = {} -- buffers for which no server was started: { root, on_dir }
local starting -- the folder that was asked for last: the first releases of 0.11 do not say it to `cmd`

local function start_in(root, bufnr, on_dir)
  local command, reason = M.command(root)
  if command then
    starting = root
    on_dir(root)
  elseif vim.bo[bufnr].filetype == "cuda" and not told[root] then -- C or Python alone is no reason to interrupt anybody
    told[root] = true
    stitchcuda().say(reason .. ". :checkhealth stitchcuda says what to do", vim.log.levels.ERROR)
  end
end

local function runs_in(root)
  return vim.iter(vim.lsp.get_clients({ name = NAME })):any(function(client) return client.root_dir == root end)
end

function M.root_dir(bufnr, on_dir)
  if vim.api.nvim_buf_get_name(bufnr):match("^%a[%w+.-]+://") then
    return -- another plugin's view of a file, not a file
  end
  local root = M.root_of(bufnr)
  if vim.bo[bufnr].filetype == "toml" then
    if vim.fs.basename(vim.api.nvim_buf_get_name(bufnr)) == "stitchcuda.toml" then
      start_in(root, bufnr, on_dir)
    end
    return
  end
  local relevance = require("stitchcuda.relevance")
  local group = vim.api.nvim_create_augroup("stitchcuda.waiting", { clear = false })
  vim.api.nvim_clear_autocmds({ group = group, buffer = bufnr })
  waiting[bufnr] = nil
  if runs_in(root) or relevance.may_matter(bufnr) then
    return start_in(root, bufnr, on_dir)
  end
  waiting[bufnr] = { root = root, on_dir = on_dir }
  vim.api.nvim_create_autocmd("BufWritePost", {
    group = group,
    buffer = bufnr,
    callback = function()
      if waiting[bufnr] == nil then
        return true
      elseif relevance.may_matter(bufnr) then
        waiting[bufnr] = nil
        start_in(root, bufnr, on_dir)
        return true -- once
      end
    end,
  })
end

-- A server follows all files of its folder that are open: jobs must know of text that is not saved, in whatever file of a program.
local function let_in(root)
  for bufnr, one in pairs(waiting) do
    if one.root == root then
      waiting[bufnr] = nil
      if vim.api.nvim_buf_is_loaded(bufnr) then
        one.on_dir(root)
      end
    end
  end
end

-- ------------------------------------------------------------------------------------------------------------------ start

function M.start(dispatchers, config)
  config = config or { root_dir = starting }
  local command, reason = M.command(config.root_dir)
  if command == nil then
    error("stitchcuda: " .. reason, 0)
  end
  return vim.lsp.rpc.start(command, dispatchers, {
    cwd = config.cmd_cwd,
    env = config.cmd_env,
    detached = config.detached,
  })
end

-- Whether the user's own configuration says that all folders are trusted, or none.
local function configured_trust(config) return (config.init_options or {}).trusted end

function M.trusts(client)
  local configured = configured_trust(client.config)
  if configured ~= nil then
    return configured == true, "your configuration says so"
  end
  return require("stitchcuda.trust").of(client.root_dir) == true, ":StitchCudaTrust"
end

-- Whether the user still has to be asked about a client's folder.
function M.is_undecided(client)
  return configured_trust(client.config) == nil and require("stitchcuda.trust").of(client.root_dir) == nil
end

function M.before_init(params, config)
  local options = vim.deepcopy(config.init_options or {})
  if options.trusted == nil then
    options.trusted = require("stitchcuda.trust").of(config.root_dir) == true
  end
  options.commands = { "stitchcuda.showGraph" }
  params.initializationOptions = options
  local _, own = M.command(config.root_dir)
  if own == true then
    params.processId = vim.NIL -- the command may lead to another machine, where this number means something else
  end
  vim.schedule(function()
    require("stitchcuda.messages").watch_keys()
    let_in(config.root_dir)
  end)
end

-- -------------------------------------------------------------------------------------------------------------------- end

local wanted_ends = {} -- client id -> what to do when it has ended
local crashes = {} -- folder -> when

local function attach_again(buffers)
  for _, bufnr in ipairs(buffers) do
    if vim.api.nvim_buf_is_loaded(bufnr) then
      pcall(vim.api.nvim_exec_autocmds, "FileType", { group = "nvim.lsp.enable", buffer = bufnr, modeline = false })
    end
  end
end

local function after_it_is_gone(id, action)
  vim.defer_fn(function()
    if vim.lsp.get_client_by_id(id) ~= nil then
      return after_it_is_gone(id, action)
    end
    action()
  end, 20)
end

function M.on_exit(code, signal, id)
  local client = vim.lsp.get_client_by_id(id)
  if client == nil then
    return
  end
  local buffers, wanted = vim.tbl_keys(client.attached_buffers), wanted_ends[id]
  wanted_ends[id] = nil
  vim.schedule(function()
    require("stitchcuda.progress").forget(id)
    if wanted then
      return after_it_is_gone(id, function() wanted(buffers) end)
    elseif client._is_stopping or vim.v.exiting ~= vim.NIL or (code == 0 and signal == 0) then
      return
    end
    local how = signal ~= 0 and "signal " .. signal or "exit code " .. code
    if not client.initialized then
      local text = ("the server ended with %s before it was ready: :StitchCudaLog and :checkhealth stitchcuda say more"):format(how)
      return stitchcuda().say(text, vim.log.levels.ERROR)
    end
    local now, recent = vim.uv.now() / 1000, {}
    for _, at in ipairs(crashes[client.root_dir or ""] or {}) do
      if now - at < RESTARTS_WITHIN then
        table.insert(recent, at)
      end
    end
    table.insert(recent, now)
    crashes[client.root_dir or ""] = recent
    if #recent > RESTARTS then
      local text = ("the server ended %d times in %d minutes, now with %s. It is not started again: :StitchCudaRestart does that, :StitchCudaLog says more")
        :format(#recent, RESTARTS_WITHIN / 60, how)
      return stitchcuda().say(text, vim.log.levels.ERROR)
    end
    stitchcuda().say(("the server ended unexpectedly (%s); it is started again"):format(how), vim.log.levels.WARN)
    after_it_is_gone(id, function() attach_again(buffers) end)
  end)
end

-- Whether a client is about to be started again.
function M.is_ending(client) return wanted_ends[client.id] ~= nil end

-- Ends the clients and starts them again for their buffers; `done` is called then. Jobs end with their server.
function M.restart(clients, done)
  local open = #clients
  local function one_less()
    open = open - 1
    if open <= 0 and done then
      done()
    end
  end
  if open == 0 then
    return one_less()
  end
  for _, client in ipairs(clients) do
    local before = wanted_ends[client.id] -- of a restart that is on its way: who waits for that one is told, too
    wanted_ends[client.id] = function(buffers)
      (before or attach_again)(buffers)
      one_less()
    end
    if not before then
      client:stop()
    end
    vim.defer_fn(function()
      if wanted_ends[client.id] then
        client:stop(true)
      end
    end, SECONDS_TO_END * 1000)
  end
end

-- Starts servers for the open buffers that have none.
function M.attach_all() attach_again(vim.api.nvim_list_bufs()) end

-- Calls `action(client)` once a client follows the buffer, or `otherwise()` when none does in time.
function M.when_attached(bufnr, action, otherwise)
  local deadline = vim.uv.now() + SECONDS_TO_ATTACH * 1000
  local function look()
    local client = vim.lsp.get_clients({ bufnr = bufnr, name = NAME })[1]
    if client and client.initialized and not M.is_ending(client) then
      return action(client)
    elseif vim.uv.now() > deadline or not vim.api.nvim_buf_is_valid(bufnr) then
      return otherwise and otherwise()
    end
    vim.defer_fn(look, 30)
  end
  look()
end

return M
