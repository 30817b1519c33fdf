-- Changes some parts of a limit's record that exchanges do not change, after whole.
--
-- KEYS     the limit's parts, as header.lua has them
-- ARGV[1]  parts as they were when the change was made, which must still be so (JSON; no tables)
-- ARGV[2]  the parts that are new (JSON)
-- ARGV[3]  for each log of the new record the one that it continues (JSON), or nothing where the logs stay
-- ARGV[4]  by how much the version rises
-- ARGV[5]  the instant of the change, which exchanges may have passed meanwhile
-- ARGV[6]  what earlier grants mean under new terms (JSON: shift, young, transit), as rules.limit_actions has it, or nothing
-- ARGV[7]  the clock's time in ms instead of the server's, or -1
-- ARGV[8]  ms that are added to the server's clock
--
-- Reply: 1 if it was changed, 0 if somebody else has changed such a part meanwhile.
local function all_calls()
  local calls = {}
  for _, name in ipairs(parts.fields_of(CALLS)) do
    local _, _, units, counted_at = cmsgpack.unpack(redis.call('HGET', CALLS, name))
    calls[#calls + 1] = {counted_at = counted_at, units = units}
  end
  table.sort(calls, function(one, other) return one.counted_at < other.counted_at end)
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

-- What the new windows know of what went before.
local function carry_logs(record, sources, carried)
  local known, calls = {}, all_calls()
  for name, sum in pairs(record.window_sums) do
    known[name] = {sum = sum, entries = redis.call('HGET', WINDOWS, name)}
  end
  parts.empty_hash(WINDOWS)
  record.window_sums = {}
  for name, source in pairs(sources) do
    local log = known[source]
    if log then
      logs_read[name] = {sum = log.sum, entries = logs.shifted(log.entries, carried[1])}
    else
      logs_read[name] = {sum = 0, entries = ''}
      local window = window_named(record.eras, name)
      for _, call in ipairs(calls) do
        logs.add(logs_read[name], call.counted_at + carried[1], call.units[window.unit] or 0, window.wide)
      end
    end
  end
  record.last_counted_at = record.last_counted_at + carried[1]
  local youngest = #calls > 0 and calls[#calls].counted_at or -FOREVER
  if carried[1] > 0 and youngest + carried[2] > record.last_step_at then
    record.held_back_until = max(record.held_back_until, max(record.last_step_at, youngest) + carried[2] + carried[3])
  end
end

local record = whole.take_over()
if not record or whole.has_lost(record, clock(tonumber(ARGV[7]), tonumber(ARGV[8]))) then
  return 0
end
local is_peoples = {}
for _, name in ipairs(PEOPLE) do
  is_peoples[name] = true
end
for part, value in pairs(cjson.decode(ARGV[1])) do
  local is = record[part]
  if is_peoples[part] then
    is = redis.call('HGET', HEADER, part) or ''
  end
  if is ~= value then
    return 0
  end
end
local before = record.eras[1] and record.eras[1].terms or NO_TERMS
for part, value in pairs(cjson.decode(ARGV[2])) do
  if is_peoples[part] then
    redis.call('HSET', HEADER, part, value)
  else
    record[part] = value
  end
end
record.version = record.version + tonumber(ARGV[4])
record.last_step_at = max(record.last_step_at, tonumber(ARGV[5]))
if ARGV[3] ~= '' then
  carry_logs(record, cjson.decode(ARGV[3]), cjson.decode(ARGV[6]))
  admission.place_all(record, before, record.eras[1].terms)
end
parts.store_logs(record)
header.store(record, true)
return 1
