-- The execution graph as text, in a buffer of its own: stitchcuda-graph://FILE#FUNCTION, with ?RUN behind it when a measured run is shown,
-- too. :e reads it again, <CR> goes to the source.
local M = {}
local SCHEME = "stitchcuda-graph://"

local function stitchcuda() return require("stitchcuda") end

local function parts(name)
  local whole = name:sub(#SCHEME + 1)
  local path, rest = whole:match("^(.*)#(.*)$")
  local name_of_function, run = (rest or ""):match("^([^?]*)%??(.*)$")
  return path or whole, name_of_function, vim.uri_decode(run) -- typed by hand, it may be a file alone
end

-- The buffer of the source that a graph buffer is about; any other buffer itself.
function M.source_of(bufnr)
  local name = vim.api.nvim_buf_get_name(bufnr)
  if not vim.startswith(name, SCHEME) then
    return bufnr
  end
  local path = parts(name)
  return vim.fn.bufadd(path)
end

function M.open(source, name_of_function, mods, run)
  local path = vim.api.nvim_buf_get_name(M.source_of(source))
  local name = SCHEME .. path .. "#" .. (name_of_function or "") .. (run and "?" .. vim.uri_encode(run) or "")
  local known = vim.fn.bufnr("^" .. vim.fn.escape(name, "\\[]*?{},") .. "$")
  local window = known > 0 and vim.fn.bufwinid(known) or -1
  if window > 0 then
    vim.api.nvim_set_current_win(window)
    return M.read(known)
  end
  if mods == nil or (mods.split == "" and mods.tab == -1 and not mods.vertical) then
    mods = { vertical = true, split = "belowright" }
  end
  vim.cmd({ cmd = "split", args = { name }, mods = mods, magic = { file = false, bar = false } })
end

local function fill(bufnr, lines)
  if not vim.api.nvim_buf_is_valid(bufnr) then
    return
  end
  vim.bo[bufnr].modifiable = true
  vim.api.nvim_buf_set_lines(bufnr, 0, -1, false, lines)
  vim.bo[bufnr].modifiable = false
  vim.bo[bufnr].modified = false
end

function M.read(bufnr)
  local path, name_of_function, run = parts(vim.api.nvim_buf_get_name(bufnr))
  local source = vim.fn.bufadd(path)
  vim.fn.bufload(source)
  vim.bo[bufnr].buftype = "nofile"
  vim.bo[bufnr].bufhidden = "hide"
  vim.bo[bufnr].swapfile = false
  vim.bo[bufnr].filetype = "stitchcuda-graph"
  vim.api.nvim_buf_call(bufnr, function() vim.cmd("setlocal wrap linebreak breakindent") end)
  vim.keymap.set("n", "<CR>", function() M.jump() end, { buffer = bufnr, desc = "Go to the source line" })
  if vim.api.nvim_buf_line_count(bufnr) == 1 then
    fill(bufnr, { "..." })
  end
  require("stitchcuda.server").when_attached(source, function(client)
    local arguments = { vim.uri_from_bufnr(source), name_of_function, "text", false, run }
    require("stitchcuda.commands").execute(client, "stitchcuda.graphText", arguments, function(text)
      if type(text) ~= "string" then
        text = name_of_function == "" and "There is no execution graph: this file has no device work." or ("There is no device work in %s."):format(name_of_function)
      end
      fill(bufnr, vim.split(vim.trim(text), "\n"))
    end, source, function(why)
      fill(bufnr, vim.split("stitchcuda: " .. why, "\n"))
    end)
  end, function()
    fill(bufnr, { "The server does not follow " .. path .. ".", ":checkhealth stitchcuda says why." })
  end)
end

-- The place that is named at or after the cursor, else before it in its line: path and line. Places are written relative to the folder
-- of the entry's file, which stands behind the entry's name; `line N` is in that file itself.
local function place()
  local row, column = unpack(vim.api.nvim_win_get_cursor(0))
  local home
  for number = row, 1, -1 do
    home = vim.api.nvim_buf_get_lines(0, number - 1, number, false)[1]:match("^%S.* %((.+)%)$")
    if home then
      break
    end
  end
  if home == nil then
    return
  end
  local line, found, at = vim.api.nvim_get_current_line(), nil, 1
  while true do
    local first, last, path, number = line:find("([^%s(]+):(%d+)", at)
    local first_here, last_here, here = line:find("%f[%w]lines? (%d+)", at)
    if first_here and (first == nil or first_here < first) then
      first, last, path, number = first_here, last_here, home, here
    end
    if first == nil then
      break
    end
    found = { path = path, line = tonumber(number) }
    if last > column then
      break
    end
    at = last + 1
  end
  if found == nil then
    return line:find("^%S") and { path = home, line = nil } or nil
  end
  if found.path ~= home and not found.path:match("^/") and not found.path:match("^%a:") then
    found.path = vim.fs.joinpath(vim.fs.dirname(home), found.path)
  end
  return found
end

function M.jump()
  local target = place()
  if target == nil then
    return stitchcuda().say("no place in the source is named here")
  elseif vim.uv.fs_stat(target.path) == nil and vim.fn.bufexists(target.path) == 0 then
    return stitchcuda().say(target.path .. " is not there", vim.log.levels.WARN)
  end
  local bufnr = vim.fn.bufadd(target.path)
  vim.bo[bufnr].buflisted = true
  local window = vim.fn.win_getid(vim.fn.winnr("#"))
  local is_graph = function(win) return vim.bo[vim.api.nvim_win_get_buf(win)].filetype == "stitchcuda-graph" end
  if window == 0 or is_graph(window) then
    window = vim.iter(vim.api.nvim_tabpage_list_wins(0)):find(function(win)
      return vim.bo[vim.api.nvim_win_get_buf(win)].buftype == "" and not is_graph(win)
    end)
  end
  if window == nil then
    vim.cmd("leftabove vsplit")
    window = vim.api.nvim_get_current_win()
  end
  vim.api.nvim_set_current_win(window)
  vim.cmd("normal! m'")
  vim.api.nvim_win_set_buf(window, bufnr)
  if target.line then
    vim.api.nvim_win_set_cursor(window, { math.min(target.line, vim.api.nvim_buf_line_count(bufnr)), 0 })
    vim.cmd("normal! ^zv")
  end
end

-- The page with the picture. It is written here, because the server may run on another machine.
function M.open_page(source, name_of_function, run)
  source = M.source_of(source)
  require("stitchcuda.server").when_attached(source, function(client)
    local arguments = { vim.uri_from_bufnr(source), name_of_function or "", "html", false, run or "" }
    require("stitchcuda.commands").execute(client, "stitchcuda.graphText", arguments, function(page)
      if type(page) ~= "string" then
        return stitchcuda().say("there is no execution graph: no device work here")
      end
      local file = vim.fn.tempname() .. ".html"
      vim.fn.writefile(vim.split(page, "\n"), file)
      local opener = vim.ui.open(file)
      local ended = opener and opener:wait(3000)
      if ended == nil or (ended.code ~= 0 and ended.code ~= 124) then
        stitchcuda().say("no browser could be opened; the page is " .. file)
      end
    end, source)
  end)
end

return M
