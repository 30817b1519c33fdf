-- Sessions, their calls and the line of their runs, as they are kept, after clock, header and window_log.
local CUT_OFF_SID = ':cut_off'
local COUNTS = {'seats', 'alive', 'silent', 'runs', 'waiting', 'in_line', 'parked', 'used', 'cut_off', 'tails'}

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
  record.latest, record.sums = 0, {}
  return record
end

-- Whether the parts hold as much as the header says: a server that drops keys, or somebody who deletes them, forgets.
function parts.are_whole(record)
  local windows = 0
  for _ in pairs(record.sums) do
    windows = windows + 1
  end
  return redis.call('HLEN', SESSIONS) == record.seats + 1 and redis.call('ZCARD', ENDS) == record.seats + 1
    and redis.call('HLEN', CALLS) == record.used + 1 and redis.call('HLEN', TAILS) == record.tails + 1
    and redis.call('ZCARD', LINE) == record.in_line + 1 and redis.call('ZCARD', UNCONFIRMED) == record.parked + 1
    and redis.call('HLEN', WINDOWS) == windows + 1
end

function parts.log_named(record, name)
  local log = logs_read[name]
  if not log then
    log = {sum = record.sums[name] or 0, items = redis.call('HGET', WINDOWS, name) or ''}
    log.stored = record.sums[name] and log.items
    logs_read[name] = log
  end
  return log
end

function parts.store_logs(record)
  for name, log in pairs(logs_read) do
    record.sums[name] = log.sum
    if log.stored ~= log.items then
      redis.call('HSET', WINDOWS, name, log.items)
      log.stored = log.items
    end
  end
end

function parts.too_large(terms, units)
  for _, bound in ipairs(terms.windows) do
    if 0 < bound.n and bound.n < (units[bound.unit] or 0) then
      return true
    end
  end
  return false
end

-- A run's member of the line or of those that are parked, from which a step reads what the run wants.
function parts.member(sid, run)
  return struct.pack('>I6I6I4s', run.tick, run.id, run.count, sid) .. cmsgpack.pack(run.units)
end

-- What the header counts of a session, and where its runs stand: by the run's id {set, count, tag, tick, units}.
function parts.measure(seat, terms)
  local set = #seat.out > 0 and UNCONFIRMED or LINE
  local waiting, standing, places = 0, 0, {}
  for _, run in ipairs(seat.runs) do
    waiting = waiting + run.count
    if not places[run.id] and not parts.too_large(terms, run.units) then
      standing = standing + 1
      places[run.id] = {set = set, id = run.id, count = run.count, tag = run.tag, tick = run.tick, units = run.units}
    end
  end
  return {
    alive = seat.due == seat['until'] and 1 or 0, silent = #seat.out > 0 and 1 or 0, runs = #seat.runs,
    waiting = waiting, in_line = set == LINE and standing or 0, parked = set == LINE and 0 or standing, places = places,
    due = seat.due,
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

function parts.add_seat(record, sid)
  local seat = {
    ['until'] = 0, due = 0, n = 0, g = 0, next = 1, label = '', open = {}, runs = {}, out = {},
    was = {alive = 0, silent = 0, runs = 0, waiting = 0, in_line = 0, parked = 0, places = {}, due = -1},
  }
  record.seats = record.seats + 1
  seats[sid] = seat
  return seat
end

function parts.count_change(record, was, is)
  record.alive = record.alive + is.alive - was.alive
  record.silent = record.silent + is.silent - was.silent
  record.runs = record.runs + is.runs - was.runs
  record.waiting = record.waiting + is.waiting - was.waiting
  record.in_line = record.in_line + is.in_line - was.in_line
  record.parked = record.parked + is.parked - was.parked
end

function parts.leave_places(sid, was, is)
  for id, old in pairs(was) do
    local new = is[id]
    if not new or new.set ~= old.set or new.count ~= old.count or new.tick ~= old.tick then
      redis.call('ZREM', old.set, parts.member(sid, old))
      old.left = true
    end
  end
end

-- Writes a session that a step has changed, with its places, and counts the difference.
function parts.store_seat(record, sid, seat, terms)
  redis.call('HSET', SESSIONS, sid, header.pack_seat(record, seat))
  local was, is = seat.was, parts.measure(seat, terms)
  if was.due ~= is.due then
    redis.call('ZADD', ENDS, is.due, sid)
  end
  parts.leave_places(sid, was.places, is.places)
  for id, new in pairs(is.places) do
    local old = was.places[id]
    if not old or old.left or old.tag ~= new.tag then
      redis.call('ZADD', new.set, new.tag, parts.member(sid, new))
    end
  end
  parts.count_change(record, was, is)
  seat.was = is
end

function parts.drop_seat(record, sid, seat)
  redis.call('HDEL', SESSIONS, sid)
  redis.call('ZREM', ENDS, sid)
  parts.leave_places(sid, seat.was.places, {})
  parts.count_change(record, seat.was,
    {alive = 0, silent = 0, runs = 0, waiting = 0, in_line = 0, parked = 0})
  record.seats = record.seats - 1
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
    local at, until_, units, label, key = cmsgpack.unpack(packed)
    return {id = id, at = at, ['until'] = until_, units = units, label = label, key = key}
  end
end

function parts.store_call(sid, call)
  redis.call('HSET', CALLS, parts.call_name(sid, call.id),
    cmsgpack.pack(call.at, call['until'], call.units, call.label, call.key))
end

function parts.add_call(record, sid, seat, call)
  seat.open[#seat.open + 1] = call.id
  record.used = record.used + 1
  if parts.is_cut_off(sid) then
    record.cut_off = record.cut_off + 1
  end
  record.latest = max(record.latest, call['until'])
  parts.store_call(sid, call)
end

-- The call is the session's no more; nothing where the session has no such call.
function parts.take_call(record, sid, seat, id)
  for index, each in ipairs(seat.open) do
    if each == id then
      local call = parts.find_call(sid, id)
      table.remove(seat.open, index)
      redis.call('HDEL', CALLS, parts.call_name(sid, id))
      record.used = record.used - 1
      if parts.is_cut_off(sid) then
        record.cut_off = record.cut_off - 1
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
      local tag, runs = cmsgpack.unpack(packed)
      tail = {tag = tag, runs = runs}
    end
    tails_read[key] = tail
  end
  return tail
end

function parts.add_tail(record, key, tag)
  record.tails = record.tails + 1
  tails_read[key] = {tag = tag, runs = 0, changed = true}
  return tails_read[key]
end

function parts.left_line(record, key)
  local tail = parts.tail_of(key)
  tail.runs = tail.runs - 1
  tail.changed = true
  if tail.runs == 0 then
    record.tails = record.tails - 1
    redis.call('HDEL', TAILS, '=' .. key)
    tails_read[key] = false
  end
end

function parts.store_tails()
  for key, tail in pairs(tails_read) do
    if tail and tail.changed then
      redis.call('HSET', TAILS, '=' .. key, cmsgpack.pack(tail.tag, tail.runs))
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
