-- Changes some parts of a limit's record that exchanges do not change, after window_log and record.
--
-- KEYS[1]  the limit's record
-- ARGV[1]  parts as they were when the change was made, which must still be so (JSON; no tables)
-- ARGV[2]  the parts that are new (JSON)
-- ARGV[3]  for each log of the new record the one that it continues (JSON), or nothing where the logs stay
-- ARGV[4]  by how much the version rises
-- ARGV[5]  the instant of the change, which exchanges may have passed meanwhile
-- ARGV[6]  what earlier grants mean under new terms (JSON: shift, young, transit), as rules.limit_actions has it, or nothing
--
-- Reply: 1 if it was changed, 0 if somebody else has changed such a part meanwhile.
local function all_calls(record)
  local calls = {}
  for _, seat in pairs(record.seats) do
    for _, call in ipairs(calls_of(seat)) do
      calls[#calls + 1] = call
    end
  end
  table.sort(calls, function(one, other) return one.at < other.at end)
  return calls
end

local function window_named(eras, name)
  for _, era in ipairs(eras) do
    for _, bound in ipairs(era.terms.windows) do
      if logs.name(bound) == name then
        return {unit = bound.unit, wide = logs.width(bound, era.terms)}
      end
    end
  end
end

local packed = redis.call('GET', KEYS[1])
if not packed then
  return 0
end
local record = unpacked(packed)
for part, value in pairs(cjson.decode(ARGV[1])) do
  if record[part] ~= value then
    return 0
  end
end
for part, value in pairs(cjson.decode(ARGV[2])) do
  record[part] = value
end
record.v = record.v + tonumber(ARGV[4])
record.last = math.max(record.last, tonumber(ARGV[5]))
if ARGV[3] ~= '' then
  local carried = cjson.decode(ARGV[6])
  local calls = all_calls(record)
  local known = record.logs
  record.logs = {}
  for name, source in pairs(cjson.decode(ARGV[3])) do
    local log = known[source]
    if log then
      record.logs[name] = {sum = log.sum, items = logs.shifted(log.items, carried[1])}
    else
      record.logs[name] = {sum = 0, items = ''}
      local window = window_named(record.eras, name)
      for _, call in ipairs(calls) do
        logs.add(record.logs[name], call.at + carried[1], call.units[window.unit] or 0, window.wide)
      end
    end
  end
  local youngest = #calls > 0 and calls[#calls].at or -math.huge
  if carried[1] > 0 and youngest + carried[2] > record.last then
    record.hold = math.max(record.hold, record.last + carried[2] + carried[3])
  end
end
redis.call('SET', KEYS[1], packed_again(record))
return 1
