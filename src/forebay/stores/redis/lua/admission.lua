-- forebay.rules.admission in Lua, line by line, as far as an exchange needs it.
-- Nothing may depend on the order of pairs(): it only sums, filters and takes the largest.
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
local CUT_OFF_SID = ':cut_off'

local function new_seat()
  return {['until'] = 0, n = 0, g = 0, next = 1, label = '', calls = {}, runs = {}, out = {}}
end

local function new_answer(record, seat, now, status)
  local sessions = 0
  for _, each in pairs(record.seats) do
    if each['until'] > now then
      sessions = sessions + 1
    end
  end
  return {
    status = status, now = now, v = record.v, gen = record.gen, tv = record.tv, lost = 0,
    grants = status == 'late' and {} or seat.out,
    starts = {}, waits = {}, terms = {}, wakes = {}, others = 0, sessions = sessions,
    used = 0, sums = {}, level = 0, cut_off = 0, offset = record.offset, shut = 0,
    began = record.cool.began,
  }
end

local function unknown(now)
  return new_answer({v = 0, gen = 1, tv = 0, offset = 0, cool = {began = 0}, seats = {}}, new_seat(), now, 'unknown')
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

local function notice_loss(record, ask, terms, now)
  local seat = record.seats[ask.sid]
  local last_n = seat and seat.n or 0
  local last_g = seat and seat.g or 0
  local sure = ask.sure ~= 0 and now < ask.seen + terms.lease
  if ask.version > record.v or (sure and (last_n < ask.acked or last_g < ask.heard)) then
    record.gen = record.gen + 1
    record.v = max(record.v, ask.version)
    for _, other in pairs(record.seats) do
      for _, call in ipairs(calls_of(other)) do
        record.hold = max(record.hold, call['until'])
      end
      other.calls = {}
      other.out = {}
    end
    hold_back(record, terms, now)
  end
end

local function log_named(record, name)
  local log = record.logs[name]
  if not log then
    log = {sum = 0, items = ''}
    record.logs[name] = log
  end
  return log
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

local function taken(seat, call_id)
  for index, call in ipairs(calls_of(seat)) do
    if call.id == call_id then
      return table.remove(seat.calls, index)
    end
  end
end

local function cut_off(record, sid, label, call)
  local name = sid .. CUT_OFF_SID
  local ended = record.seats[name]
  if not ended then
    ended = new_seat()
    record.seats[name] = ended
  end
  ended.label = label
  ended.next = max(ended.next, call.id + 1)
  local calls = calls_of(ended)
  calls[#calls + 1] = call
end

local function cut_off_count(record)
  local count = 0
  for sid, seat in pairs(record.seats) do
    if sid:sub(-#CUT_OFF_SID) == CUT_OFF_SID then
      count = count + held(seat)
    end
  end
  return count
end

local function finish(record, seat, ask, terms, now)
  for _, done in ipairs(ask.done) do
    local call = taken(seat, done.id)
    if call and (done.outcome == 'unsent' or done.outcome == 'unreached') then
      if done.outcome == 'unreached' then
        cooldown.ended(record, terms, 'failed', call.at, now)
      end
      uncount(record, call.units, call.at, now)
    elseif call then
      local failed = done.outcome == TIMED_OUT
      cooldown.ended(record, terms, failed and 'failed' or done.outcome, call.at, now)
      if failed or done.outcome == CUT_OFF then
        cut_off(record, ask.sid, seat.label, call)
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

local function in_flight(record)
  local count = 0
  for _, seat in pairs(record.seats) do
    count = count + held(seat)
  end
  return count
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

local function restamp(record, seat, call_id, terms, now)
  local call
  for _, each in ipairs(calls_of(seat)) do
    if each.id == call_id then
      call = each
      break
    end
  end
  local _, shut_until = gate(record, terms, now)
  if not call or shut_until > now then
    return false
  end
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

local function behind(run, key, terms)
  return run.key == key and run.tag + run.count * cost(run.units, terms) or -FOREVER
end

local function tag_for(record, seat, wish, terms)
  if wish.front ~= 0 then
    return record.virtual - FOREVER
  end
  local tag = record.virtual
  for _, other in pairs(record.seats) do
    if other ~= seat then
      for _, run in ipairs(other.runs) do
        tag = max(tag, behind(run, wish.key, terms))
      end
    end
  end
  for _, run in ipairs(seat.runs) do
    tag = max(tag, behind(run, wish.key, terms))
  end
  return tag
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
      if run then
        run.count = count
      else
        record.tick = record.tick + 1
        run = {
          id = wish.id, key = wish.key, count = count, units = wish.units, label = wish.label,
          tag = tag_for(record, seat, wish, terms), tick = record.tick,
        }
      end
      seat.runs[#seat.runs + 1] = run
    end
  end
end

local function prune(record, terms, now)
  for sid, seat in pairs(record.seats) do
    if seat['until'] <= now then
      seat.runs = {}
      seat.out = {}
      local calls = {}
      if terms.stops == 0 then
        for _, call in ipairs(calls_of(seat)) do
          if call['until'] > now then
            calls[#calls + 1] = call
          end
        end
      end
      seat.calls = calls
      if #calls == 0 then
        record.seats[sid] = nil
      end
    end
  end
end

local function before_in_line(one, other)
  if one.run.tag ~= other.run.tag then
    return one.run.tag < other.run.tag
  end
  return one.run.tick < other.run.tick
end

local function line(record)
  local places = {}
  for sid, seat in pairs(record.seats) do
    for _, run in ipairs(seat.runs) do
      places[#places + 1] = {sid = sid, run = run}
    end
  end
  table.sort(places, before_in_line)
  return places
end

local function too_large(terms, units)
  for _, bound in ipairs(terms.windows) do
    if 0 < bound.n and bound.n < (units[bound.unit] or 0) then
      return true
    end
  end
  return false
end

local function fits(record, terms, run, used, now)
  if (0 <= terms.in_flight and terms.in_flight <= used) or cooldown.room(record, terms, now) <= 0 then
    return false
  end
  for _, bound in ipairs(terms.windows) do
    if log_of(record, bound).sum + (run.units[bound.unit] or 0) > bound.n then
      return false
    end
  end
  return true
end

local function spares(record, terms, run, head, used)
  if (0 <= terms.in_flight and terms.in_flight < used + 2) or record.cool.ramp ~= 0 then
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
  local seat, run = record.seats[place.sid], place.run
  local call_id = seat.next
  seat.next = seat.next + 1
  local call_until = now + held_for(record, terms)
  local calls = calls_of(seat)
  calls[#calls + 1] = {
    id = call_id, at = now, ['until'] = call_until, units = run.units, label = run.label,
    key = run.key ~= '' and run.key or nil,
  }
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

local function fall_in(waiting, first)
  local at = first
  while at + 1 <= #waiting and before_in_line(waiting[at + 1], waiting[at]) do
    waiting[at], waiting[at + 1] = waiting[at + 1], waiting[at]
    at = at + 1
  end
end

local function serve(record, sid, terms, now)
  local _, shut_until = gate(record, terms, now)
  if shut_until > now then
    return {}
  end
  local waiting = {}
  for _, place in ipairs(line(record)) do
    local silent = place.sid ~= sid and #record.seats[place.sid].out > 0
    if not silent and not too_large(terms, place.run.units) then
      waiting[#waiting + 1] = place
    end
  end
  local used = in_flight(record)
  local head
  local woken, wakes = {}, {}
  local first = 1
  while first <= #waiting do
    local place = waiting[first]
    local run = place.run
    if not fits(record, terms, run, used, now) or (head and not spares(record, terms, run, head, used)) then
      if not head then
        head = {units = run.units, starts_at = now + windows_free_in(record, terms, run.units, now)}
      end
      first = first + 1
    else
      grant_one(record, place, terms, now, woken[place.sid])
      used = used + 1
      if not woken[place.sid] and place.sid ~= sid then
        wakes[#wakes + 1] = place.sid
      end
      woken[place.sid] = true
      if run.count == 0 then
        first = first + 1
        leave(record.seats[place.sid], run)
      else
        fall_in(waiting, first)
      end
    end
  end
  local anybody = false
  for _, seat in pairs(record.seats) do
    anybody = anybody or #seat.runs > 0
  end
  if not anybody then
    record.virtual = 0
  end
  return wakes
end

local function release_in(record, terms, ahead)
  local releases = in_flight(record) + ahead + 1 - terms.in_flight
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

local function next_loss_at(record, terms, now)
  local soonest = now + POLL
  for _, seat in pairs(record.seats) do
    if held(seat) > 0 then
      local ends_at = terms.stops ~= 0 and seat['until'] or max(seat['until'], first_end(seat))
      soonest = min(soonest, max(ends_at, now + 1))
    end
  end
  return soonest
end

local function ask_again_in(record, terms, units, now)
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
    if 0 <= terms.in_flight and terms.in_flight <= in_flight(record) then
      again = min(again, next_loss_at(record, terms, now) - now)
    end
  end
  return max(1, again)
end

local function waits_of(record, sid, terms, now)
  local count = 0
  local units = {}
  for _, place in ipairs(line(record)) do
    local run = place.run
    if place.sid == sid then
      local eta, by = forecast(record, terms, count, units, run.units, now)
      local again = ask_again_in(record, terms, run.units, now)
      if count > 0 then
        local grace = eta > release_in(record, terms, count) and EXACT_GRACE or GRACE
        again = min(POLL, max(again, eta) + grace)
      end
      return {{again = again, eta = eta, ahead = count, by = by}}
    end
    if not too_large(terms, run.units) then
      count = count + run.count
      for unit, each in pairs(run.units) do
        units[unit] = (units[unit] or 0) + each * run.count
      end
    end
  end
  return {}
end

local function decide(record, ask, raw)
  local now = logical(record, raw, ask.seen, ask.elapsed)
  if #record.eras == 0 then
    return unknown(now)
  end
  local terms = terms_at(record, now)
  notice_loss(record, ask, terms, now)
  record.v = record.v + 1
  local seat = record.seats[ask.sid]
  local lost = seat and 0 or 1
  if not seat then
    seat = new_seat()
    record.seats[ask.sid] = seat
  end
  if 0 < ask.n and ask.n < seat.n then
    return new_answer(record, seat, now, 'late')
  end
  seat['until'] = now + terms.lease
  seat.label = ask.label
  seat.next = max(seat.next, ask.next)
  seat.g = max(seat.g, ask.heard)
  seat.n = max(seat.n, ask.acked)
  local out = {}
  for _, grant in ipairs(seat.out) do
    if grant.g > ask.heard then
      out[#out + 1] = grant
    end
  end
  seat.out = out
  local starts = {}
  for _, window in ipairs(counted(record)) do
    logs.expire(log_named(record, window.name), now, window.wide)
  end
  for _, hint in ipairs(ask.hints) do
    cooldown.throttle(record, terms, hint, now)
  end
  finish(record, seat, ask, terms, now)
  if ask.n > 0 then
    seat.n = ask.n
    for _, call_id in ipairs(ask.starts) do
      if restamp(record, seat, call_id, terms, now) then
        starts[#starts + 1] = {id = call_id, at = now, late = late_now(record)}
      end
    end
    line_up(record, seat, ask.runs, terms)
  end
  prune(record, terms, now)
  local wakes = serve(record, ask.sid, terms, now)
  local answer = new_answer(record, seat, now, 'ok')
  answer.lost = lost
  answer.starts = starts
  answer.wakes = wakes
  for sid, other in pairs(record.seats) do
    if sid ~= ask.sid then
      for _, run in ipairs(other.runs) do
        answer.others = answer.others + run.count
      end
    end
  end
  answer.waits = waits_of(record, ask.sid, terms, now)
  answer.used = in_flight(record)
  for _, bound in ipairs(terms.windows) do
    answer.sums[#answer.sums + 1] = log_of(record, bound).sum
  end
  answer.level = record.cool.level
  answer.cut_off = cut_off_count(record)
  local _, shut_until = gate(record, terms, now)
  answer.shut = max(0, shut_until - now)
  if ask.tv ~= record.tv then
    answer.terms = {terms}
  end
  return answer
end
