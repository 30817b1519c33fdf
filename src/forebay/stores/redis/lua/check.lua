-- All that is kept of a limit, to be held against what the header counts; after whole. Changes nothing.
--
-- KEYS     the limit's parts, as header.lua has them
--
-- Reply: JSON of the whole record (logs not listed), of the counts, and of the members of ends, line and unconfirmed
-- with their scores; nothing where there is no record, or only that of an older program.
local record = header.load()
if not record then
  return ''
end
local function standing(key)
  local places = {}
  local found = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  for index = 1, #found, 2 do
    local member = found[index]
    if member ~= PRESENT then
      local tick, id, count, sid = struct.unpack('>I6I6I4s', member)
      places[#places + 1] = {sid, id, count, tonumber(found[index + 1]), tick}
    end
  end
  return places
end
local ends = {}
local found = redis.call('ZRANGE', ENDS, 0, -1, 'WITHSCORES')
for index = 1, #found, 2 do
  if found[index] ~= PRESENT then
    ends[found[index]] = tonumber(found[index + 1])
  end
end
local counts = {
  latest_call_until = record.latest_call_until, window_sums = record.window_sums, in_flight_sums = record.in_flight_sums,
}
for _, name in ipairs(COUNTS) do
  counts[name] = record[name]
end
local sizes = {calls = redis.call('HLEN', CALLS) - 1, windows = redis.call('HLEN', WINDOWS) - 1}
local read = whole.read(record)
for name, log in pairs(read.window_logs) do
  read.window_logs[name] = logs.listed(log)
end
return cjson.encode({read, counts, ends, standing(LINE), standing(UNCONFIRMED), sizes})
