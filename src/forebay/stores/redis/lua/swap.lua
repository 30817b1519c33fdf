-- Replaces a limit's record if nobody was faster, after window_log and record.
--
-- KEYS[1]  the limit's record
-- ARGV[1]  the mark of what was read, or nothing where there was none
-- ARGV[2]  the new record (JSON)
--
-- Reply: 1 if it was replaced, else 0.
local packed = redis.call('GET', KEYS[1])
if (packed and redis.sha1hex(packed) or '') ~= ARGV[1] then
  return 0
end
local record = cjson.decode(ARGV[2])
for name, log in pairs(record.logs) do
  record.logs[name] = logs.packed(log)
end
redis.call('SET', KEYS[1], packed_again(record))
return 1
