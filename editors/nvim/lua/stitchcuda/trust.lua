-- In which folders programs may be built and run: what the user said, by folder, kept in stdpath("state"). Nothing else decides it.
local M = {}

local function file() return vim.fs.joinpath(vim.fn.stdpath("state"), "stitchcuda", "trust.json") end

local function read()
  local handle = io.open(file(), "r")
  if handle == nil then
    return {}
  end
  local text = handle:read("*a")
  handle:close()
  local ok, decided = pcall(vim.json.decode, text)
  if not ok or type(decided) ~= "table" then
    local say = require("stitchcuda").say
    say(file() .. " cannot be read, so no folder is trusted. Remove it and say :StitchCudaTrust again", vim.log.levels.ERROR)
    return {}
  end
  return decided
end

local function real(folder) return vim.uv.fs_realpath(folder) or vim.fs.normalize(folder) end

-- true, false, or nil when the user was not asked. What was said about the nearest folder above holds.
function M.of(folder)
  if folder == nil then
    return nil
  end
  local decided, place = read(), real(folder)
  while true do
    if type(decided[place]) == "boolean" then
      return decided[place]
    end
    local above = vim.fs.dirname(place)
    if above == nil or above == place then
      return nil
    end
    place = above
  end
end

-- Raises when it cannot be kept.
function M.remember(folder, trusted)
  local decided = read()
  decided[real(folder)] = trusted
  vim.fn.mkdir(vim.fs.dirname(file()), "p", tonumber("700", 8))
  local new = file() .. "." .. vim.uv.os_getpid()
  local handle = assert(io.open(new, "w"))
  handle:write(vim.json.encode(decided))
  handle:close()
  assert(vim.uv.fs_rename(new, file()))
end

-- Asks, remembers the answer, and calls `decided(trusted)`: nil when the user did not answer.
function M.ask(folder, decided)
  local answers = { "Trust it: its programs are built and run here", "Do not trust it: nothing of it is run" }
  local prompt = ("stitchcuda: trust %s and what is below it? Building and running a program executes code from there"):format(folder)
  vim.ui.select(answers, { prompt = prompt, kind = "stitchcuda_trust" }, function(_, index)
    if index == nil then
      return decided(nil)
    end
    M.remember(folder, index == 1)
    decided(index == 1)
  end)
end

return M
