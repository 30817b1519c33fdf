-- One exchange of a session with a limit, after clock, header, window_log, cooldown, sessions, line, forecast and admission.
--
-- KEYS     the limit's parts, as header.lua has them
-- ARGV[1]  the ask: a JSON list, in the order of header.read_ask
-- ARGV[2]  the limit's name
-- ARGV[3]  the start of the channels of sessions
-- ARGV[4]  the clock's time in ms instead of the server's, or -1
-- ARGV[5]  ms that are added to the server's clock
-- ARGV[6]  1 where nobody reads the reply: what the session itself is given is then published, too
--
-- Reply: the answer, as header.reply has it; nothing if an older program has left a record that must be taken over first.
-- Sessions that were given something hear of it: {limit, now, grants (as in the answer)} on their channel.
local record, older = header.load()
if older then
  return ''
end
local raw = clock(tonumber(ARGV[4]), tonumber(ARGV[5]))
if not record then
  return header.reply(header.unknown(raw))
end
local ask = header.read_ask(ARGV[1])
local answer = admission.decide(record, ask, raw)
if ARGV[6] == '1' and #answer.grants > 0 then
  answer.woken_session_ids[#answer.woken_session_ids + 1] = ask.session_id
end
for _, sid in ipairs(answer.woken_session_ids) do
  local told = {limit = ARGV[2], now = answer.now, grants = header.listed(seats[sid].unconfirmed, header.GRANT)}
  -- Only a hint: a user who may not publish can still do without.
  redis.pcall('PUBLISH', ARGV[3] .. sid, cjson.encode(told))
end
return header.reply(answer)
