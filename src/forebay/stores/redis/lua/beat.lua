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
local offset = record.offset
local now = header.logical(record, clock(tonumber(ARGV[4]), tonumber(ARGV[5])), ask.seen, ask.elapsed)
local is_as_known = record.offset == offset and not (#record.eras > 1 and 0 <= era['until'] and era['until'] <= now)
local seat = is_as_known and header.load_seat(record, ask.sid)
if not seat or header.has_forgotten(record, seat, ask, terms, now) or not header.only_beats(seat, ask) then
  return ''
end
header.renew(seat, ask, terms, now)
-- A part that is gone must not look as if it were there.
if not redis.call('ZSCORE', ENDS, ask.sid) then
  return ''
end
redis.call('ZADD', ENDS, seat.due, ask.sid)
redis.call('HSET', SESSIONS, ask.sid, header.pack_seat(record, seat))
redis.call('HSET', HEADER, 'last', string.format('%.0f', record.last))
local answer = header.new_answer(record, seat, now, 'ok')
header.fill_in(answer, record, seat, ask, terms)
return header.reply(answer)
