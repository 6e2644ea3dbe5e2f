-- require("stitchcuda").setup({ ... }): optional, for what is not a setting of the server.
local M = {}

M.options = {
  server = "stitchcuda", -- the command: a name, an absolute path, or a list with all its words (then run as it is)
  progress = true, -- say in the message area how far a job is
  codelens = false, -- keep the lenses above host functions up to date
}

local kinds = {
  server = { "string", "table" },
  settings = { "table" },
  progress = { "boolean" },
  codelens = { "boolean" },
}

-- `given.settings` is what the server is asked for in VS Code without the prefix: { validateOnSave = true }.
function M.setup(given)
  given = given or {}
  for key, value in pairs(given) do
    if kinds[key] == nil then
      error(("stitchcuda.setup: there is no option %q; see :help stitchcuda-setup"):format(key), 2)
    elseif not vim.tbl_contains(kinds[key], type(value)) then
      local wanted = table.concat(kinds[key], " or ")
      error(("stitchcuda.setup: %s must be a %s, not a %s"):format(key, wanted, type(value)), 2)
    end
  end
  if type(given.server) == "table" and (#given.server == 0 or not vim.iter(given.server):all(function(word) return type(word) == "string" end)) then
    error("stitchcuda.setup: server must be a list of words", 2)
  end
  if given.settings then
    vim.lsp.config("stitchcuda", { settings = { stitchcuda = given.settings } })
  end
  for _, key in ipairs({ "server", "progress", "codelens" }) do
    if given[key] ~= nil then
      M.options[key] = given[key]
    end
  end
  require("stitchcuda.lenses").keep_fresh(M.options.codelens)
end

-- For a status line: the running job and how far it is, "" when there is none.
function M.statusline() return require("stitchcuda.progress").text() end

-- Says something to the user. `level` is one of vim.log.levels.
function M.say(text, level) require("stitchcuda.messages").show("stitchcuda: " .. text, level or vim.log.levels.INFO) end

return M
