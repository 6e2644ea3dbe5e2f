-- The user commands. Each asks the server; what comes of a job is shown by the server's own edits and messages.
local M = {}
local NAME = "stitchcuda"
local REWRITE = "refactor.rewrite.stitchcuda."

local function say(...) require("stitchcuda").say(...) end

local function server() return require("stitchcuda.server") end

local function source() return require("stitchcuda.graph").source_of(vim.api.nvim_get_current_buf()) end

local function client_of(bufnr)
  local client = vim.lsp.get_clients({ bufnr = bufnr, name = NAME })[1]
  if client == nil then
    local _, reason = server().command(server().root_of(bufnr))
    reason = type(reason) == "string" and reason or "the server does not follow this buffer"
    say(reason .. ". :checkhealth stitchcuda says more", vim.log.levels.ERROR)
  end
  return client
end

-- Sends a command; an error is shown, any answer goes to `answered`.
function M.execute(client, command, arguments, answered, bufnr, refused)
  local known = vim.tbl_get(client.server_capabilities, "executeCommandProvider", "commands") or {}
  if not vim.tbl_contains(known, command) then
    local version = client.server_info and client.server_info.version or "of unknown version"
    return say(("the server %s has no command %s: update it"):format(version, command), vim.log.levels.ERROR)
  end
  local function tell(why)
    if refused then
      return refused(why)
    end
    say(why, vim.log.levels.ERROR)
  end
  local sent = client:request("workspace/executeCommand", { command = command, arguments = arguments }, function(failed, result)
    if failed then
      return tell(failed.message)
    end
    if answered then
      answered(result)
    end
  end, bufnr)
  if not sent then
    tell("the server has ended: :StitchCudaRestart starts it")
  end
end

-- Starts a job about a buffer's program, once it is known whether the folder is trusted.
local function run_for(bufnr, command, rest)
  local client = client_of(bufnr)
  if client == nil then
    return
  end
  local function start(on)
    local arguments = { vim.uri_from_bufnr(bufnr) }
    M.execute(on, command, vim.list_extend(arguments, rest), nil, bufnr)
  end
  local function on_the_next(action)
    server().when_attached(bufnr, action, function()
      say("the server did not start again, so nothing was done. :checkhealth stitchcuda says more", vim.log.levels.ERROR)
    end)
  end
  if server().is_ending(client) then
    return on_the_next(function() run_for(bufnr, command, rest) end)
  elseif not server().is_undecided(client) then
    return start(client)
  end
  require("stitchcuda.trust").ask(client.root_dir, function(trusted)
    if not trusted then
      return start(client)
    end
    server().restart({ client }, function() on_the_next(start) end)
  end)
end

local function run(command, ...) run_for(source(), command, { ... }) end

-- ------------------------------------------------------------------------------------------------------------- completion

local function starting_with(lead, words)
  return vim.tbl_filter(function(word) return vim.startswith(word, lead) end, words)
end

local function current_client() return vim.lsp.get_clients({ bufnr = source(), name = NAME })[1] end

local function ask_now(client, method, params, bufnr)
  local answer = client:request_sync(method, params, 1000, bufnr)
  return answer and answer.result or nil
end

-- The functions of the current source that are not kernels of other files: names of the document's symbols.
local function functions(lead)
  local client = current_client()
  if client == nil then
    return {}
  end
  local names = {}
  local function collect(symbols)
    for _, symbol in ipairs(symbols or {}) do
      if symbol.kind == vim.lsp.protocol.SymbolKind.Function or symbol.kind == vim.lsp.protocol.SymbolKind.Method then
        names[symbol.name] = true
      end
      collect(symbol.children)
    end
  end
  local params = { textDocument = { uri = vim.uri_from_bufnr(source()) } }
  collect(ask_now(client, "textDocument/documentSymbol", params, source()))
  local sorted = vim.tbl_keys(names)
  table.sort(sorted)
  return starting_with(lead, sorted)
end

-- The transforms that the server announces as kinds of code actions.
local function transforms(client)
  local names = {}
  for _, kind in ipairs(vim.tbl_get(client.server_capabilities, "codeActionProvider", "codeActionKinds") or {}) do
    if vim.startswith(kind, REWRITE) and kind ~= REWRITE .. "stitch" then
      table.insert(names, kind:sub(#REWRITE + 1))
    end
  end
  return names
end

local function complete_rewrite(lead, line)
  local client = current_client()
  if client == nil then
    return {}
  end
  local words = vim.split(vim.trim(line:sub(1, #line - #lead)), "%s+")
  return #words <= 1 and starting_with(lead, transforms(client)) or functions(lead)
end

local function revisions(lead)
  local client = current_client()
  if client == nil or client.root_dir == nil then
    return {}
  end
  local git = { "git", "-C", client.root_dir, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes" }
  local ok, done = pcall(function() return vim.system(git, { text = true }):wait(1000) end)
  local names = ok and done.code == 0 and vim.split(vim.trim(done.stdout), "\n", { trimempty = true }) or {}
  return starting_with(lead, vim.list_extend({ "HEAD" }, names))
end

local function codes(lead)
  local words = server().tool(server().root_of(source()), { "explain" })
  local ok, done = pcall(function() return vim.system(words, { text = true }):wait(5000) end)
  local found = {}
  for line in vim.gsplit(ok and done.stdout or "", "\n") do
    table.insert(found, line:match("^(%l[%l%d-]*)  "))
  end
  return starting_with(lead, found)
end

-- ------------------------------------------------------------------------------------------------------- jobs and status

-- Asks every server what it is doing: `told(list of { client, status })`.
local function statuses(clients, told)
  local found, open = {}, #clients
  local function one_less()
    open = open - 1
    if open == 0 then
      told(found)
    end
  end
  for _, client in ipairs(clients) do
    local sent = client:request("workspace/executeCommand", { command = "stitchcuda.status", arguments = {} }, function(failed, status)
      if not failed then
        table.insert(found, { client = client, status = status })
      end
      one_less()
    end)
    if not sent then
      one_less()
    end
  end
end

local function running(found)
  local jobs = {}
  for _, each in ipairs(found) do
    for _, job in ipairs(each.status.jobs or {}) do
      if job.state == "running" then
        table.insert(jobs, { client = each.client, id = job.id, title = job.title })
      end
    end
  end
  return jobs
end

local function complete_jobs(lead)
  local ids = {}
  for _, client in ipairs(vim.lsp.get_clients({ name = NAME })) do
    local status = ask_now(client, "workspace/executeCommand", { command = "stitchcuda.status", arguments = {} })
    for _, job in ipairs(status and running({ { client = client, status = status } }) or {}) do
      table.insert(ids, job.id)
    end
  end
  return starting_with(lead, ids)
end

local function cancel(wanted)
  local function end_it(job)
    M.execute(job.client, "stitchcuda.cancel", { job.id }, function(told)
      say(told and "cancelled: " .. job.title or job.title .. " has ended already")
    end)
  end
  statuses(vim.lsp.get_clients({ name = NAME }), function(found)
    local jobs = running(found)
    if wanted ~= "" then
      jobs = vim.tbl_filter(function(job) return job.id == wanted end, jobs)
    end
    if #jobs == 0 then
      say(wanted ~= "" and ("no job %s is running"):format(wanted) or "no job is running")
    elseif #jobs == 1 then
      end_it(jobs[1])
    else
      local options = { prompt = "Cancel which job?", kind = "stitchcuda_job", format_item = function(job) return job.title end }
      vim.ui.select(jobs, options, function(job)
        if job then
          end_it(job)
        end
      end)
    end
  end)
end

-- What :StitchCudaStatus says about one server.
local function described(client, status)
  local trusted, by = server().trusts(client)
  local words = client.config.cmd
  words = type(words) == "table" and words or server().command(client.root_dir) or {}
  local lines = {
    ("stitchcuda %s in %s"):format(status.version, client.root_dir or "no folder"),
    "  command: " .. table.concat(words, " "),
    "  " .. (trusted and "trusted" or "not trusted, nothing is built or run") .. " (" .. by .. ")",
    ("  %d open %s, findings by %s"):format(status.documents, status.documents == 1 and "file" or "files", status.channel),
  }
  for what, reason in vim.spairs(status.unavailable or {}) do
    table.insert(lines, ("  %s is not available: %s"):format(what, reason))
  end
  for _, job in ipairs(status.jobs or {}) do
    local failed = job.error ~= "" and ": " .. job.error or ""
    table.insert(lines, ("  job %s: %s, %s, %.1f s%s"):format(job.id, job.title, job.state, job.seconds, failed))
  end
  return lines
end

local function status()
  local client = current_client()
  local clients = client and { client } or vim.lsp.get_clients({ name = NAME })
  if #clients == 0 then
    return client_of(source())
  end
  statuses(clients, function(found)
    local lines = {}
    for _, each in ipairs(found) do
      vim.list_extend(lines, described(each.client, each.status))
    end
    if #lines == 0 then
      return say("the server is starting or ending; ask again")
    end
    vim.api.nvim_echo({ { table.concat(lines, "\n") } }, true, {})
  end)
end

-- ------------------------------------------------------------------------------------------------------ trust and the rest

local function trust(withdraw)
  local bufnr = source()
  local client = current_client()
  local root = client and client.root_dir or server().root_of(bufnr)
  if client and (client.config.init_options or {}).trusted ~= nil then
    return say("your configuration decides which folders are trusted (init_options.trusted)", vim.log.levels.WARN)
  end
  local decisions = require("stitchcuda.trust")
  local before = decisions.of(root) == true
  local function decided(trusted)
    if trusted == nil then
      return
    end
    say(root .. (trusted and " is trusted: its programs may be built and run" or " is not trusted: nothing of it is run"))
    if trusted ~= before then
      local inside = vim.tbl_filter(function(c)
        return c.root_dir ~= nil and (c.root_dir == root or vim.fs.relpath(root, c.root_dir) ~= nil)
      end, vim.lsp.get_clients({ name = NAME }))
      server().restart(inside, server().attach_all)
    end
  end
  if withdraw then
    decisions.remember(root, false)
    return decided(false)
  end
  decisions.ask(root, decided)
end

local function restart()
  server().restart(vim.lsp.get_clients({ name = NAME }), server().attach_all)
end

local function log()
  local path = vim.lsp.log and vim.lsp.log.get_filename and vim.lsp.log.get_filename() or vim.lsp.get_log_path()
  if vim.uv.fs_stat(path) == nil then
    return say("there is no log yet: " .. path)
  end
  vim.cmd.tabedit(vim.fn.fnameescape(path))
  vim.bo.readonly, vim.bo.modifiable, vim.bo.autoread = true, false, true
  vim.cmd("normal! G")
end

function M.create()
  local function define(name, action, options)
    vim.api.nvim_create_user_command(name, action, options)
  end
  define("StitchCuda", function(given)
    run("stitchcuda.stitch", unpack(given.args ~= "" and { given.args } or {}))
  end, { nargs = "*", desc = "Stitch the program of this file; what is to be reached, in words" })
  define("StitchCudaRewrite", function(given)
    if #given.fargs > 2 then
      return say("usage: :StitchCudaRewrite transform [function]", vim.log.levels.ERROR)
    end
    local client = current_client()
    local known = client and transforms(client) or {}
    if #known > 0 and not vim.tbl_contains(known, given.fargs[1]) then -- before anything is asked
      local told = ("there is no rewrite %s; the rewrites are %s"):format(given.fargs[1], table.concat(known, ", "))
      return say(told, vim.log.levels.ERROR)
    end
    run("stitchcuda.rewrite", unpack(given.fargs))
  end, { nargs = "+", complete = complete_rewrite, desc = "One kind of rewrite, proved" })
  define("StitchCudaValidate", function(given)
    run("stitchcuda.validate", unpack(given.args ~= "" and { given.args } or {}))
  end, { nargs = "?", complete = revisions, desc = "Is the saved program still right, and faster than that revision?" })
  define("StitchCudaCancel", function(given) cancel(given.args) end, { nargs = "?", complete = complete_jobs, desc = "Cancel a job" })
  define("StitchCudaGraph", function(given)
    local graph = require("stitchcuda.graph")
    if client_of(source()) == nil then
      return
    elseif given.bang then
      return graph.open_page(source(), given.args)
    end
    graph.open(source(), given.args, given.smods)
  end, { nargs = "?", bang = true, complete = functions, desc = "The execution graph; with ! as a page in the browser" })
  define("StitchCudaMeasured", function(given)
    local graph, run = require("stitchcuda.graph"), given.args
    if client_of(source()) == nil then
      return
    elseif run == "" then
      run = "run" -- of the newest stitch
    elseif vim.uv.fs_stat(run) then
      run = vim.fn.fnamemodify(run, ":p")
    end
    if given.bang then
      return graph.open_page(source(), "", run)
    end
    graph.open(source(), "", given.smods, run)
  end, { nargs = "?", bang = true, complete = "file", desc = "The execution graph with a measured run; with ! as a page in the browser" })
  define("StitchCudaStatus", status, { desc = "What the server is doing" })
  define("StitchCudaExplain", function(given) require("stitchcuda.explain").explain(given.args) end, {
    nargs = "?", complete = codes, desc = "What a finding means",
  })
  define("StitchCudaTrust", function(given) trust(given.bang) end, {
    bang = true, desc = "Ask whether programs of this folder may be built and run; with ! take trust back",
  })
  define("StitchCudaRestart", restart, { desc = "Start the server again" })
  define("StitchCudaLog", log, { desc = "Open the log of language servers" })
end

return M
