-- What the sessions share: dofile(driving.lua) with arg = SOURCE OUT SERVER... gives it, `run(session)` writes what was seen as JSON.
local driving = { source = arg[1], server = { unpack(arg, 3) }, steps = {} }
local out = arg[2]

function driving.run(session)
  local ok, failed = xpcall(session, debug.traceback)
  if not ok then
    driving.steps.error = failed
  end
  local file = assert(io.open(out, "w"))
  file:write(vim.json.encode(driving.steps))
  file:close()
  vim.cmd("qa!")
end

function driving.wait_for(what, probe)
  if not vim.wait(30000, probe, 20) then
    error("timed out: " .. what)
  end
end

-- Opens the source with the server, and gives the client once it follows the buffer.
function driving.open(init_options)
  vim.cmd.edit(driving.source)
  vim.bo.filetype = "cuda"
  local id = vim.lsp.start({
    name = "stitchcuda",
    cmd = driving.server,
    root_dir = vim.fs.dirname(driving.source),
    init_options = init_options,
  })
  assert(id, "the client did not start")
  local client = assert(vim.lsp.get_client_by_id(id))
  driving.wait_for("the server", function() return client.initialized and vim.lsp.buf_is_attached(0, id) end)
  return client
end

function driving.close(client)
  client:stop()
  driving.wait_for("the server to end", function() return client:is_stopped() end)
end

-- A buffer's text as one string.
function driving.text(buffer)
  return table.concat(vim.api.nvim_buf_get_lines(buffer or 0, 0, -1, false), "\n") .. "\n"
end

-- An empty table as a JSON list.
function driving.as_list(found)
  return vim.tbl_isempty(found) and vim.json.decode("[]") or found
end

return driving
