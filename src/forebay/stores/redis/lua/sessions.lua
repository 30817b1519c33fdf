-- Sessions, their calls and the line of their runs, as they are kept, after clock, header and window_log.
local CUT_OFF_SID = ':cut_off'
local COUNTS = {
  'session_count', 'live_session_count', 'unconfirmed_session_count', 'run_count', 'caller_count', 'line_run_count',
  'parked_run_count', 'in_flight_count', 'cut_off_count', 'tail_count',
}

-- What this step has read: sessions and tails by name, false where there is none; and logs, whose sums the header has.
local seats, tails_read, logs_read = {}, {}, {}
local parts = {}

-- The fields of a hash.
function parts.fields_of(key)
  local fields = {}
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if field ~= PRESENT then
      fields[#fields + 1] = field
    end
  end
  return fields
end

function parts.new_counts(record)
  for _, name in ipairs(COUNTS) do
    record[name] = 0
  end
  record.latest_call_until, record.window_sums, record.in_flight_sums = 0, {}, {}
  return record
end

-- Whether the parts hold as much as the header says: a server that drops keys, or somebody who deletes them, forgets.
function parts.are_whole(record)
  local windows = 0
  for _ in pairs(record.window_sums) do
    windows = windows + 1
  end
  return redis.call('HLEN', SESSIONS) == record.session_count + 1 and redis.call('ZCARD', ENDS) == record.session_count + 1
    and redis.call('HLEN', CALLS) == record.in_flight_count + 1 and redis.call('HLEN', TAILS) == record.tail_count + 1
    and redis.call('ZCARD', LINE) == record.line_run_count + 1
    and redis.call('ZCARD', UNCONFIRMED) == record.parked_run_count + 1
    and redis.call('HLEN', WINDOWS) == windows + 1
end

function parts.log_named(record, name)
  local log = logs_read[name]
  if not log then
    log = {sum = record.window_sums[name] or 0, entries = redis.call('HGET', WINDOWS, name) or ''}
    log.stored = record.window_sums[name] and log.entries
    logs_read[name] = log
  end
  return log
end

function parts.store_logs(record)
  for name, log in pairs(logs_read) do
    record.window_sums[name] = log.sum
    if log.stored ~= log.entries then
      redis.call('HSET', WINDOWS, name, log.entries)
      log.stored = log.entries
    end
  end
end

function parts.too_large(terms, units)
  for _, bound in ipairs(terms.windows) do
    if 0 < bound.n and bound.n < (units[bound.unit] or 0) then
      return true
    end
  end
  for _, bound in ipairs(terms.in_flight_units) do
    if 0 < bound.n and bound.n < (units[bound.unit] or 0) then
      return true
    end
  end
  return false
end

-- A run's member of the line or of those that are parked, from which a step reads what the run wants.
function parts.member(sid, run)
  return struct.pack('>I6I6I4s', run.arrival_number, run.id, run.caller_count, sid) .. cmsgpack.pack(run.units)
end

-- What the header counts of a session, and where its runs stand: by the run's id
-- {set, id, caller_count, virtual_start, arrival_number, units}.
function parts.measure(seat, terms)
  local is_silent = header.is_silent(seat)
  local set = is_silent and UNCONFIRMED or LINE
  local waiting, standing, places = 0, 0, {}
  for _, run in ipairs(seat.runs) do
    waiting = waiting + run.caller_count
    if not places[run.id] and not parts.too_large(terms, run.units) then
      standing = standing + 1
      places[run.id] = {
        set = set, id = run.id, caller_count = run.caller_count, virtual_start = run.virtual_start,
        arrival_number = run.arrival_number, units = run.units,
      }
    end
  end
  return {
    live_session_count = seat.due_at == seat.ends_at and 1 or 0, unconfirmed_session_count = is_silent and 1 or 0,
    run_count = #seat.runs, caller_count = waiting, line_run_count = set == LINE and standing or 0,
    parked_run_count = set == LINE and 0 or standing, places = places, due_at = seat.due_at,
  }
end

-- `terms` are those that the places in line were made under.
function parts.seat_of(record, sid, terms)
  local seat = seats[sid]
  if seat == nil then
    seat = header.load_seat(record, sid)
    if seat then
      seat.was = parts.measure(seat, terms)
    end
    seats[sid] = seat
  end
  return seat
end

function parts.no_counts(places, due_at)
  return {
    live_session_count = 0, unconfirmed_session_count = 0, run_count = 0, caller_count = 0, line_run_count = 0,
    parked_run_count = 0, places = places, due_at = due_at,
  }
end

function parts.add_seat(record, sid)
  local seat = {
    ends_at = 0, due_at = 0, request_number = 0, grant_number = 0, next_call_id = 1, label = '', open_calls = {}, runs = {},
    unconfirmed = {}, was = parts.no_counts({}, -1),
  }
  record.session_count = record.session_count + 1
  seats[sid] = seat
  return seat
end

function parts.count_change(record, was, is)
  record.live_session_count = record.live_session_count + is.live_session_count - was.live_session_count
  record.unconfirmed_session_count =
    record.unconfirmed_session_count + is.unconfirmed_session_count - was.unconfirmed_session_count
  record.run_count = record.run_count + is.run_count - was.run_count
  record.caller_count = record.caller_count + is.caller_count - was.caller_count
  record.line_run_count = record.line_run_count + is.line_run_count - was.line_run_count
  record.parked_run_count = record.parked_run_count + is.parked_run_count - was.parked_run_count
end

function parts.leave_places(sid, was, is)
  for id, old in pairs(was) do
    local new = is[id]
    if not new or new.set ~= old.set or new.caller_count ~= old.caller_count or new.arrival_number ~= old.arrival_number then
      redis.call('ZREM', old.set, parts.member(sid, old))
      old.left = true
    end
  end
end

-- Writes a session that a step has changed, with its places, and counts the difference.
function parts.store_seat(record, sid, seat, terms)
  redis.call('HSET', SESSIONS, sid, header.pack_seat(record, seat))
  local was, is = seat.was, parts.measure(seat, terms)
  if was.due_at ~= is.due_at then
    redis.call('ZADD', ENDS, is.due_at, sid)
  end
  parts.leave_places(sid, was.places, is.places)
  for id, new in pairs(is.places) do
    local old = was.places[id]
    if not old or old.left or old.virtual_start ~= new.virtual_start then
      redis.call('ZADD', new.set, new.virtual_start, parts.member(sid, new))
    end
  end
  parts.count_change(record, was, is)
  seat.was = is
end

function parts.drop_seat(record, sid, seat)
  redis.call('HDEL', SESSIONS, sid)
  redis.call('ZREM', ENDS, sid)
  parts.leave_places(sid, seat.was.places, {})
  parts.count_change(record, seat.was, parts.no_counts())
  record.session_count = record.session_count - 1
  seat.was = parts.no_counts({})
  seats[sid] = false
end

function parts.is_cut_off(sid)
  return sid:sub(-#CUT_OFF_SID) == CUT_OFF_SID
end

function parts.call_name(sid, id)
  return sid .. '\0' .. string.format('%.0f', id)
end

function parts.find_call(sid, id)
  local packed = redis.call('HGET', CALLS, parts.call_name(sid, id))
  if packed then
    local granted_at, call_until, units, counted_at, label, key = cmsgpack.unpack(packed)
    return {
      id = id, granted_at = granted_at, counted_at = counted_at, call_until = call_until, units = units, label = label,
      key = key,
    }
  end
end

function parts.store_call(sid, call)
  redis.call('HSET', CALLS, parts.call_name(sid, call.id),
    cmsgpack.pack(call.granted_at, call.call_until, call.units, call.counted_at, call.label, call.key))
end

-- Counts the units of a call that begins (by = 1) or ends to count (by = -1).
local function count_units(record, call, by)
  for unit, count in pairs(call.units) do
    if unit ~= 'calls' and count > 0 then
      local sum = (record.in_flight_sums[unit] or 0) + by * count
      record.in_flight_sums[unit] = sum > 0 and sum or nil
    end
  end
end

function parts.add_call(record, sid, seat, call)
  seat.open_calls[#seat.open_calls + 1] = call.id
  record.in_flight_count = record.in_flight_count + 1
  count_units(record, call, 1)
  if parts.is_cut_off(sid) then
    record.cut_off_count = record.cut_off_count + 1
  end
  record.latest_call_until = max(record.latest_call_until, call.call_until)
  parts.store_call(sid, call)
end

-- The call is the session's no more; nothing where the session has no such call.
function parts.take_call(record, sid, seat, id)
  for index, each in ipairs(seat.open_calls) do
    if each == id then
      local call = parts.find_call(sid, id)
      table.remove(seat.open_calls, index)
      redis.call('HDEL', CALLS, parts.call_name(sid, id))
      record.in_flight_count = record.in_flight_count - 1
      count_units(record, call, -1)
      if parts.is_cut_off(sid) then
        record.cut_off_count = record.cut_off_count - 1
      end
      return call
    end
  end
end

function parts.tail_of(key)
  local tail = tails_read[key]
  if tail == nil then
    local packed = redis.call('HGET', TAILS, '=' .. key)
    tail = false
    if packed then
      local virtual_finish, run_count = cmsgpack.unpack(packed)
      tail = {virtual_finish = virtual_finish, run_count = run_count}
    end
    tails_read[key] = tail
  end
  return tail
end

function parts.add_tail(record, key, virtual_finish)
  record.tail_count = record.tail_count + 1
  tails_read[key] = {virtual_finish = virtual_finish, run_count = 0, changed = true}
  return tails_read[key]
end

function parts.left_line(record, key)
  local tail = parts.tail_of(key)
  tail.run_count = tail.run_count - 1
  tail.changed = true
  if tail.run_count == 0 then
    record.tail_count = record.tail_count - 1
    redis.call('HDEL', TAILS, '=' .. key)
    tails_read[key] = false
  end
end

function parts.store_tails()
  for key, tail in pairs(tails_read) do
    if tail and tail.changed then
      redis.call('HSET', TAILS, '=' .. key, cmsgpack.pack(tail.virtual_finish, tail.run_count))
    end
  end
end

function parts.empty_hash(key)
  redis.call('UNLINK', key)
  redis.call('HSET', key, PRESENT, '')
end

function parts.empty_set(key)
  redis.call('UNLINK', key)
  redis.call('ZADD', key, '+inf', PRESENT)
end

-- Nothing is left but the header; what waits or holds a call is no more.
function parts.clear(record)
  for _, key in ipairs({SESSIONS, CALLS, TAILS, WINDOWS}) do
    parts.empty_hash(key)
  end
  for _, key in ipairs({ENDS, LINE, UNCONFIRMED}) do
    parts.empty_set(key)
  end
  seats, tails_read, logs_read = {}, {}, {}
  return parts.new_counts(record)
end
