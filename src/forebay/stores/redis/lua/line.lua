-- forebay.rules.admission in Lua, line by line: who is served, and in which order; after cooldown and sessions.
local HEADS = 32
local MOST_GRANTS = 32
local LATE = 2 * SECOND
local FRESH_SHARE = 20
local SCALE = 1000

local line = {}

function line.most_fresh(terms)
  local shortest = FOREVER
  for _, bound in ipairs(terms.windows) do
    shortest = min(shortest, bound.per_ms)
  end
  return max(terms.start_within_ms, min(LATE, floor(shortest / FRESH_SHARE)))
end

function line.late_after(terms, freshness)
  if #terms.windows == 0 then
    return max(terms.start_within_ms, LATE)
  end
  return max(terms.start_within_ms, min(freshness, line.most_fresh(terms)))
end

function line.late_now(record)
  local late = FOREVER
  for _, era in ipairs(record.eras) do
    late = min(late, line.late_after(era.terms, record.freshness_ms))
  end
  return late
end

function line.counted_at(record, now)
  local start = FOREVER
  for _, era in ipairs(record.eras) do
    if #era.terms.windows > 0 then
      start = min(start, era.terms.start_within_ms)
    end
  end
  record.last_counted_at = max(record.last_counted_at, now + max(0, line.late_now(record) - start))
  return record.last_counted_at
end

function line.report_delay(record, terms, delay, now)
  if record.freshness_ms > 0 and now >= record.freshness_until then
    record.freshness_ms, record.freshness_until = 0, 0
  end
  if #terms.windows == 0 or delay <= terms.start_within_ms then
    return
  end
  local most = line.most_fresh(terms)
  local needed = min(delay + floor(delay / 2), most)
  local widest = 0
  for _, bound in ipairs(terms.windows) do
    widest = max(widest, logs.width(bound, terms))
  end
  record.freshness_ms = max(record.freshness_ms, needed)
  record.freshness_until = now + widest + most
end

function line.held_for(record, terms)
  return line.late_now(record) + terms.transit_ms + terms.call_timeout_ms
end

-- Of one exchange: its eras do not change any more once it counts.
local windows_counted

function line.counted(record)
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

function line.count(record, units, now)
  for _, window in ipairs(line.counted(record)) do
    logs.add(parts.log_named(record, window.name), now, units[window.unit] or 0, window.wide)
  end
end

function line.uncount(record, units, counted_at, now)
  for _, window in ipairs(line.counted(record)) do
    if counted_at + window.wide > now then
      logs.take_back(parts.log_named(record, window.name), counted_at, units[window.unit] or 0, window.wide)
    end
  end
end

function line.cost(units, terms)
  local most = 1
  if terms.in_flight > 0 then
    most = max(most, floor(SCALE / terms.in_flight))
  end
  for _, bound in ipairs(terms.windows) do
    if bound.n > 0 then
      most = max(most, floor((units[bound.unit] or 0) * SCALE / bound.n))
    end
  end
  for _, bound in ipairs(terms.in_flight_units) do
    if bound.n > 0 then
      most = max(most, floor((units[bound.unit] or 0) * SCALE / bound.n))
    end
  end
  return min(most, SCALE)
end

function line.enter(record, key, front)
  local tail = parts.tail_of(key) or parts.add_tail(record, key, record.virtual_time)
  tail.run_count = tail.run_count + 1
  tail.changed = true
  return front ~= 0 and record.virtual_time - FOREVER or max(record.virtual_time, tail.virtual_finish)
end

function line.extend_tail(run, terms)
  local tail = parts.tail_of(run.key)
  local finish = max(tail.virtual_finish, run.virtual_start + run.caller_count * line.cost(run.units, terms))
  if tail.virtual_finish ~= finish then
    tail.virtual_finish = finish
    tail.changed = true
  end
end

function line.line_up(record, seat, wishes, terms)
  local before = {}
  for _, run in ipairs(seat.runs) do
    before[run.id] = run
  end
  seat.runs = {}
  for _, wish in ipairs(wishes) do
    local count = wish.caller_count
    for _, grant in ipairs(seat.unconfirmed) do
      if grant.run_id == wish.id then
        count = count - grant.call_count
      end
    end
    if count > 0 then
      local run = before[wish.id]
      before[wish.id] = nil
      if run then
        run.caller_count = count
      else
        record.arrival_count = record.arrival_count + 1
        run = {
          id = wish.id, key = wish.key, caller_count = count, units = wish.units, label = wish.label,
          virtual_start = line.enter(record, wish.key, wish.front), arrival_number = record.arrival_count,
        }
      end
      line.extend_tail(run, terms)
      seat.runs[#seat.runs + 1] = run
    end
  end
  for _, run in pairs(before) do
    parts.left_line(record, run.key)
  end
end

-- A place is {session_id, id, caller_count, units, virtual_start, arrival_number}, and `run` once the session itself has
-- been read.
function line.is_before(one, other)
  if one.virtual_start ~= other.virtual_start then
    return one.virtual_start < other.virtual_start
  end
  return one.arrival_number < other.arrival_number
end

-- The first places of a set but those of one session, in order.
local function first_places(set, but, most)
  local places, known = {}, {}
  local found = redis.call('ZRANGE', set, 0, most - 1, 'WITHSCORES')
  for index = 1, #found, 2 do
    local member = found[index]
    local arrival_number, id, caller_count, sid, at
    if member ~= PRESENT then
      arrival_number, id, caller_count, sid, at = struct.unpack('>I6I6I4s', member)
    end
    if sid and sid ~= but then
      local packed = member:sub(at)
      local units = known[packed]
      if not units then
        units = cmsgpack.unpack(packed)
        known[packed] = units
      end
      places[#places + 1] = {
        session_id = sid, id = id, caller_count = caller_count, units = units, virtual_start = tonumber(found[index + 1]),
        arrival_number = arrival_number,
      }
    end
  end
  return places
end

-- Puts a place in order into places that are in order.
local function insert(places, place)
  local at = #places + 1
  while at > 1 and line.is_before(place, places[at - 1]) do
    at = at - 1
  end
  table.insert(places, at, place)
end

local function cut_to_heads(places)
  for index = #places, HEADS + 1, -1 do
    places[index] = nil
  end
end

-- The first that may be served, and where the last one stands if others stand behind it. The asker's own runs stand in
-- line even if it has not confirmed its last grants; nothing of it has been stored yet.
function line.heads(record, sid, seat, terms)
  local stood = seat.was.line_run_count
  local heads = record.line_run_count > stood and first_places(LINE, sid, HEADS + stood) or {}
  local count = record.line_run_count - stood
  for _, run in ipairs(seat.runs) do
    if not parts.too_large(terms, run.units) then
      insert(heads, {
        session_id = sid, id = run.id, caller_count = run.caller_count, units = run.units,
        virtual_start = run.virtual_start, arrival_number = run.arrival_number, run = run,
      })
      count = count + 1
    end
  end
  cut_to_heads(heads)
  local last = count > HEADS and heads[HEADS]
  return heads, last and {virtual_start = last.virtual_start, arrival_number = last.arrival_number}
end

-- The first of those whose sessions have to confirm something before they are served.
function line.parked(record, sid, seat)
  local stood = seat.was.parked_run_count
  local places = record.parked_run_count > stood and first_places(UNCONFIRMED, sid, HEADS + stood) or {}
  cut_to_heads(places)
  return places
end

-- Whether any call could start, whatever it takes of the windows.
function line.has_room(record, terms, now)
  return not (0 <= terms.in_flight and terms.in_flight <= record.in_flight_count) and cooldown.room(record, terms, now) > 0
end

local function fits(record, terms, place)
  for _, bound in ipairs(terms.in_flight_units) do
    local need = place.units[bound.unit] or 0
    if 0 < need and (record.in_flight_sums[bound.unit] or 0) + need > bound.n then
      return false
    end
  end
  for _, bound in ipairs(terms.windows) do
    if parts.log_named(record, logs.name(bound)).sum + (place.units[bound.unit] or 0) > bound.n then
      return false
    end
  end
  return true
end

local function spares(record, terms, place, head)
  for _, bound in ipairs(terms.in_flight_units) do
    local unit = bound.unit
    local need = place.units[unit] or 0
    if 0 < need and (record.in_flight_sums[unit] or 0) + need + (head.units[unit] or 0) > bound.n then
      return false
    end
  end
  if (0 <= terms.in_flight and terms.in_flight < record.in_flight_count + 2) or record.cooldown.ramp_began_at ~= 0 then
    return false
  end
  for _, bound in ipairs(terms.windows) do
    local log = parts.log_named(record, logs.name(bound))
    local then_used = logs.used_at(log, head.starts_at, logs.width(bound, terms))
    if then_used + (place.units[bound.unit] or 0) + (head.units[bound.unit] or 0) > bound.n then
      return false
    end
  end
  return true
end

function line.windows_free_in(record, terms, units, now)
  local free_in = 0
  for _, bound in ipairs(terms.windows) do
    local log = parts.log_named(record, logs.name(bound))
    local need = units[bound.unit] or 0
    if need > 0 then
      free_in = max(free_in, logs.free_in(log, now, logs.width(bound, terms), bound.n, need))
    end
  end
  return free_in
end

-- `more`: its session was given something in this same step.
local function open_call(record, sid, seat, run, terms, now, more)
  local call_id = seat.next_call_id
  seat.next_call_id = seat.next_call_id + 1
  local counted_at = line.counted_at(record, now)
  parts.add_call(record, sid, seat, {
    id = call_id, granted_at = now, counted_at = counted_at, call_until = now + line.held_for(record, terms),
    units = run.units, label = run.label, key = run.key ~= '' and run.key or nil,
  })
  line.count(record, run.units, counted_at)
  cooldown.granted(record, now)
  local last = seat.unconfirmed[#seat.unconfirmed]
  if more and last.run_id == run.id then
    last.call_count = last.call_count + 1
  else
    seat.grant_number = seat.grant_number + 1
    seat.unconfirmed[#seat.unconfirmed + 1] = {
      number = seat.grant_number, run_id = run.id, call_count = 1, first_call_id = call_id, granted_at = now,
      max_age_ms = line.late_now(record),
    }
  end
end

local function grant_one(record, seat, place, terms, now, more)
  local run = place.run
  open_call(record, place.session_id, seat, run, terms, now, more)
  record.virtual_time = max(record.virtual_time, run.virtual_start)
  run.virtual_start = run.virtual_start + line.cost(run.units, terms)
  run.caller_count = run.caller_count - 1
  place.virtual_start, place.caller_count = run.virtual_start, run.caller_count
end

local function run_of(seat, id)
  for index, run in ipairs(seat.runs) do
    if run.id == id then
      return run, index
    end
  end
end

local function fall_in(waiting, first)
  local at = first
  while at + 1 <= #waiting and line.is_before(waiting[at + 1], waiting[at]) do
    waiting[at], waiting[at + 1] = waiting[at + 1], waiting[at]
    at = at + 1
  end
end

-- Returns the sessions that got something, the first places, whether more stand behind them, whether more is to do, the
-- asker's run that was granted something last, and how many calls were granted.
function line.serve(record, sid, seat, terms, now)
  local _, shut_until = header.gate(record, terms, now)
  local is_open = shut_until <= now
  local heads, last = line.heads(record, sid, seat, terms)
  local waiting = {unpack(heads)}
  local head
  local woken, wakes = {}, {}
  local first, granted = 1, 0
  while first <= #waiting and is_open and granted < MOST_GRANTS and line.has_room(record, terms, now) do
    local place = waiting[first]
    if not fits(record, terms, place) or (head and not spares(record, terms, place, head)) then
      if not head then
        head = {units = place.units, starts_at = now + line.windows_free_in(record, terms, place.units, now)}
      end
      first = first + 1
    else
      local other = parts.seat_of(record, place.session_id, terms)
      place.run = place.run or run_of(other, place.id)
      grant_one(record, other, place, terms, now, woken[place.session_id])
      granted = granted + 1
      if not woken[place.session_id] and place.session_id ~= sid then
        wakes[#wakes + 1] = place.session_id
      end
      woken[place.session_id] = true
      if place.caller_count == 0 then
        first = first + 1
        local run, index = run_of(other, place.id)
        table.remove(other.runs, index)
        parts.left_line(record, run.key)
      elseif last and line.is_before(last, place) then
        first = first + 1
      else
        fall_in(waiting, first)
      end
    end
  end
  local more = granted > 0 and (first <= #waiting or last) and line.has_room(record, terms, now)
  return wakes, heads, last, more, woken[sid] and seat.unconfirmed[#seat.unconfirmed].run_id, granted
end

-- forebay.rules.in_hand in Lua. Nobody waits: the caller has looked.
local function room_in_hand(record, terms, units, now)
  local cool = record.cooldown
  local _, shut_until = header.gate(record, terms, now)
  if shut_until > now or cool.level ~= 0 or cool.ramp_began_at ~= 0 then
    return 0
  end
  local count = MOST_GRANTS
  if terms.in_flight >= 0 then
    count = min(count, floor(terms.in_flight / 2) - record.in_flight_count)
  end
  for _, bound in ipairs(terms.in_flight_units) do
    local need = units[bound.unit] or 0
    if need > 0 then
      count = min(count, floor((floor(bound.n / 2) - (record.in_flight_sums[bound.unit] or 0)) / need))
    end
  end
  for _, bound in ipairs(terms.windows) do
    local need = units[bound.unit] or 0
    if need > 0 then
      count = min(count, floor((floor(bound.n / 2) - parts.log_named(record, logs.name(bound)).sum) / need))
    end
  end
  return max(0, count)
end

-- Grants calls to come to the run that was granted something last.
function line.grant_in_hand(record, seat, ask, run_id, granted, terms, now)
  for _, run in ipairs(ask.runs) do
    local wanted = min(run.in_hand_count or 0, MOST_GRANTS - granted)
    if run.id == run_id and wanted > 0 then
      for _ = 1, min(wanted, room_in_hand(record, terms, run.units, now)) do
        open_call(record, ask.session_id, seat, run, terms, now, true)
      end
    end
  end
end
