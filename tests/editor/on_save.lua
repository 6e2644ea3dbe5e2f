-- A kernel is made slower and saved, seen as a finding on its launch, and made as fast as before.
local driving = dofile(vim.fs.joinpath(vim.fs.dirname(arg[0]), "driving.lua"))
local steps, wait_for = driving.steps, driving.wait_for

local function findings()
  local found = {}
  for _, d in ipairs(vim.diagnostic.get(0)) do
    if d.code == "latency-regression" then
      table.insert(found, { source = d.source, severity = d.severity, lnum = d.lnum, message = d.message })
    end
  end
  return driving.as_list(found)
end

local function rounds(number)
  vim.cmd([[silent %s/ROUNDS = \zs\d\+/]] .. number .. "/")
  vim.cmd("silent write")
end

driving.run(function()
  local client = driving.open({ trusted = true, validateOnSave = true, diagnosticsDelay = 0 })
  vim.cmd("silent write")
  local function ended(count)
    wait_for("validation " .. count, function()
      local answer = client:request_sync("workspace/executeCommand", { command = "stitchcuda.status" }, 5000, 0)
      local done = vim.tbl_filter(function(job)
        return job.title == "Validate on save: spin.cu" and job.state == "done"
      end, answer and answer.result and answer.result.jobs or {})
      return #done == count
    end)
  end
  ended(1)
  steps.recorded = findings()
  rounds(24000)
  wait_for("the finding", function() return #findings() > 0 end)
  ended(2)
  steps.slower = findings()
  vim.api.nvim_buf_set_lines(0, 0, 0, false, { "// above" })
  wait_for("the finding to move along", function() return findings()[1].lnum == steps.slower[1].lnum + 1 end)
  vim.cmd("silent undo")
  rounds(20000)
  wait_for("the finding to go", function() return #findings() == 0 end)
  ended(3)
  steps.fixed = findings()
  driving.close(client)
end)
