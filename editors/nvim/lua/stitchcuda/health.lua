-- :checkhealth stitchcuda
local M = {}

local function first_line(words)
  local ok, done = pcall(function() return vim.system(words, { text = true }):wait(20000) end)
  if not ok or done.code ~= 0 then
    return nil, ok and vim.trim(done.stderr) or tostring(done)
  end
  return done.stdout
end

local function machine(root)
  local words = require("stitchcuda.server").tool(root, { "doctor", "--format", "json" })
  local text = words and first_line(words)
  local ok, value = pcall(vim.json.decode, text or "")
  for _, capability in ipairs(ok and value.capabilities or {}) do
    if capability.found then
      vim.health.ok(vim.trim(("%s %s %s"):format(capability.name, capability.version, capability.where)))
    else
      local why = capability.problem ~= "" and " (" .. capability.problem .. ")" or ""
      vim.health.info(("no %s%s; it is needed for %s"):format(capability.name, why, capability.costs))
    end
  end
end

function M.check()
  local server, trust = require("stitchcuda.server"), require("stitchcuda.trust")
  vim.health.start("stitchcuda: Neovim")
  if vim.fn.has("nvim-0.11") == 1 then
    vim.health.ok("Neovim " .. tostring(vim.version()))
  else
    vim.health.error("Neovim " .. tostring(vim.version()) .. " is too old", "Use 0.11 or newer")
    return
  end
  local bufnr = vim.fn.bufnr("#") > 0 and vim.fn.bufnr("#") or vim.api.nvim_get_current_buf()
  local clients = vim.lsp.get_clients({ name = "stitchcuda" })
  local root = #clients > 0 and clients[1].root_dir or server.root_of(bufnr)

  vim.health.start("stitchcuda: server")
  local command, reason = server.command(root)
  if command == nil then
    vim.health.error(reason)
  else
    local version, failed = first_line(server.tool(root, { "--version" }) or command)
    if version then
      vim.health.ok(("%s: %s"):format(table.concat(command, " "), vim.trim(version)))
    else
      vim.health.error(("%s does not run: %s"):format(table.concat(command, " "), failed), "Install it again: pip install stitchcuda")
    end
  end
  if #clients == 0 then
    vim.health.info("no buffer has the server now; it starts for CUDA, and for C, C++ and Python that name CUDA or CuPy")
  end
  for _, client in ipairs(clients) do
    vim.health.ok(("runs in %s for %d buffers"):format(client.root_dir, #vim.tbl_keys(client.attached_buffers)))
  end

  vim.health.start("stitchcuda: trust")
  local decided = trust.of(root)
  for _, client in ipairs(clients) do
    decided = client.root_dir == root and server.trusts(client) or decided
  end
  if decided then
    vim.health.ok(root .. " is trusted: its programs may be built and run")
  else
    vim.health.info(root .. " is not trusted: nothing of it is built or run. :StitchCudaTrust asks")
  end

  if command then
    vim.health.start("stitchcuda: machine")
    machine(root)
  end
end

return M
