-- Drives Neovim through one session and writes what it saw as JSON: session.lua SOURCE OUT SERVER...
local source, out = arg[1], arg[2]
local server = { unpack(arg, 3) }
local steps = {}

local function finish(failed)
  if failed then
    steps.error = failed
  end
  local file = assert(io.open(out, "w"))
  file:write(vim.json.encode(steps))
  file:close()
  vim.cmd("qa!")
end

local function wait_for(what, probe)
  if not vim.wait(15000, probe, 20) then
    error("timed out: " .. what)
  end
end

local function diagnostics()
  local found = {}
  for _, d in ipairs(vim.diagnostic.get(0)) do
    table.insert(found, { code = d.code, source = d.source, lnum = d.lnum, col = d.col, end_col = d.end_col })
  end
  return #found > 0 and found or vim.empty_dict()
end

local function text()
  return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n") .. "\n"
end

local function as_list(found)
  return vim.tbl_isempty(found) and vim.json.decode("[]") or found
end

local function session()
  vim.cmd.edit(source)
  vim.bo.filetype = "cuda"
  local id = vim.lsp.start({
    name = "stitchcuda",
    cmd = server,
    root_dir = vim.fs.dirname(source),
    init_options = { diagnosticsDelay = 0 },
  })
  assert(id, "the client did not start")
  wait_for("the first finding", function() return #vim.diagnostic.get(0) == 1 end)
  local client = assert(vim.lsp.get_client_by_id(id))
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
  steps.fixed = as_list(diagnostics())
  steps.fixed_text = text()

  vim.cmd("silent undo")
  wait_for("the finding to come back", function() return #vim.diagnostic.get(0) == 1 end)
  steps.undone = diagnostics()
  steps.undone_text = text()

  vim.api.nvim_buf_set_lines(0, 0, -1, false, { "int nothing;" })
  wait_for("everything to be taken back", function() return #vim.diagnostic.get(0) == 0 end)
  steps.cleared = as_list(diagnostics())
  client:stop()
  wait_for("the server to end", function() return client:is_stopped() end)
end

local ok, failed = xpcall(session, debug.traceback)
finish(not ok and failed or nil)
