-- One exchange of a session with a limit, after record, window_log, cooldown, admission and clock.
--
-- KEYS[1]  the limit's record
-- ARGV[1]  the ask (JSON)
-- ARGV[2]  the limit's name
-- ARGV[3]  the start of the channels of sessions
-- ARGV[4]  the clock's time in ms instead of the server's, or -1
-- ARGV[5]  ms that are added to the server's clock
--
-- Reply: the answer (JSON). Sessions that were given something hear of it: {limit, now, grants} on their channel.
local packed = redis.call('GET', KEYS[1])
local raw = clock(tonumber(ARGV[4]), tonumber(ARGV[5]))
if not packed then
  return cjson.encode(unknown(raw))
end
local record = unpacked(packed)
local answer = decide(record, cjson.decode(ARGV[1]), raw)
if answer.status == 'unknown' then
  return cjson.encode(answer)
end
redis.call('SET', KEYS[1], packed_again(record))
for _, sid in ipairs(answer.wakes) do
  local told = {limit = ARGV[2], now = answer.now, grants = record.seats[sid].out}
  -- Only a hint: a user who may not publish can still do without.
  redis.pcall('PUBLISH', ARGV[3] .. sid, cjson.encode(told))
end
return cjson.encode(answer)
