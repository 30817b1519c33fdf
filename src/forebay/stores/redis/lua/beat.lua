-- A heartbeat of a session that says nothing else, after clock and header. It touches that session alone.
--
-- KEYS, ARGV, reply: as exchange.lua. Nothing is replied, and nothing is changed, where there is more to do: then the
-- session has to make an exchange of it.
local record = header.load()
local era = record and record.eras[1]
if not era then
  return ''
end
local ask = header.read_ask(ARGV[1])
local terms = era.terms
local offset = record.clock_offset_ms
local now = header.logical(record, clock(tonumber(ARGV[4]), tonumber(ARGV[5])), ask.seen_at, ask.elapsed_ms)
local is_as_known = record.clock_offset_ms == offset and not (#record.eras > 1 and 0 <= era.ends_at and era.ends_at <= now)
local seat = is_as_known and header.load_seat(record, ask.session_id)
if not seat or header.has_forgotten(record, seat, ask, terms, now) or not header.only_beats(seat, ask) then
  return ''
end
header.renew(seat, ask, terms, now)
-- A part that is gone must not look as if it were there.
if not redis.call('ZSCORE', ENDS, ask.session_id) then
  return ''
end
redis.call('ZADD', ENDS, seat.due_at, ask.session_id)
redis.call('HSET', SESSIONS, ask.session_id, header.pack_seat(record, seat))
redis.call('HSET', HEADER, 'last', string.format('%.0f', record.last_step_at))
local answer = header.new_answer(record, seat, now, 'ok')
header.fill_in(answer, record, seat, ask, terms)
return header.reply(answer)
