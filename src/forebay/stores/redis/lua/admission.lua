-- forebay.rules.admission in Lua, line by line, as far as an exchange needs it, after line and forecast.
-- What Python sums over all sessions, the header counts; all else is the same. Nothing may depend on the order of pairs().
local MOST_ENDINGS = 8
local CUT_OFF = 'cut_off'
local TIMED_OUT = 'timed_out'

local admission = {}

function admission.terms_at(record, now)
  while #record.eras > 1 and 0 <= record.eras[1]['until'] and record.eras[1]['until'] <= now do
    table.remove(record.eras, 1)
    record.tv = record.tv + 1
  end
  return record.eras[1].terms
end

function admission.hold_back(record, terms, now)
  local wait = max(terms.start, LATE) + terms.transit + terms.call
  for _, bound in ipairs(terms.windows) do
    wait = max(wait, logs.width(bound, terms))
  end
  record.hold = max(record.hold, now + wait)
end

local function largest(terms)
  local found = {}
  for _, bound in ipairs(terms.windows) do
    if bound.n > 0 then
      found[bound.unit] = min(found[bound.unit] or FOREVER, bound.n)
    end
  end
  return found
end

-- Under other terms other runs are too large for the line.
function admission.place_all(record, before, terms)
  local old, new = largest(before), largest(terms)
  local is_same = record.runs == 0
  if not is_same then
    is_same = true
    for unit, n in pairs(old) do
      is_same = is_same and new[unit] == n
    end
    for unit, n in pairs(new) do
      is_same = is_same and old[unit] == n
    end
  end
  if is_same then
    return
  end
  for _, sid in ipairs(parts.fields_of(SESSIONS)) do
    parts.store_seat(record, sid, parts.seat_of(record, sid, before), terms)
  end
end

-- Some parts are gone: so may be what others held and who waited.
function admission.start_again(record, terms, now)
  local latest = record.latest
  parts.clear(record)
  record.gen = record.gen + 1
  record.latest = latest
  record.virtual = 0
  record.hold = max(record.hold, latest)
  admission.hold_back(record, terms, now)
  for _, window in ipairs(line.counted(record)) do
    parts.log_named(record, window.name)
  end
  parts.store_logs(record)
end

-- Some of what sessions held was given back since, and nobody would do it again: what they hold in an older generation
-- counts no more (sessions.lua), and until then all of it is over.
local function void_all(record, ask, terms, now)
  record.gen = record.gen + 1
  record.v = max(record.v, ask.version)
  admission.hold_back(record, terms, now)
  if record.latest > record.hold then
    for _, name in ipairs(parts.fields_of(CALLS)) do
      local _, until_ = cmsgpack.unpack(redis.call('HGET', CALLS, name))
      record.hold = max(record.hold, until_)
    end
  end
  parts.empty_hash(CALLS)
  if record.parked > 0 then
    local places = redis.call('ZRANGE', UNCONFIRMED, 0, -1, 'WITHSCORES')
    for index = 1, #places, 2 do
      redis.call('ZADD', LINE, places[index + 1], places[index])
    end
    parts.empty_set(UNCONFIRMED)
  end
  record.in_line, record.parked, record.silent = record.in_line + record.parked, 0, 0
  record.used, record.cut_off, record.latest = 0, 0, 0
  seats = {}
end

local function cut_off(record, sid, label, call, terms)
  local name = sid .. CUT_OFF_SID
  local ended = parts.seat_of(record, name, terms) or parts.add_seat(record, name)
  if terms.stops == 0 then
    local due = call['until']
    for _, id in ipairs(ended.open) do
      due = min(due, parts.find_call(name, id)['until'])
    end
    ended.due = due
  end
  ended.label = label
  ended.next = max(ended.next, call.id + 1)
  parts.add_call(record, name, ended, call)
  parts.store_seat(record, name, ended, terms)
end

local function finish(record, seat, ask, terms, now)
  for _, done in ipairs(ask.done) do
    local call = parts.take_call(record, ask.sid, seat, done.id)
    if call and (done.outcome == 'unsent' or done.outcome == 'unreached') then
      if done.outcome == 'unreached' then
        cooldown.ended(record, terms, 'failed', call.at, now)
      end
      line.uncount(record, call.units, call.at, now)
    elseif call then
      local failed = done.outcome == TIMED_OUT
      cooldown.ended(record, terms, failed and 'failed' or done.outcome, call.at, now)
      if failed or done.outcome == CUT_OFF then
        cut_off(record, ask.sid, seat.label, call, terms)
      else
        local took = now - call.at
        record.mean = record.mean == 0 and took or record.mean + floor((took - record.mean) / 8)
      end
      for unit, used in pairs(done.units) do
        local more = used - (call.units[unit] or 0)
        if more > 0 then
          line.count(record, {[unit] = more}, now)
        elseif more < 0 then
          line.uncount(record, {[unit] = -more}, call.at, now)
        end
      end
    end
  end
end

local function is_held(seat, call_id)
  for _, id in ipairs(seat.open) do
    if id == call_id then
      return true
    end
  end
  return false
end

local function restamp(record, sid, seat, call_id, terms, now)
  local _, shut_until = header.gate(record, terms, now)
  if not is_held(seat, call_id) or shut_until > now then
    return false
  end
  local call = parts.find_call(sid, call_id)
  for _, bound in ipairs(terms.windows) do
    if call.at + logs.width(bound, terms) <= now then
      return false
    end
  end
  if call.at < now then
    line.uncount(record, call.units, call.at, now)
    line.count(record, call.units, now)
  end
  call.at = now
  call['until'] = now + line.held_for(record, terms)
  record.latest = max(record.latest, call['until'])
  parts.store_call(sid, call)
  return true
end

-- Drops what sessions hold that have ended; returns whether more of them have than one step clears away.
local function prune(record, terms, now)
  local due = redis.call('ZRANGEBYSCORE', ENDS, '-inf', now, 'LIMIT', 0, MOST_ENDINGS + 1)
  for index = 1, min(#due, MOST_ENDINGS) do
    local sid = due[index]
    local seat = parts.seat_of(record, sid, terms)
    for _, run in ipairs(seat.runs) do
      parts.left_line(record, run.key)
    end
    seat.runs, seat.out = {}, {}
    local soonest = FOREVER
    for at = #seat.open, 1, -1 do
      local call = parts.find_call(sid, seat.open[at])
      if terms.stops ~= 0 or call['until'] <= now then
        parts.take_call(record, sid, seat, seat.open[at])
      else
        soonest = min(soonest, call['until'])
      end
    end
    if #seat.open == 0 then
      parts.drop_seat(record, sid, seat)
    else
      seat.due = soonest
      parts.store_seat(record, sid, seat, terms)
    end
  end
  return #due > MOST_ENDINGS
end

-- Takes up what a session says; returns the calls that start now.
local function hear(record, seat, ask, terms, now)
  header.renew(seat, ask, terms, now)
  -- Now: else the session would be among those that have ended.
  redis.call('ZADD', ENDS, seat.due, ask.sid)
  seat.was.due = seat.due
  seat.label = ask.label
  if #seat.out > 0 then
    local out = {}
    for _, grant in ipairs(seat.out) do
      if grant.g > ask.heard then
        out[#out + 1] = grant
      end
    end
    seat.out = out
  end
  for _, window in ipairs(line.counted(record)) do
    logs.expire(parts.log_named(record, window.name), now, window.wide)
  end
  for _, hint in ipairs(ask.hints) do
    cooldown.throttle(record, terms, hint, now)
  end
  finish(record, seat, ask, terms, now)
  local starts = {}
  if ask.n > 0 then
    seat.n = ask.n
    for _, call_id in ipairs(ask.starts) do
      if restamp(record, ask.sid, seat, call_id, terms, now) then
        starts[#starts + 1] = {id = call_id, at = now, late = line.late_now(record)}
      end
    end
    line.line_up(record, seat, ask.runs, terms)
  end
  return starts
end

-- Decides, and stores what has changed.
function admission.decide(record, ask, raw)
  local offset, gen, tv = record.offset, record.gen, record.tv
  local now = header.logical(record, raw, ask.seen, ask.elapsed)
  if #record.eras == 0 then
    return header.unknown(now)
  end
  local before = record.eras[1].terms
  local terms = admission.terms_at(record, now)
  if not parts.are_whole(record) then
    admission.start_again(record, terms, now)
  elseif record.tv ~= tv then
    admission.place_all(record, before, terms)
  end
  local seat = parts.seat_of(record, ask.sid, terms)
  if header.has_forgotten(record, seat, ask, terms, now) then
    void_all(record, ask, terms, now)
    seat = parts.seat_of(record, ask.sid, terms)
  end
  local is_as_known = record.offset == offset and record.gen == gen and record.tv == tv
  if seat and is_as_known and header.only_beats(seat, ask) then
    header.renew(seat, ask, terms, now)
    parts.store_seat(record, ask.sid, seat, terms)
    redis.call('HSET', HEADER, 'last', string.format('%.0f', record.last))
    local answer = header.new_answer(record, seat, now, 'ok')
    header.fill_in(answer, record, seat, ask, terms)
    return answer
  end
  record.v = record.v + 1
  local lost = seat and 0 or 1
  seat = seat or parts.add_seat(record, ask.sid)
  if 0 < ask.n and ask.n < seat.n then
    header.store(record, record.tv ~= tv)
    return header.new_answer(record, seat, now, 'late')
  end
  local starts = hear(record, seat, ask, terms, now)
  local more_ended = prune(record, terms, now)
  local wakes, heads, last, more_to_grant = line.serve(record, ask.sid, seat, terms, now)
  local parked = #seat.runs > 0 and line.parked(record, ask.sid, seat) or {}
  parts.store_seat(record, ask.sid, seat, terms)
  for _, sid in ipairs(wakes) do
    parts.store_seat(record, sid, seats[sid], terms)
  end
  if record.runs == 0 then
    record.virtual = 0
  end
  local answer = header.new_answer(record, seat, now, 'ok')
  answer.lost = lost
  answer.starts = starts
  answer.wakes = wakes
  answer.waits = forecast.waits(record, ask.sid, seat, heads, parked, last, terms, now)
  answer.more = (more_ended or more_to_grant) and 1 or 0
  parts.store_tails()
  parts.store_logs(record)
  header.fill_in(answer, record, seat, ask, terms)
  header.store(record, record.tv ~= tv)
  return answer
end
