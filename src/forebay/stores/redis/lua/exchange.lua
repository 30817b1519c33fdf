-- One exchange of a session with a limit, after clock, window_log, cooldown, parts, admission and whole.
--
-- KEYS     the limit's parts, as parts.lua has them
-- ARGV[1]  the ask: a JSON list, in the order of `asked` below
-- ARGV[2]  the limit's name
-- ARGV[3]  the start of the channels of sessions
-- ARGV[4]  the clock's time in ms instead of the server's, or -1
-- ARGV[5]  ms that are added to the server's clock
-- ARGV[6]  1 where nobody reads the reply: what the session itself is given is then published, too
--
-- Reply: the answer, a JSON list in the order of `answered` below: names would take longer to write and read than all
-- of the rules. Sessions that were given something hear of it: {limit, now, grants} on their channel.
local function asked(text)
  local a = cjson.decode(text)
  return {
    sid = a[1], n = a[2], heard = a[3], next = a[4], label = a[5], seen = a[6], elapsed = a[7], version = a[8],
    acked = a[9], sure = a[10], tv = a[11], done = a[12], hints = a[13], starts = a[14], runs = a[15],
  }
end

local function answered(a)
  return cjson.encode({
    a.status, a.now, a.v, a.gen, a.tv, a.lost, a.others, a.sessions, a.used, a.level, a.cut_off, a.offset, a.shut, a.began,
    a.more, a.grants, a.starts, a.waits, a.terms, a.wakes, a.sums,
  })
end

local record = take_over()
local raw = clock(tonumber(ARGV[4]), tonumber(ARGV[5]))
if not record then
  return answered(unknown(raw))
end
local ask = asked(ARGV[1])
local answer = decide(record, ask, raw)
if ARGV[6] == '1' and #answer.grants > 0 then
  answer.wakes[#answer.wakes + 1] = ask.sid
end
for _, sid in ipairs(answer.wakes) do
  local told = {limit = ARGV[2], now = answer.now, grants = seats[sid].out}
  -- Only a hint: a user who may not publish can still do without.
  redis.pcall('PUBLISH', ARGV[3] .. sid, cjson.encode(told))
end
return answered(answer)
