-- The documentation of a finding, in a floating window.
local M = {}

local function stitchcuda() return require("stitchcuda") end

-- The codes of the server's findings at the cursor; of its line when there is none.
local function at_cursor()
  local row, column = unpack(vim.api.nvim_win_get_cursor(0))
  local on_line, here = {}, {}
  for _, finding in ipairs(vim.diagnostic.get(0, { lnum = row - 1 })) do
    if finding.source == "stitchcuda" then
      on_line[finding.code] = true
      if finding.col <= column and column < finding.end_col then
        here[finding.code] = true
      end
    end
  end
  local codes = vim.tbl_keys(next(here) and here or on_line)
  table.sort(codes)
  return codes
end

-- With the lines of a paragraph in one, which the window breaks where it ends.
local function paragraphs(lines)
  local joined, open, code = {}, false, false
  for _, line in ipairs(lines) do
    code = code ~= vim.startswith(line, "```")
    local plain = not code and line:match("^[%w`*(]") ~= nil and not line:match("^%d+%. ")
    if open and plain then
      joined[#joined] = joined[#joined] .. " " .. line
    else
      table.insert(joined, line)
    end
    open = plain
  end
  return joined
end

local function show(code, root)
  local words, reason = require("stitchcuda.server").tool(root, { "explain", code })
  if words == nil then
    return stitchcuda().say(reason, vim.log.levels.ERROR)
  end
  vim.system(words, { text = true, timeout = 20000 }, vim.schedule_wrap(function(done)
    if done.code ~= 0 then
      return stitchcuda().say((vim.trim(done.stderr):gsub("^stitchcuda: ", "")), vim.log.levels.ERROR)
    end
    local lines = paragraphs(vim.split(vim.trim(done.stdout), "\n"))
    local _, window = vim.lsp.util.open_floating_preview(lines, "markdown", { focus_id = "stitchcuda.explain", border = "rounded", max_width = 110 })
    vim.wo[window].linebreak = true
  end))
end

function M.explain(code)
  local client = vim.lsp.get_clients({ bufnr = 0, name = "stitchcuda" })[1]
  local root = client and client.root_dir or require("stitchcuda.server").root_of(0)
  if code ~= "" then
    return show(code, root)
  end
  local codes = at_cursor()
  if #codes == 0 then
    return stitchcuda().say("there is no finding in this line; :StitchCudaExplain CODE explains any")
  elseif #codes == 1 then
    return show(codes[1], root)
  end
  vim.ui.select(codes, { prompt = "Explain which finding?", kind = "stitchcuda_code" }, function(chosen)
    if chosen then
      show(chosen, root)
    end
  end)
end

return M
