-- forebay.rules.admission in Lua, line by line, as far as an exchange needs it, after line and forecast.
-- What Python sums over all sessions, the header counts; all else is the same. Nothing may depend on the order of pairs().
local MOST_ENDINGS = 8
local CUT_OFF = 'cut_off'
local TIMED_OUT = 'timed_out'

local admission = {}

function admission.terms_at(record, now)
  while #record.eras > 1 and 0 <= record.eras[1].ends_at and record.eras[1].ends_at <= now do
    table.remove(record.eras, 1)
    record.terms_version = record.terms_version + 1
  end
  return record.eras[1].terms
end

function admission.hold_back(record, terms, now)
  local wait = max(terms.start_within_ms, LATE) + terms.transit_ms + terms.call_timeout_ms
  for _, bound in ipairs(terms.windows) do
    wait = max(wait, logs.width(bound, terms) + line.most_fresh(terms) - terms.start_within_ms)
  end
  record.held_back_until = max(record.held_back_until, now + wait)
end

local function largest(terms)
  local found = {}
  for _, bound in ipairs(terms.windows) do
    if bound.n > 0 then
      found[bound.unit] = min(found[bound.unit] or FOREVER, bound.n)
    end
  end
  for _, bound in ipairs(terms.in_flight_units) do
    if bound.n > 0 then
      found[bound.unit] = min(found[bound.unit] or FOREVER, bound.n)
    end
  end
  return found
end

-- Under other terms other runs are too large for the line.
function admission.place_all(record, before, terms)
  local old, new = largest(before), largest(terms)
  local is_same = record.run_count == 0
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
  local latest = record.latest_call_until
  parts.clear(record)
  record.generation = record.generation + 1
  record.latest_call_until = latest
  record.virtual_time = 0
  record.held_back_until = max(record.held_back_until, latest)
  admission.hold_back(record, terms, now)
  for _, window in ipairs(line.counted(record)) do
    parts.log_named(record, window.name)
  end
  parts.store_logs(record)
end

-- Kept places whose owners are away: nothing is granted to them, whatever they had.
local function away_places(record)
  local away, count = {}, 0
  for _, sid in ipairs(redis.call('ZRANGEBYSCORE', ENDS, '(' .. string.format('%.0f', AFTER), '(+inf')) do
    if header.is_silent(header.load_seat(record, sid)) then
      away[sid] = true
      count = count + 1
    end
  end
  return away, count
end

-- Some of what sessions held was given back since, and nobody would do it again: what they hold in an older generation
-- counts no more (sessions.lua), and until then all of it is over.
local function void_all(record, ask, terms, now)
  record.generation = record.generation + 1
  record.version = max(record.version, ask.seen_version)
  admission.hold_back(record, terms, now)
  if record.latest_call_until > record.held_back_until then
    for _, name in ipairs(parts.fields_of(CALLS)) do
      local _, call_until = cmsgpack.unpack(redis.call('HGET', CALLS, name))
      record.held_back_until = max(record.held_back_until, call_until)
    end
  end
  parts.empty_hash(CALLS)
  local away, away_count = away_places(record)
  local still_parked = 0
  if record.parked_run_count > 0 then
    local places = redis.call('ZRANGE', UNCONFIRMED, 0, -1, 'WITHSCORES')
    parts.empty_set(UNCONFIRMED)
    for index = 1, #places, 2 do
      local member = places[index]
      local _, _, _, sid = struct.unpack('>I6I6I4s', member == PRESENT and ('\0'):rep(17) or member)
      if away[sid] then
        still_parked = still_parked + 1
      end
      redis.call('ZADD', away[sid] and UNCONFIRMED or LINE, places[index + 1], member)
    end
  end
  record.line_run_count = record.line_run_count + record.parked_run_count - still_parked
  record.parked_run_count, record.unconfirmed_session_count = still_parked, away_count
  record.in_flight_count, record.cut_off_count, record.latest_call_until = 0, 0, 0
  record.in_flight_sums = {}
  seats = {}
end

local function cut_off(record, sid, label, call, terms)
  local name = sid .. CUT_OFF_SID
  local ended = parts.seat_of(record, name, terms) or parts.add_seat(record, name)
  if terms.stops_on_disconnect == 0 then
    local due = call.call_until
    for _, id in ipairs(ended.open_calls) do
      due = min(due, parts.find_call(name, id).call_until)
    end
    ended.due_at = due
  end
  ended.label = label
  ended.next_call_id = max(ended.next_call_id, call.id + 1)
  parts.add_call(record, name, ended, call)
  parts.store_seat(record, name, ended, terms)
end

local function merged(units, others)
  local found = {}
  for unit, count in pairs(units) do
    found[unit] = count
  end
  for unit, count in pairs(others) do
    found[unit] = count
  end
  return found
end

local function finish(record, seat, ask, terms, now)
  for _, done in ipairs(ask.ended_calls) do
    local call = parts.take_call(record, ask.session_id, seat, done.call_id)
    if call and (done.outcome == 'unsent' or done.outcome == 'unreached') then
      if done.outcome == 'unreached' then
        cooldown.ended(record, terms, 'failed', call.granted_at, now)
      end
      line.uncount(record, call.units, call.counted_at, now)
    elseif call then
      local reserved = call.units
      local failed = done.outcome == TIMED_OUT
      cooldown.ended(record, terms, failed and 'failed' or done.outcome, call.granted_at, now)
      if failed or done.outcome == CUT_OFF then
        call.units = merged(reserved, done.units)
        cut_off(record, ask.session_id, seat.label, call, terms)
      else
        local took = now - call.granted_at
        local mean = record.mean_call_ms
        record.mean_call_ms = mean == 0 and took or mean + floor((took - mean) / 8)
      end
      for unit, used in pairs(done.units) do
        local more = used - (reserved[unit] or 0)
        if more > 0 then
          line.count(record, {[unit] = more}, max(now, record.last_counted_at))
        elseif more < 0 then
          line.uncount(record, {[unit] = -more}, call.counted_at, now)
        end
      end
    end
  end
end

local function is_held(seat, call_id)
  for _, id in ipairs(seat.open_calls) do
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
    if call.counted_at + logs.width(bound, terms) <= now then
      return false
    end
  end
  local counted_at = line.counted_at(record, now)
  if call.counted_at < counted_at then
    line.uncount(record, call.units, call.counted_at, now)
    line.count(record, call.units, counted_at)
  end
  call.granted_at, call.counted_at = now, counted_at
  call.call_until = now + line.held_for(record, terms)
  record.latest_call_until = max(record.latest_call_until, call.call_until)
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
    seat.runs, seat.unconfirmed = {}, {}
    local soonest = FOREVER
    for at = #seat.open_calls, 1, -1 do
      local call = parts.find_call(sid, seat.open_calls[at])
      if terms.stops_on_disconnect ~= 0 or call.call_until <= now then
        parts.take_call(record, sid, seat, seat.open_calls[at])
      else
        soonest = min(soonest, call.call_until)
      end
    end
    if #seat.open_calls == 0 then
      parts.drop_seat(record, sid, seat)
    else
      seat.due_at = soonest
      parts.store_seat(record, sid, seat, terms)
    end
  end
  return #due > MOST_ENDINGS
end

-- Takes up what a session says; returns the calls that start now.
local function hear(record, seat, ask, terms, now)
  header.renew(seat, ask, terms, now)
  -- Now: else the session would be among those that have ended.
  redis.call('ZADD', ENDS, seat.due_at, ask.session_id)
  seat.was.due_at = seat.due_at
  seat.label = ask.label
  if #seat.unconfirmed > 0 then
    local still = {}
    for _, grant in ipairs(seat.unconfirmed) do
      if grant.number > ask.confirmed_grant_number then
        still[#still + 1] = grant
      end
    end
    seat.unconfirmed = still
  end
  for _, window in ipairs(line.counted(record)) do
    logs.expire(parts.log_named(record, window.name), now, window.wide)
  end
  line.report_delay(record, terms, ask.grant_delay_ms, now)
  for _, refusal in ipairs(ask.refusals) do
    cooldown.throttle(record, terms, refusal, now)
  end
  finish(record, seat, ask, terms, now)
  local restamps = {}
  if ask.request_number > 0 then
    seat.request_number = ask.request_number
    for _, call_id in ipairs(ask.restamp_call_ids) do
      if restamp(record, ask.session_id, seat, call_id, terms, now) then
        restamps[#restamps + 1] = {call_id = call_id, granted_at = now, max_age_ms = line.late_now(record)}
      end
    end
    line.line_up(record, seat, ask.runs, terms)
  end
  return restamps
end

-- Decides, and stores what has changed.
function admission.decide(record, ask, raw)
  local offset, generation, terms_version = record.clock_offset_ms, record.generation, record.terms_version
  local now = header.logical(record, raw, ask.seen_at, ask.elapsed_ms)
  if #record.eras == 0 then
    return header.unknown(now)
  end
  local before = record.eras[1].terms
  local terms = admission.terms_at(record, now)
  if not parts.are_whole(record) then
    admission.start_again(record, terms, now)
  elseif record.terms_version ~= terms_version then
    admission.place_all(record, before, terms)
  end
  local seat = parts.seat_of(record, ask.session_id, terms)
  if header.has_forgotten(record, seat, ask, terms, now) then
    void_all(record, ask, terms, now)
    seat = parts.seat_of(record, ask.session_id, terms)
  end
  local is_as_known = record.clock_offset_ms == offset and record.generation == generation
    and record.terms_version == terms_version
  if seat and is_as_known and header.only_beats(seat, ask) then
    header.renew(seat, ask, terms, now)
    parts.store_seat(record, ask.session_id, seat, terms)
    redis.call('HSET', HEADER, 'last', string.format('%.0f', record.last_step_at))
    local answer = header.new_answer(record, seat, now, 'ok')
    header.fill_in(answer, record, seat, ask, terms)
    return answer
  end
  record.version = record.version + 1
  local lost = seat and 0 or 1
  seat = seat or parts.add_seat(record, ask.session_id)
  local keep = ask.keep_ms
  local status
  if header.is_foreign(seat, ask) or (keep == 0 and 0 < ask.request_number and ask.request_number < seat.request_number) then
    status = 'late'
  elseif keep > 0 and seat.place and seat.place.holder ~= ask.holder and is_place_held(seat, now) then
    status = 'held'
  end
  if status then
    header.store(record, record.terms_version ~= terms_version)
    return header.new_answer(record, seat, now, status)
  end
  local places = keep > 0 and make_places()
  local restamps = {}
  if places then
    places.hear(record, seat, ask, terms, now, restamp, cut_off)
    redis.call('ZADD', ENDS, seat.due_at, ask.session_id)
    seat.was.due_at = seat.due_at
  else
    restamps = hear(record, seat, ask, terms, now)
  end
  local more_ended = prune(record, terms, now)
  local due = places_due(now)
  if #due > 0 then
    places = places or make_places()
    more_ended = places.look_after(record, due, terms, now) or more_ended
  end
  local wakes, heads, last, more_to_grant, run_id, granted = line.serve(record, ask.session_id, seat, terms, now)
  local parked = #seat.runs > 0 and line.parked(record, ask.session_id, seat) or {}
  if keep > 0 then
    run_id = nil
    if #seat.unconfirmed > 0 and seat.place.holder == '' then
      places.bind(record, ask.session_id, seat, ask, terms, now)
    end
  end
  for _, sid in ipairs(wakes) do
    parts.store_seat(record, sid, seats[sid], terms)
  end
  if run_id and #seat.runs == 0 and record.run_count == seat.was.run_count then
    line.grant_in_hand(record, seat, ask, run_id, granted, terms, now)
  end
  if seats[ask.session_id] then
    parts.store_seat(record, ask.session_id, seat, terms)
  end
  if record.run_count == 0 then
    record.virtual_time = 0
  end
  local answer = header.new_answer(record, seat, now, 'ok')
  answer.session_lost = lost
  answer.restamps = restamps
  answer.woken_session_ids = wakes
  answer.waits = forecast.waits(record, ask.session_id, seat, heads, parked, last, terms, now)
  if keep > 0 and answer.waits[1] then
    places.tell(record, seat, answer.waits[1], keep, now)
    parts.store_seat(record, ask.session_id, seat, terms)
  end
  answer.has_more = (more_ended or more_to_grant) and 1 or 0
  parts.store_tails()
  parts.store_logs(record)
  header.fill_in(answer, record, seat, ask, terms)
  header.store(record, record.terms_version ~= terms_version)
  return answer
end
