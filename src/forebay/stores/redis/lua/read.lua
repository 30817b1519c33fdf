-- A limit's record as it is, after window_log, clock and record.
--
-- KEYS[1]  the limit's record
-- ARGV[1]  the clock's time in ms instead of the server's, or -1
-- ARGV[2]  ms that are added to the server's clock
--
-- Reply: the clock's time as text, and, if there is a record, the record (JSON) and its mark, for swap.
local packed = redis.call('GET', KEYS[1])
local now = string.format('%.0f', clock(tonumber(ARGV[1]), tonumber(ARGV[2])))
if not packed then
  return {now}
end
local record = unpacked(packed)
for _, seat in pairs(record.seats) do
  calls_of(seat)
  seat.held, seat.ends, seat.packed = nil, nil, nil
end
for name, log in pairs(record.logs) do
  record.logs[name] = logs.listed(log)
end
return {now, cjson.encode(record), redis.sha1hex(packed)}
