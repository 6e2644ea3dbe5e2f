-- :checkhealth stitchcuda
local M = {}
local EDITORS = { nvim = true, code = true, node = true }

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
    if EDITORS[capability.name] then -- this one is running, and the others are not needed in it
    elseif capability.found then
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
  local own = vim.lsp.get_clients({ name = "stitchcuda", bufnr = bufnr })[1] or clients[1]
  local root = own and own.root_dir or server.root_of(bufnr)

  vim.health.start("stitchcuda: server")
  local command, reason, advice = server.command(root)
  if command == nil then
    vim.health.error(reason, advice)
  else
    local version, failed = first_line(server.tool(root, { "--version" }) or command)
    if version then
      vim.health.ok(("%s: %s"):format(table.concat(command, " "), vim.trim(version)))
    else
      vim.health.error(("%s does not run: %s"):format(table.concat(command, " "), failed), "Install it again: " .. server.installation())
    end
  end
  if #clients == 0 then
    vim.health.info("no buffer has the server now; it starts for CUDA, and for C, C++ and Python that name CUDA, CuPy or PyTorch")
  end
  for _, client in ipairs(clients) do
    local buffers = #vim.tbl_keys(client.attached_buffers)
    local where = client.root_dir and "in " .. client.root_dir or "without a folder"
    vim.health.ok(("runs %s for %d %s"):format(where, buffers, buffers == 1 and "buffer" or "buffers"))
  end

  vim.health.start("stitchcuda: trust")
  local folders = {}
  for _, client in ipairs(clients) do
    if client.root_dir then
      folders[client.root_dir] = (server.trusts(client))
    end
  end
  if root and folders[root] == nil then
    folders[root] = trust.of(root) == true
  end
  for folder, decided in vim.spairs(folders) do
    if decided then
      vim.health.ok(folder .. " is trusted: its programs may be built and run")
    else
      vim.health.info(folder .. " is not trusted: nothing of it is built or run. :StitchCudaTrust asks")
    end
  end

  if command then
    vim.health.start("stitchcuda: machine")
    machine(root)
  end
end

return M
