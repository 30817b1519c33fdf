-- A limit as it is kept, after clock and window_log: a header and the parts that it sums up, each in a key of its own.
-- A step reads and writes only the sessions that it has to do with.
--
-- KEYS[1]  header       hash: head (cmsgpack: HEAD below), eras (cmsgpack), last (ms), and what only people read
-- KEYS[2]  sessions     hash: session -> cmsgpack of {until, due, n, g, next, label, open, runs, out}; open: its calls' ids
-- KEYS[3]  calls        hash: session\0id -> cmsgpack of {at, until, units, label, key}
-- KEYS[4]  ends         sorted set: session, by when it is due
-- KEYS[5]  line         sorted set: runs that may be served, by tag; a member begins with its tick
-- KEYS[6]  unconfirmed  sorted set: runs whose sessions have to confirm their last grants first
-- KEYS[7]  tails        hash: key of callers -> cmsgpack of {tag, runs}
-- KEYS[8]  windows      hash: window -> its log (window_log.lua)
local HEADER, SESSIONS, CALLS, ENDS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local LINE, UNCONFIRMED, TAILS, WINDOWS = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local CUT_OFF_SID = ':cut_off'

-- seats, alive, silent, runs, waiting, used, cut_off: how many sessions there are, how many of them are alive, and how
-- many have to confirm something; how many runs of how many callers wait, and how many of these have a place in line;
-- how many calls count. latest: when the last call that was ever granted is over. sums: of each window.
local COUNTS = {'seats', 'alive', 'silent', 'runs', 'waiting', 'placed', 'used', 'cut_off'}
local HEAD = {
  'v', 'gen', 'offset', 'tv', 'paused', 'hold', 'virtual', 'tick', 'mean', 'cool', 'sums', 'latest',
  'seats', 'alive', 'silent', 'runs', 'waiting', 'placed', 'used', 'cut_off', 'tails',
}
local PEOPLE = {'layers', 'note', 'paused_by', 'reports', 'asked'}

local function pairs_of(list)
  local index = -1
  return function()
    index = index + 2
    return list[index], list[index + 1]
  end
end

local function copied(list)
  local copy = {}
  for index, each in ipairs(list) do
    copy[index] = each
  end
  return copy
end

local function new_counts(record)
  for _, name in ipairs(COUNTS) do
    record[name] = 0
  end
  record.tails, record.latest, record.sums = 0, 0, {}
  return record
end

-- The header, nothing where there is none, or the text of a record that an older program has written.
local function load_header()
  local found = redis.pcall('HMGET', HEADER, 'head', 'eras', 'last')
  if found.err then
    if redis.call('TYPE', HEADER).ok ~= 'string' then
      error(found.err)
    end
    return nil, redis.call('GET', HEADER)
  end
  if not found[1] then
    if redis.call('EXISTS', HEADER) == 1 then
      error('this key holds no limit')
    end
    return nil
  end
  local values = cmsgpack.unpack(found[1])
  local record = {eras = cmsgpack.unpack(found[2]), last = tonumber(found[3])}
  for index, name in ipairs(HEAD) do
    record[name] = values[index]
  end
  return record
end

local function store_header(record, with_eras)
  local values = {}
  for index, name in ipairs(HEAD) do
    values[index] = record[name]
  end
  local head = cmsgpack.pack(values)
  local last = string.format('%.0f', record.last)
  if with_eras then
    redis.call('HSET', HEADER, 'head', head, 'last', last, 'eras', cmsgpack.pack(record.eras))
  else
    redis.call('HSET', HEADER, 'head', head, 'last', last)
  end
end

-- Logs: their sums stand in the header, their entries are read when a step counts.
local logs_read, logs_changed = {}, {}

local function log_named(record, name)
  local log = logs_read[name]
  if not log then
    log = {sum = record.sums[name] or 0, items = redis.call('HGET', WINDOWS, name) or ''}
    logs_read[name] = log
    log.stored = record.sums[name] and log.items
  end
  return log
end

local function store_logs(record)
  for name, log in pairs(logs_read) do
    record.sums[name] = log.sum
    if log.stored ~= log.items then
      redis.call('HSET', WINDOWS, name, log.items)
    end
  end
end

-- Sessions that this step has read; false where there is none by that name. `was` is what the header counts of it.
local seats = {}

local function new_seat()
  return {['until'] = 0, due = 0, n = 0, g = 0, next = 1, label = '', open = {}, runs = {}, out = {}}
end

local function waiting_of(seat)
  local count = 0
  for _, run in ipairs(seat.runs) do
    count = count + run.count
  end
  return count
end

local function too_large(terms, units)
  for _, bound in ipairs(terms.windows) do
    if 0 < bound.n and bound.n < (units[bound.unit] or 0) then
      return true
    end
  end
  return false
end

local function place_of(sid, run)
  return struct.pack('>I6', run.tick) .. cmsgpack.pack({sid, run.id, run.count, run.units})
end

-- Where a session's runs stand: a list of {set, member, tag}.
local function places_of(sid, seat, terms)
  local places = {}
  local set = #seat.out > 0 and UNCONFIRMED or LINE
  for _, run in ipairs(seat.runs) do
    if not too_large(terms, run.units) then
      places[#places + 1] = {set, place_of(sid, run), run.tag}
    end
  end
  return places
end

local function counts_of(seat, places)
  return {
    seats = 1, alive = seat.due == seat['until'] and 1 or 0, silent = #seat.out > 0 and 1 or 0,
    runs = #seat.runs, waiting = waiting_of(seat), placed = #places,
  }
end

local NOTHING = {seats = 0, alive = 0, silent = 0, runs = 0, waiting = 0, placed = 0}

local function count_change(record, was, is)
  for name, count in pairs(is) do
    record[name] = record[name] + count - was[name]
  end
end

-- `terms` are those that the places in line were made under.
local function seat_of(sid, terms)
  local seat = seats[sid]
  if seat == nil then
    local packed = redis.call('HGET', SESSIONS, sid)
    if packed then
      local values = cmsgpack.unpack(packed)
      seat = {
        ['until'] = values[1], due = values[2], n = values[3], g = values[4], next = values[5], label = values[6],
        open = values[7], runs = values[8], out = values[9],
      }
      seat.stood = places_of(sid, seat, terms)
      seat.was = counts_of(seat, seat.stood)
    else
      seat = false
    end
    seats[sid] = seat
  end
  return seat
end

local function add_seat(sid)
  local seat = new_seat()
  seat.was, seat.stood = NOTHING, {}
  seats[sid] = seat
  return seat
end

-- Writes a session that a step has changed, with its places, and counts the difference.
local function store_seat(record, sid, seat, terms)
  redis.call('HSET', SESSIONS, sid, cmsgpack.pack({
    seat['until'], seat.due, seat.n, seat.g, seat.next, seat.label, seat.open, seat.runs, seat.out,
  }))
  redis.call('ZADD', ENDS, seat.due, sid)
  local places = places_of(sid, seat, terms)
  local stands = {}
  for _, place in ipairs(places) do
    stands[place[1] .. place[2]] = place[3]
  end
  for _, place in ipairs(seat.stood) do
    if stands[place[1] .. place[2]] == place[3] then
      stands[place[1] .. place[2]] = nil
    else
      redis.call('ZREM', place[1], place[2])
    end
  end
  for _, place in ipairs(places) do
    if stands[place[1] .. place[2]] then
      redis.call('ZADD', place[1], place[3], place[2])
    end
  end
  local is = counts_of(seat, places)
  count_change(record, seat.was, is)
  seat.was, seat.stood = is, places
end

local function drop_seat(record, sid, seat)
  redis.call('HDEL', SESSIONS, sid)
  redis.call('ZREM', ENDS, sid)
  for _, place in ipairs(seat.stood) do
    redis.call('ZREM', place[1], place[2])
  end
  count_change(record, seat.was, NOTHING)
  seats[sid] = false
end

local function is_cut_off(sid)
  return sid:sub(-#CUT_OFF_SID) == CUT_OFF_SID
end

local function call_name(sid, id)
  return sid .. '\0' .. string.format('%.0f', id)
end

local function find_call(sid, id)
  local packed = redis.call('HGET', CALLS, call_name(sid, id))
  if packed then
    local values = cmsgpack.unpack(packed)
    return {id = id, at = values[1], ['until'] = values[2], units = values[3], label = values[4], key = values[5]}
  end
end

local function store_call(sid, call)
  redis.call('HSET', CALLS, call_name(sid, call.id),
    cmsgpack.pack({call.at, call['until'], call.units, call.label, call.key}))
end

local function add_call(record, sid, seat, call)
  seat.open[#seat.open + 1] = call.id
  record.used = record.used + 1
  record.cut_off = record.cut_off + (is_cut_off(sid) and 1 or 0)
  record.latest = math.max(record.latest, call['until'])
  store_call(sid, call)
end

-- The call is the session's no more; nothing where the session has no such call.
local function take_call(record, sid, seat, id)
  for index, each in ipairs(seat.open) do
    if each == id then
      local call = find_call(sid, id)
      table.remove(seat.open, index)
      redis.call('HDEL', CALLS, call_name(sid, id))
      record.used = record.used - 1
      record.cut_off = record.cut_off - (is_cut_off(sid) and 1 or 0)
      return call
    end
  end
end

local tails_read = {}

local function tail_of(key)
  local tail = tails_read[key]
  if tail == nil then
    local packed = redis.call('HGET', TAILS, key)
    tail = false
    if packed then
      local values = cmsgpack.unpack(packed)
      tail = {tag = values[1], runs = values[2]}
    end
    tails_read[key] = tail
  end
  return tail
end

local function add_tail(record, key, tag)
  record.tails = record.tails + 1
  tails_read[key] = {tag = tag, runs = 0, is_new = true}
  return tails_read[key]
end

local function left_line(record, key)
  local tail = tail_of(key)
  tail.runs = tail.runs - 1
  tail.changed = true
  if tail.runs == 0 then
    record.tails = record.tails - 1
    redis.call('HDEL', TAILS, key)
    tails_read[key] = false
  end
end

local function store_tails()
  for key, tail in pairs(tails_read) do
    if tail and (tail.changed or tail.is_new) then
      redis.call('HSET', TAILS, key, cmsgpack.pack({tail.tag, tail.runs}))
    end
  end
end

-- Whether the parts hold as much as the header says: a server that drops keys, or somebody who deletes them, forgets.
local function is_whole(record)
  local windows = 0
  for _ in pairs(record.sums) do
    windows = windows + 1
  end
  return redis.call('HLEN', SESSIONS) == record.seats and redis.call('ZCARD', ENDS) == record.seats
    and redis.call('HLEN', CALLS) == record.used and redis.call('HLEN', TAILS) == record.tails
    and redis.call('ZCARD', LINE) + redis.call('ZCARD', UNCONFIRMED) == record.placed
    and redis.call('HLEN', WINDOWS) == windows
end
