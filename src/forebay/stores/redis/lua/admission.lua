-- forebay.rules.admission in Lua, line by line, as far as an exchange needs it.
-- What Python sums over all sessions, the header counts; all else is the same. Nothing may depend on the order of pairs().
local HEADS = 32
local MOST_GRANTS = 32
local MOST_ENDINGS = 8
local JUMP = 2 * SECOND
local LATE = 2 * SECOND
local POLL = 5 * SECOND
local GRACE = 50
local EXACT_GRACE = 10
local SCALE = 1000
local FOREVER = 2 ^ 45
local IN_FLIGHT = 'in_flight'
local PAUSED = 'paused'
local RELEARNING = 'relearning'
local RAMP = 'ramp'
local TOO_LARGE = 'too_large'
local CUT_OFF = 'cut_off'
local TIMED_OUT = 'timed_out'

local function new_answer(record, seat, now, status)
  return {
    status = status, now = now, v = record.v, gen = record.gen, tv = record.tv, lost = 0,
    grants = status == 'late' and {} or seat.out,
    starts = {}, waits = {}, terms = {}, wakes = {}, others = 0, sessions = record.alive,
    used = 0, sums = {}, level = 0, cut_off = 0, offset = record.offset, shut = 0,
    began = record.cool.began, more = 0,
  }
end

local function unknown(now)
  return new_answer({v = 0, gen = 1, tv = 0, offset = 0, cool = {began = 0}, alive = 0}, new_seat(), now, 'unknown')
end

local function logical(record, raw, seen, elapsed)
  local now = raw + record.offset
  local last = record.last
  local told = seen >= 0 and seen + elapsed or -1
  local true_now = now
  if now < last - JUMP then
    true_now = max(told, last)
  elseif last - JUMP <= told and told < now - JUMP then
    true_now = told
  end
  record.offset = record.offset + true_now - now
  now = max(true_now, last)
  record.last = now
  return now
end

local function terms_at(record, now)
  while #record.eras > 1 and 0 <= record.eras[1]['until'] and record.eras[1]['until'] <= now do
    table.remove(record.eras, 1)
    record.tv = record.tv + 1
  end
  return record.eras[1].terms
end

local function late_after(terms)
  return #terms.windows > 0 and terms.start or max(terms.start, LATE)
end

local function late_now(record)
  local late = FOREVER
  for _, era in ipairs(record.eras) do
    late = min(late, late_after(era.terms))
  end
  return late
end

local function held_for(record, terms)
  return late_now(record) + terms.transit + terms.call
end

local function hold_back(record, terms, now)
  local wait = max(terms.start, LATE) + terms.transit + terms.call
  for _, bound in ipairs(terms.windows) do
    wait = max(wait, logs.width(bound, terms))
  end
  record.hold = max(record.hold, now + wait)
end

-- Under other terms other runs are too large for the line.
local function place_all(record, before, terms)
  for sid in pairs_of(redis.call('HGETALL', SESSIONS)) do
    store_seat(record, sid, seat_of(sid, before), terms)
  end
end

-- What was granted may still be under way, and nobody would give it back again.
local function void_all(record, terms, now)
  record.hold = max(record.hold, record.latest)
  if record.used > 0 or record.silent > 0 then
    for sid in pairs_of(redis.call('HGETALL', SESSIONS)) do
      local seat = seat_of(sid, terms)
      seat.open, seat.out = {}, {}
      store_seat(record, sid, seat, terms)
    end
    redis.call('DEL', CALLS)
    record.used, record.cut_off = 0, 0
  end
  hold_back(record, terms, now)
end

-- Some parts are gone: so may be what others held and who waited.
local function start_again(record, terms, now)
  redis.call('DEL', SESSIONS, CALLS, ENDS, LINE, UNCONFIRMED, TAILS, WINDOWS)
  local latest = record.latest
  new_counts(record)
  record.gen = record.gen + 1
  record.latest = latest
  record.virtual = 0
  record.hold = max(record.hold, latest)
  hold_back(record, terms, now)
end

local function notice_loss(record, ask, terms, now)
  local seat = seat_of(ask.sid, terms)
  local last_n = seat and seat.n or 0
  local last_g = seat and seat.g or 0
  local sure = ask.sure ~= 0 and now < ask.seen + terms.lease
  if ask.version > record.v or (sure and (last_n < ask.acked or last_g < ask.heard)) then
    record.gen = record.gen + 1
    record.v = max(record.v, ask.version)
    void_all(record, terms, now)
  end
end

local function log_of(record, bound)
  return log_named(record, logs.name(bound))
end

-- Of one exchange: its eras do not change any more once it counts.
local windows_counted

local function counted(record)
  if windows_counted then
    return windows_counted
  end
  local windows, found = {}, {}
  for _, era in ipairs(record.eras) do
    for _, bound in ipairs(era.terms.windows) do
      local name = logs.name(bound)
      if not found[name] then
        found[name] = true
        windows[#windows + 1] = {name = name, unit = bound.unit, wide = logs.width(bound, era.terms)}
      end
    end
  end
  windows_counted = windows
  return windows
end

local function count_units(record, units, now)
  for _, window in ipairs(counted(record)) do
    logs.add(log_named(record, window.name), now, units[window.unit] or 0, window.wide)
  end
end

local function uncount(record, units, granted_at, now)
  for _, window in ipairs(counted(record)) do
    if granted_at + window.wide > now then
      logs.take_back(log_named(record, window.name), granted_at, units[window.unit] or 0, window.wide)
    end
  end
end

local function cut_off(record, ask, label, call, terms)
  local name = ask.sid .. CUT_OFF_SID
  local ended = seat_of(name, terms) or add_seat(name)
  if terms.stops == 0 then
    local due = call['until']
    for _, id in ipairs(ended.open) do
      due = min(due, find_call(name, id)['until'])
    end
    ended.due = due
  end
  ended.label = label
  ended.next = max(ended.next, call.id + 1)
  add_call(record, name, ended, call)
  store_seat(record, name, ended, terms)
end

local function finish(record, seat, ask, terms, now)
  for _, done in ipairs(ask.done) do
    local call = take_call(record, ask.sid, seat, done.id)
    if call and (done.outcome == 'unsent' or done.outcome == 'unreached') then
      if done.outcome == 'unreached' then
        cooldown.ended(record, terms, 'failed', call.at, now)
      end
      uncount(record, call.units, call.at, now)
    elseif call then
      local failed = done.outcome == TIMED_OUT
      cooldown.ended(record, terms, failed and 'failed' or done.outcome, call.at, now)
      if failed or done.outcome == CUT_OFF then
        cut_off(record, ask, seat.label, call, terms)
      else
        local took = now - call.at
        record.mean = record.mean == 0 and took or record.mean + floor((took - record.mean) / 8)
      end
      for unit, used in pairs(done.units) do
        local more = used - (call.units[unit] or 0)
        if more > 0 then
          count_units(record, {[unit] = more}, now)
        elseif more < 0 then
          uncount(record, {[unit] = -more}, call.at, now)
        end
      end
    end
  end
end

local function gate(record, terms, now)
  local cool = record.cool
  if record.paused == 0 or record.paused > now then
    return PAUSED, record.paused == 0 and FOREVER or record.paused
  end
  if terms.in_flight == 0 then
    return PAUSED, FOREVER
  end
  for _, bound in ipairs(terms.windows) do
    if bound.n == 0 then
      return PAUSED, FOREVER
    end
  end
  if cool['until'] > now and cool['until'] >= record.hold then
    return cool.kind, cool['until']
  end
  if record.hold > now then
    return RELEARNING, record.hold
  end
  return '', 0
end

local function is_open(seat, call_id)
  for _, id in ipairs(seat.open) do
    if id == call_id then
      return true
    end
  end
  return false
end

local function restamp(record, sid, seat, call_id, terms, now)
  local _, shut_until = gate(record, terms, now)
  if not is_open(seat, call_id) or shut_until > now then
    return false
  end
  local call = find_call(sid, call_id)
  for _, bound in ipairs(terms.windows) do
    if call.at + logs.width(bound, terms) <= now then
      return false
    end
  end
  if call.at < now then
    uncount(record, call.units, call.at, now)
    count_units(record, call.units, now)
  end
  call.at = now
  call['until'] = now + held_for(record, terms)
  record.latest = max(record.latest, call['until'])
  store_call(sid, call)
  return true
end

local function cost(units, terms)
  local most = 1
  if terms.in_flight > 0 then
    most = max(most, floor(SCALE / terms.in_flight))
  end
  for _, bound in ipairs(terms.windows) do
    if bound.n > 0 then
      most = max(most, floor((units[bound.unit] or 0) * SCALE / bound.n))
    end
  end
  return min(most, SCALE)
end

local function enter_line(record, wish)
  local tail = tail_of(wish.key) or add_tail(record, wish.key, record.virtual)
  tail.runs = tail.runs + 1
  return wish.front ~= 0 and record.virtual - FOREVER or max(record.virtual, tail.tag)
end

local function line_up(record, seat, wishes, terms)
  local before = {}
  for _, run in ipairs(seat.runs) do
    before[run.id] = run
  end
  seat.runs = {}
  for _, wish in ipairs(wishes) do
    local count = wish.count
    for _, grant in ipairs(seat.out) do
      if grant.run == wish.id then
        count = count - grant.count
      end
    end
    if count > 0 then
      local run = before[wish.id]
      before[wish.id] = nil
      if run then
        run.count = count
      else
        record.tick = record.tick + 1
        run = {
          id = wish.id, key = wish.key, count = count, units = wish.units, label = wish.label,
          tag = enter_line(record, wish), tick = record.tick,
        }
      end
      local tail = tail_of(run.key)
      tail.tag = max(tail.tag, run.tag + count * cost(run.units, terms))
      tail.changed = true
      seat.runs[#seat.runs + 1] = run
    end
  end
  for _, run in pairs(before) do
    left_line(record, run.key)
  end
end

-- Whether more sessions have ended than one step clears away.
local function prune(record, terms, now)
  local due = redis.call('ZRANGEBYSCORE', ENDS, '-inf', now, 'LIMIT', 0, MOST_ENDINGS + 1)
  for index = 1, min(#due, MOST_ENDINGS) do
    local sid = due[index]
    local seat = seat_of(sid, terms)
    for _, run in ipairs(seat.runs) do
      left_line(record, run.key)
    end
    seat.runs, seat.out = {}, {}
    local soonest = math.huge
    for _, id in ipairs(copied(seat.open)) do
      local call = find_call(sid, id)
      if terms.stops ~= 0 or call['until'] <= now then
        take_call(record, sid, seat, id)
      else
        soonest = min(soonest, call['until'])
      end
    end
    if #seat.open == 0 then
      drop_seat(record, sid, seat)
    else
      seat.due = soonest
      store_seat(record, sid, seat, terms)
    end
  end
  return #due > MOST_ENDINGS
end

local function before_in_line(one, other)
  if one.run.tag ~= other.run.tag then
    return one.run.tag < other.run.tag
  end
  return one.run.tick < other.run.tick
end

-- The first places of a set but those of one session: {sid, run}, where run is only what the place says of it.
local function first_places(set, but, most)
  local places = {}
  local found = redis.call('ZRANGE', set, 0, most - 1, 'WITHSCORES')
  for index = 1, #found, 2 do
    local values = cmsgpack.unpack(found[index]:sub(7))
    if values[1] ~= but then
      places[#places + 1] = {
        sid = values[1], tag = nil,
        run = {
          id = values[2], count = values[3], units = values[4],
          tag = tonumber(found[index + 1]), tick = struct.unpack('>I6', found[index]),
        },
      }
    end
  end
  return places
end

local function cut_to_heads(places)
  table.sort(places, before_in_line)
  for index = #places, HEADS + 1, -1 do
    places[index] = nil
  end
end

-- The asker's own runs stand in line even if it has not confirmed its last grants; nothing of it has been stored yet.
local function look_at_line(record, sid, seat, terms)
  local stood = {[LINE] = 0, [UNCONFIRMED] = 0}
  for _, place in ipairs(seat.stood) do
    stood[place[1]] = stood[place[1]] + 1
  end
  local heads, silent = {}, {}
  if record.placed > #seat.stood then
    heads = first_places(LINE, sid, HEADS + stood[LINE])
    silent = record.silent > 0 and first_places(UNCONFIRMED, sid, HEADS + stood[UNCONFIRMED]) or {}
  end
  local count = #heads
  if count >= HEADS then
    count = redis.call('ZCARD', LINE) - stood[LINE]
  end
  for _, run in ipairs(seat.runs) do
    if not too_large(terms, run.units) then
      heads[#heads + 1] = {sid = sid, run = run}
      count = count + 1
    end
  end
  cut_to_heads(heads)
  cut_to_heads(silent)
  return heads, silent, count > HEADS and heads[HEADS]
end

-- Whether any call could start, whatever it takes of the windows.
local function has_room(record, terms, now)
  return not (0 <= terms.in_flight and terms.in_flight <= record.used) and cooldown.room(record, terms, now) > 0
end

local function fits(record, terms, run)
  for _, bound in ipairs(terms.windows) do
    if log_of(record, bound).sum + (run.units[bound.unit] or 0) > bound.n then
      return false
    end
  end
  return true
end

local function spares(record, terms, run, head)
  if (0 <= terms.in_flight and terms.in_flight < record.used + 2) or record.cool.ramp ~= 0 then
    return false
  end
  for _, bound in ipairs(terms.windows) do
    local then_used = logs.used_at(log_of(record, bound), head.starts_at, logs.width(bound, terms))
    if then_used + (run.units[bound.unit] or 0) + (head.units[bound.unit] or 0) > bound.n then
      return false
    end
  end
  return true
end

local function windows_free_in(record, terms, units, now)
  local free_in = 0
  for _, bound in ipairs(terms.windows) do
    local log = log_of(record, bound)
    local need = units[bound.unit] or 0
    if need > 0 then
      free_in = max(free_in, logs.free_in(log, now, logs.width(bound, terms), bound.n, need))
    end
  end
  return free_in
end

local function grant_one(record, place, terms, now, more)
  local seat, run = seat_of(place.sid, terms), place.run
  local call_id = seat.next
  seat.next = seat.next + 1
  add_call(record, place.sid, seat, {
    id = call_id, at = now, ['until'] = now + held_for(record, terms), units = run.units, label = run.label,
    key = run.key ~= '' and run.key or nil,
  })
  count_units(record, run.units, now)
  cooldown.granted(record, now)
  local last = seat.out[#seat.out]
  if more and last.run == run.id then
    last.count = last.count + 1
  else
    seat.g = seat.g + 1
    seat.out[#seat.out + 1] = {
      g = seat.g, run = run.id, count = 1, first = call_id, at = now, late = late_now(record),
    }
  end
  record.virtual = max(record.virtual, run.tag)
  run.tag = run.tag + cost(run.units, terms)
  run.count = run.count - 1
end

local function leave(seat, run)
  for index, each in ipairs(seat.runs) do
    if each == run then
      table.remove(seat.runs, index)
      return
    end
  end
end

-- The run itself, in its session, instead of what its place says of it.
local function resolve(place, terms)
  for _, run in ipairs(seat_of(place.sid, terms).runs) do
    if run.id == place.run.id then
      place.run = run
      return
    end
  end
end

local function fall_in(waiting, first)
  local at = first
  while at + 1 <= #waiting and before_in_line(waiting[at + 1], waiting[at]) do
    waiting[at], waiting[at + 1] = waiting[at + 1], waiting[at]
    at = at + 1
  end
end

-- Returns the sessions that got something, the first places, whether these are all, and whether more is to do.
local function serve(record, sid, seat, terms, now)
  local heads, silent, last = look_at_line(record, sid, seat, terms)
  local last_place = last and {run = {tag = last.run.tag, tick = last.run.tick}}
  local waiting = copied(heads)
  local head
  local woken, wakes = {}, {}
  local first, granted = 1, 0
  local _, shut_until = gate(record, terms, now)
  while first <= #waiting and shut_until <= now and granted < MOST_GRANTS and has_room(record, terms, now) do
    local place = waiting[first]
    if not fits(record, terms, place.run) or (head and not spares(record, terms, place.run, head)) then
      if not head then
        head = {units = place.run.units, starts_at = now + windows_free_in(record, terms, place.run.units, now)}
      end
      first = first + 1
    else
      resolve(place, terms)
      local run = place.run
      grant_one(record, place, terms, now, woken[place.sid])
      granted = granted + 1
      if not woken[place.sid] and place.sid ~= sid then
        wakes[#wakes + 1] = place.sid
      end
      woken[place.sid] = true
      if run.count == 0 then
        first = first + 1
        leave(seat_of(place.sid, terms), run)
        left_line(record, run.key)
      elseif last_place and before_in_line(last_place, place) then
        first = first + 1
      else
        fall_in(waiting, first)
      end
    end
  end
  local more = granted > 0 and (first <= #waiting or last_place) and has_room(record, terms, now)
  local are_all = not last_place and #heads < HEADS and #silent < HEADS
  for _, each in ipairs(silent) do
    heads[#heads + 1] = each
  end
  return wakes, heads, are_all, more
end

local function release_in(record, terms, ahead)
  local releases = record.used + ahead + 1 - terms.in_flight
  if terms.in_flight <= 0 or releases <= 0 then
    return -1
  end
  local mean = record.mean > 0 and record.mean or terms.call
  return floor(mean * releases / terms.in_flight)
end

local function forecast(record, terms, ahead, ahead_units, units, now)
  if too_large(terms, units) then
    return FOREVER, {TOO_LARGE}
  end
  local by = {}
  local eta = 0
  local reason, shut_until = gate(record, terms, now)
  if shut_until > now then
    by[#by + 1] = reason
    eta = shut_until - now
  elseif cooldown.room(record, terms, now) <= 0 then
    by[#by + 1] = RAMP
    eta = cooldown.next_room_at(record, now) - now
  end
  local released_in = release_in(record, terms, ahead)
  if released_in >= 0 then
    by[#by + 1] = IN_FLIGHT
    eta = max(eta, released_in)
  end
  for _, bound in ipairs(terms.windows) do
    local need = (ahead_units[bound.unit] or 0) + (units[bound.unit] or 0)
    if need > 0 and bound.n > 0 then
      local free_in = logs.free_in(log_of(record, bound), now, logs.width(bound, terms), bound.n, need)
      if free_in > 0 then
        by[#by + 1] = logs.name(bound)
        eta = max(eta, free_in)
      end
    end
  end
  return min(eta, FOREVER), by
end

local function next_end_at(sid, now)
  local soonest = now + POLL
  local found = redis.call('ZRANGE', ENDS, 0, 1, 'WITHSCORES')
  for index = 1, #found, 2 do
    if found[index] ~= sid then
      soonest = min(soonest, max(tonumber(found[index + 1]), now + 1))
    end
  end
  return soonest
end

local function ask_again_in(record, sid, terms, units, now)
  local again = POLL
  local _, shut_until = gate(record, terms, now)
  if shut_until > now then
    again = min(again, shut_until - now)
  elseif cooldown.room(record, terms, now) <= 0 then
    again = min(again, cooldown.next_room_at(record, now) - now)
  else
    local free_in = windows_free_in(record, terms, units, now)
    if free_in > 0 then
      again = min(again, free_in)
    end
    if 0 <= terms.in_flight and terms.in_flight <= record.used then
      again = min(again, next_end_at(sid, now) - now)
    end
  end
  return max(1, again)
end

local function ahead_of(record, sid, first, places, are_all)
  local calls, runs, units = 0, 0, {}
  for _, place in ipairs(places) do
    local run = place.run
    if place.sid ~= sid and run.count > 0 and before_in_line(place, first) then
      runs = runs + 1
      calls = calls + run.count
      for unit, count in pairs(run.units) do
        units[unit] = (units[unit] or 0) + count * run.count
      end
    end
  end
  local rank = runs
  if not are_all then
    local below = '(' .. string.format('%.0f', first.run.tag)
    rank = redis.call('ZCOUNT', LINE, '-inf', below) + redis.call('ZCOUNT', UNCONFIRMED, '-inf', below)
  end
  if rank > runs and calls > 0 then
    for unit, count in pairs(units) do
      units[unit] = floor(count * rank / runs)
    end
    calls = floor(calls * rank / runs)
  end
  return calls, units
end

local function waits_of(record, sid, seat, places, are_all, terms, now)
  local first
  for _, run in ipairs(seat.runs) do
    local place = {run = run}
    if not first or before_in_line(place, first) then
      first = place
    end
  end
  if not first then
    return {}
  end
  local run = first.run
  local calls, units = ahead_of(record, sid, first, places, are_all)
  local eta, by = forecast(record, terms, calls, units, run.units, now)
  local again = ask_again_in(record, sid, terms, run.units, now)
  if calls > 0 then
    local grace = eta > release_in(record, terms, calls) and EXACT_GRACE or GRACE
    again = min(POLL, max(again, eta) + grace)
  end
  return {{again = again, eta = eta, ahead = calls, by = by}}
end

-- Begins the session's lease again. A seat that is new continues where the session is.
local function renew(seat, ask, terms, now)
  seat['until'] = now + terms.lease
  seat.due = seat['until']
  seat.next = max(seat.next, ask.next)
  seat.g = max(seat.g, ask.heard)
  seat.n = max(seat.n, ask.acked)
end

local function fill_in(answer, record, seat, terms, now)
  answer.others = record.waiting - waiting_of(seat)
  answer.used = record.used
  for _, bound in ipairs(terms.windows) do
    answer.sums[#answer.sums + 1] = logs_read[logs.name(bound)] and logs_read[logs.name(bound)].sum
      or record.sums[logs.name(bound)] or 0
  end
  answer.level = record.cool.level
  answer.cut_off = record.cut_off
  local _, shut_until = gate(record, terms, now)
  answer.shut = max(0, shut_until - now)
end

local function only_beats(seat, ask)
  if ask.n ~= 0 or #ask.done > 0 or #ask.hints > 0 or seat.due ~= seat['until'] then
    return false
  end
  for _, grant in ipairs(seat.out) do
    if grant.g <= ask.heard then
      return false
    end
  end
  return true
end

-- Takes up what a session says; returns the calls that start now.
local function hear(record, seat, ask, terms, now)
  renew(seat, ask, terms, now)
  redis.call('ZADD', ENDS, seat.due, ask.sid)
  seat.label = ask.label
  local out = {}
  for _, grant in ipairs(seat.out) do
    if grant.g > ask.heard then
      out[#out + 1] = grant
    end
  end
  seat.out = out
  for _, window in ipairs(counted(record)) do
    logs.expire(log_named(record, window.name), now, window.wide)
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
        starts[#starts + 1] = {id = call_id, at = now, late = late_now(record)}
      end
    end
    line_up(record, seat, ask.runs, terms)
  end
  return starts
end

-- Decides, and stores what has changed.
local function decide(record, ask, raw)
  local offset, gen, tv = record.offset, record.gen, record.tv
  local now = logical(record, raw, ask.seen, ask.elapsed)
  if #record.eras == 0 then
    return unknown(now)
  end
  local before = record.eras[1].terms
  local terms = terms_at(record, now)
  if not is_whole(record) then
    start_again(record, terms, now)
  elseif record.tv ~= tv then
    place_all(record, before, terms)
  end
  notice_loss(record, ask, terms, now)
  local seat = seat_of(ask.sid, terms)
  if seat and record.offset == offset and record.gen == gen and record.tv == tv and only_beats(seat, ask) then
    renew(seat, ask, terms, now)
    store_seat(record, ask.sid, seat, terms)
    redis.call('HSET', HEADER, 'last', string.format('%.0f', record.last))
    local answer = new_answer(record, seat, now, 'ok')
    fill_in(answer, record, seat, terms, now)
    answer.terms = ask.tv ~= record.tv and {terms} or {}
    return answer
  end
  record.v = record.v + 1
  local lost = seat and 0 or 1
  seat = seat or add_seat(ask.sid)
  if 0 < ask.n and ask.n < seat.n then
    store_header(record, record.tv ~= tv)
    return new_answer(record, seat, now, 'late')
  end
  local starts = hear(record, seat, ask, terms, now)
  local more = prune(record, terms, now)
  local wakes, places, are_all, more_to_grant = serve(record, ask.sid, seat, terms, now)
  store_seat(record, ask.sid, seat, terms)
  for _, sid in ipairs(wakes) do
    store_seat(record, sid, seat_of(sid, terms), terms)
  end
  if record.runs == 0 then
    record.virtual = 0
  end
  local answer = new_answer(record, seat, now, 'ok')
  fill_in(answer, record, seat, terms, now)
  answer.lost = lost
  answer.starts = starts
  answer.wakes = wakes
  answer.waits = waits_of(record, ask.sid, seat, places, are_all, terms, now)
  answer.more = (more or more_to_grant) and 1 or 0
  answer.terms = ask.tv ~= record.tv and {terms} or {}
  store_tails()
  store_logs(record)
  store_header(record, record.tv ~= tv)
  return answer
end
