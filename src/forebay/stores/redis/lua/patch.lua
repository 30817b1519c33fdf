-- Changes some parts of a limit's record that exchanges do not change, after window_log and record.
--
-- KEYS[1]  the limit's record
-- ARGV[1]  parts as they were when the change was made, which must still be so (JSON; no tables)
-- ARGV[2]  the parts that are new (JSON)
-- ARGV[3]  for each log of the new record the one that it continues (JSON), or nothing where the logs stay
-- ARGV[4]  by how much the version rises
-- ARGV[5]  the instant of the change, which exchanges may have passed meanwhile
--
-- Reply: 1 if it was changed, 0 if somebody else has changed such a part meanwhile.
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
if ARGV[3] ~= '' then
  local known = record.logs
  record.logs = {}
  for name, source in pairs(cjson.decode(ARGV[3])) do
    record.logs[name] = known[source] or logs.packed({sum = 0, items = {}})
  end
end
record.v = record.v + tonumber(ARGV[4])
record.last = math.max(record.last, tonumber(ARGV[5]))
redis.call('SET', KEYS[1], packed_again(record))
return 1
