-- forebay.rules.kept_places in Lua, line by line, after line. Its functions are made only where there are kept places.
local EARLY = 500
local KEPT = 2 * SECOND
local MOST_DUE = 8
local AFTER = FOREVER
local NEXT = 3 * SECOND
local UNKNOWN = 5 * SECOND
local MOST_MISSED = 2
local PART = 4
local RUN_ID = 1

-- Kept places whose time has come, at most one more than a step looks at.
local function places_due(now)
  return redis.call('ZRANGEBYSCORE', ENDS, '(' .. string.format('%.0f', AFTER), string.format('%.0f', AFTER + now),
    'LIMIT', 0, MOST_DUE + 1)
end

-- The instant at which a step has to look at a place next.
local function next_place_due()
  local found = redis.call('ZRANGEBYSCORE', ENDS, '(' .. string.format('%.0f', AFTER), '(+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return (tonumber(found[2]) or 2 * AFTER) - AFTER
end

-- Whether somebody who is alive holds the slot of a kept place.
local function is_place_held(seat, now)
  return seat.place and seat.place.holder ~= '' and #seat.open_calls > 0 and seat.due_at == seat.ends_at
    and seat.ends_at > now
end

local function make_places()
  local places = {}

  local function stand(record, seat, wish, terms, start, number)
    local run = {
      id = RUN_ID, key = wish.key or '', caller_count = 1, units = wish.units, label = wish.label, virtual_start = start,
      arrival_number = number,
    }
    seat.place.virtual_start, seat.place.arrival_number = start, number
    seat.runs = {run}
    line.extend_tail(run, terms)
  end

  local function take_back(record, sid, seat, terms, now, to_the_end)
    local call = parts.take_call(record, sid, seat, seat.open_calls[1])
    line.uncount(record, call.units, call.counted_at, now)
    seat.unconfirmed = {}
    local last = line.enter(record, call.key or '', 0)
    if to_the_end then
      record.arrival_count = record.arrival_count + 1
      stand(record, seat, call, terms, last, record.arrival_count)
      return
    end
    stand(record, seat, call, terms, min(seat.place.virtual_start, record.virtual_time), seat.place.arrival_number)
  end

  local function begin(record, seat, ask, now)
    for _, run in ipairs(seat.runs) do
      parts.left_line(record, run.key)
    end
    seat.runs, seat.unconfirmed = {}, {}
    seat.next_call_id = max(seat.next_call_id, ask.next_call_id, now)
    seat.place = {
      name = ask.place_name, told_at = now, is_awaited = 0, missed_count = 0, virtual_start = 0, arrival_number = 0,
      holder = '',
    }
  end

  local function is_same(wish, other)
    if wish.key ~= (other.key or '') then
      return false
    end
    for unit, count in pairs(wish.units) do
      if other.units[unit] ~= count then
        return false
      end
    end
    for unit, count in pairs(other.units) do
      if wish.units[unit] ~= count then
        return false
      end
    end
    return true
  end

  local function line_up(record, seat, ask, terms, now)
    local wish = ask.runs[1]
    local run = seat.runs[1]
    if run and not (wish and is_same(wish, run)) then
      parts.left_line(record, run.key)
      seat.runs = {}
    end
    seat.place.is_awaited = 0
    if not wish then
      seat.ends_at, seat.due_at = now, now
      return
    end
    if #seat.runs == 0 then
      record.arrival_count = record.arrival_count + 1
      stand(record, seat, wish, terms, line.enter(record, wish.key, 0), record.arrival_count)
      seat.place.missed_count = 0
    end
    seat.ends_at = now + ask.keep_ms
    seat.due_at = AFTER + seat.ends_at
  end

  function places.bind(record, sid, seat, ask, terms, now)
    seat.place.holder, seat.place.is_awaited = ask.holder, 0
    seat.ends_at = now + terms.lease_ms
    seat.due_at = seat.ends_at
    local call = parts.find_call(sid, seat.open_calls[1])
    seat.unconfirmed = {{
      number = seat.grant_number, run_id = RUN_ID, call_count = 1, first_call_id = call.id, granted_at = call.granted_at,
      max_age_ms = min(line.late_now(record), line.late_after(terms, 0)),
    }}
  end

  -- What the owner of a kept place says; admission has the two functions.
  function places.hear(record, seat, ask, terms, now, restamp, cut_off)
    local sid = ask.session_id
    for _, window in ipairs(line.counted(record)) do
      logs.expire(parts.log_named(record, window.name), now, window.wide)
    end
    seat.label = ask.label
    if is_place_held(seat, now) then
      places.bind(record, sid, seat, ask, terms, now)
      return
    end
    if not seat.place or seat.place.holder ~= '' then
      while seat.open_calls[1] do
        cut_off(record, sid, seat.label, parts.take_call(record, sid, seat, seat.open_calls[1]), terms)
      end
      begin(record, seat, ask, now)
    end
    seat.request_number = ask.request_number
    if seat.open_calls[1] then
      local wish = ask.runs[1]
      if wish and is_same(wish, parts.find_call(sid, seat.open_calls[1]))
        and restamp(record, sid, seat, seat.open_calls[1], terms, now) then
        places.bind(record, sid, seat, ask, terms, now)
        return
      end
      take_back(record, sid, seat, terms, now, false)
    end
    line_up(record, seat, ask, terms, now)
  end

  function places.look_after(record, due, terms, now)
    for index = 1, min(#due, MOST_DUE) do
      local sid = due[index]
      local seat = parts.seat_of(record, sid, terms)
      local place = seat.place
      local over_at = place.told_at - EARLY + KEPT
      if now < over_at and now < seat.ends_at then
        place.is_awaited = 1
        seat.due_at = AFTER + over_at
        parts.store_seat(record, sid, seat, terms)
      else
        place.is_awaited = 0
        if seat.open_calls[1] then
          place.missed_count = (place.missed_count + 1) % MOST_MISSED
          take_back(record, sid, seat, terms, now, place.missed_count == 0)
        end
        seat.due_at = AFTER + seat.ends_at
        if seat.ends_at <= now or #seat.runs == 0 then
          for _, run in ipairs(seat.runs) do
            parts.left_line(record, run.key)
          end
          parts.drop_seat(record, sid, seat)
        else
          parts.store_seat(record, sid, seat, terms)
        end
      end
    end
    return #due > MOST_DUE
  end

  function places.tell(record, seat, wait, keep, now)
    local eta = wait.eta_ms
    local waits_for_calls = #wait.blocked_by > 0
    for _, by in ipairs(wait.blocked_by) do
      waits_for_calls = waits_for_calls and by:sub(1, 9) == 'in_flight'
    end
    if waits_for_calls then
      if record.mean_call_ms == 0 then
        eta = min(eta, UNKNOWN)
      end
      if wait.ahead_count == 0 then
        eta = min(eta, NEXT)
      end
    end
    local told = max(SECOND, min(math.ceil(eta / SECOND) * SECOND, floor(floor(keep / PART) / SECOND) * SECOND))
    wait.ask_again_in_ms = told
    seat.place.told_at = now + told
    seat.due_at = AFTER + now + told - EARLY
  end

  return places
end
