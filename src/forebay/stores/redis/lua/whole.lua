-- A limit's record as a whole, after admission: to be read by people, and to be replaced.
local KEPT = {
  'version', 'generation', 'clock_offset_ms', 'terms_version', 'paused_until', 'held_back_until', 'virtual_time',
  'arrival_count', 'mean_call_ms', 'freshness_ms', 'freshness_until', 'last_counted_at', 'cooldown', 'eras', 'last_step_at',
}
local PEOPLE = {'layers', 'pause_note', 'paused_by', 'reports', 'refused_callers'}
-- What the first program called the fields.
local OLDER = {
  record = {
    v = 'version', gen = 'generation', offset = 'clock_offset_ms', last = 'last_step_at', tv = 'terms_version',
    logs = 'window_logs', seats = 'sessions', paused = 'paused_until', note = 'pause_note', cool = 'cooldown',
    hold = 'held_back_until', virtual = 'virtual_time', tick = 'arrival_count', mean = 'mean_call_ms',
  },
  terms = {
    call = 'call_timeout_ms', lease = 'lease_ms', beat = 'heartbeat_ms', start = 'start_within_ms', transit = 'transit_ms',
    stops = 'stops_on_disconnect', backoff = 'cooldown_steps_ms', longest = 'max_cooldown_ms', breaker = 'breaker_after',
    down = 'when_store_down',
  },
  era = {['until'] = 'ends_at'},
  bound = {per = 'per_ms'},
  layer = {['until'] = 'ends_at', at = 'set_at', who = 'set_by'},
  log = {items = 'entries'},
  cooldown = {
    ['until'] = 'ends_at', began = 'began_at', ramp = 'ramp_began_at', second = 'ramp_second', count = 'ramp_grant_count',
    fails = 'failure_count',
  },
  session = {
    ['until'] = 'ends_at', n = 'request_number', g = 'grant_number', next = 'next_call_id', out = 'unconfirmed',
  },
  call = {at = 'granted_at', ['until'] = 'call_until'},
  run = {count = 'caller_count', tag = 'virtual_start', tick = 'arrival_number'},
  grant = {g = 'number', run = 'run_id', count = 'call_count', first = 'first_call_id', at = 'granted_at'},
}
local NO_TERMS = {windows = {}, in_flight_units = {}}

local whole = {}

function logs.shifted(items, ms)
  if ms == 0 then
    return items
  end
  local moved = {}
  for at = 1, #items, SIZE do
    local instant, units = struct.unpack(ENTRY, items, at)
    moved[#moved + 1] = struct.pack(ENTRY, instant + ms, units)
  end
  return table.concat(moved)
end

-- As readers have it, and back.
function logs.listed(log)
  local items = {}
  for at = 1, #log.entries, SIZE do
    local instant, units = struct.unpack(ENTRY, log.entries, at)
    items[#items + 1] = instant
    items[#items + 1] = units
  end
  return {sum = log.sum, entries = items}
end

function logs.packed(log)
  local entries = {}
  for at = 1, #log.entries, 2 do
    entries[#entries + 1] = struct.pack(ENTRY, log.entries[at], log.entries[at + 1])
  end
  return {sum = log.sum, entries = table.concat(entries)}
end

local function rename(fields, names)
  for older, newer in pairs(names) do
    if fields[older] ~= nil then
      fields[newer], fields[older] = fields[older], nil
    end
  end
end

local function rename_all(list, names)
  for _, fields in pairs(list) do
    rename(fields, names)
  end
end

local function rename_record(found)
  rename(found, OLDER.record)
  rename(found.cooldown, OLDER.cooldown)
  found.layers = cjson.decode(found.layers)
  rename_all(found.layers, OLDER.layer)
  rename_all(found.window_logs, OLDER.log)
  for _, era in ipairs(found.eras) do
    rename(era, OLDER.era)
    rename(era.terms, OLDER.terms)
    era.terms.share_processes, era.terms.in_flight_units = 0, {}
    rename_all(era.terms.windows, OLDER.bound)
  end
  for _, seat in pairs(found.sessions) do
    seat.calls = seat.calls or cmsgpack.unpack(seat.packed)
    rename(seat, OLDER.session)
    rename_all(seat.calls, OLDER.call)
    for _, call in ipairs(seat.calls) do
      call.counted_at = call.granted_at
    end
    rename_all(seat.runs, OLDER.run)
    rename_all(seat.unconfirmed, OLDER.grant)
    seat.held, seat.ends, seat.packed = nil, nil, nil
  end
end

-- What a text of an older program says; its calls may be packed once more.
function whole.read_older(text)
  local sound, found = pcall(cmsgpack.unpack, text)
  if not sound or type(found) ~= 'table' or not found.eras or not found.seats or type(found.layers) ~= 'string' then
    error('this key holds no record of a limit')
  end
  rename_record(found)
  found.tails, found.freshness_ms, found.freshness_until, found.last_counted_at = {}, 0, 0, 0
  found.layers = cjson.encode(found.layers)
  local terms = found.eras[1] and found.eras[1].terms
  for _, seat in pairs(found.sessions) do
    seat.due_at = seat.ends_at
    if seat.due_at <= found.last_step_at and #seat.calls > 0 then
      seat.due_at = FOREVER
      for _, call in ipairs(seat.calls) do
        seat.due_at = min(seat.due_at, call.call_until)
      end
    end
    for _, run in ipairs(seat.runs) do
      local tail = found.tails[run.key] or {virtual_finish = found.virtual_time, run_count = 0}
      tail.virtual_finish = max(tail.virtual_finish, run.virtual_start + run.caller_count * line.cost(run.units, terms))
      tail.run_count = tail.run_count + 1
      found.tails[run.key] = tail
    end
  end
  return found
end

-- What the header says and one session: the others are counted.
function whole.find(record, sid)
  local found = whole.read_header(record)
  for name, sum in pairs(record.window_sums) do
    found.window_logs[name] = {sum = sum, entries = ''}
  end
  local seat = parts.seat_of(record, sid, record.eras[1] and record.eras[1].terms or NO_TERMS)
  local own = seat and seat.was or parts.no_counts()
  local open_count = seat and #seat.open_calls or 0
  found.rest = {
    in_flight_count = record.in_flight_count - open_count,
    cut_off_count = record.cut_off_count - (parts.is_cut_off(sid) and open_count or 0), latest_call_until = 0,
    session_count = record.live_session_count - own.live_session_count, caller_count = record.caller_count - own.caller_count,
    run_count = record.run_count - own.run_count, before_count = 0,
  }
  local sums = {}
  for unit, sum in pairs(record.in_flight_sums) do
    sums[unit] = sum
  end
  if seat then
    whole.read_session(found, sid, seat)
    for _, call in ipairs(found.sessions[sid].calls) do
      for unit, count in pairs(call.units) do
        local left = (sums[unit] or 0) - count
        sums[unit] = left > 0 and left or nil
      end
    end
  end
  found.rest.in_flight_sums = sums
  return found
end

function whole.read_header(record)
  local found = {window_logs = {}, sessions = {}, tails = {}}
  for _, name in ipairs(KEPT) do
    found[name] = record[name]
  end
  local said = redis.call('HMGET', HEADER, unpack(PEOPLE))
  for index, name in ipairs(PEOPLE) do
    found[name] = said[index] or nil
  end
  return found
end

function whole.read_session(found, sid, seat)
  local calls = {}
  for _, id in ipairs(seat.open_calls) do
    calls[#calls + 1] = parts.find_call(sid, id)
  end
  found.sessions[sid] = {
    ends_at = seat.ends_at, due_at = seat.due_at, request_number = seat.request_number, grant_number = seat.grant_number,
    next_call_id = seat.next_call_id, label = seat.label, calls = calls, runs = seat.runs, unconfirmed = seat.unconfirmed,
    place = seat.place,
  }
end

function whole.read(record)
  local found = whole.read_header(record)
  for name, sum in pairs(record.window_sums) do
    found.window_logs[name] = {sum = sum, entries = redis.call('HGET', WINDOWS, name) or ''}
  end
  for _, field in ipairs(parts.fields_of(TAILS)) do
    local key = field:sub(2)
    local tail = parts.tail_of(key)
    found.tails[key] = {virtual_finish = tail.virtual_finish, run_count = tail.run_count}
  end
  local terms = record.eras[1] and record.eras[1].terms or NO_TERMS
  for _, sid in ipairs(parts.fields_of(SESSIONS)) do
    whole.read_session(found, sid, parts.seat_of(record, sid, terms))
  end
  return found
end

-- Replaces all that there is of a limit; returns its header.
function whole.store(found)
  redis.call('UNLINK', HEADER)
  local record = parts.clear({})
  for _, name in ipairs(KEPT) do
    record[name] = found[name]
  end
  for _, name in ipairs(PEOPLE) do
    if found[name] then
      redis.call('HSET', HEADER, name, found[name])
    end
  end
  for name, log in pairs(found.window_logs) do
    logs_read[name] = {sum = log.sum, entries = log.entries}
  end
  for key, tail in pairs(found.tails) do
    parts.add_tail(record, key, tail.virtual_finish).run_count = tail.run_count
  end
  local terms = record.eras[1] and record.eras[1].terms or NO_TERMS
  for sid, each in pairs(found.sessions) do
    local seat = parts.add_seat(record, sid)
    for _, name in ipairs({
      'ends_at', 'due_at', 'request_number', 'grant_number', 'next_call_id', 'label', 'runs', 'unconfirmed',
      'place',
    }) do
      seat[name] = each[name]
    end
    for _, call in ipairs(each.calls) do
      parts.add_call(record, sid, seat, call)
    end
    parts.store_seat(record, sid, seat, terms)
  end
  parts.store_tails()
  parts.store_logs(record)
  header.store(record, true)
  return record
end

-- The header, after taking over what an older program has left, if anything.
function whole.take_over()
  local record, text = header.load()
  return text and whole.store(whole.read_older(text)) or record
end

-- Of a record that is to be changed: whether parts of it are gone. Then it starts again, for the change to be tried on.
function whole.has_lost(record, raw)
  if parts.are_whole(record) then
    return false
  end
  local now = header.logical(record, raw, -1, 0)
  if #record.eras > 0 then
    admission.start_again(record, admission.terms_at(record, now), now)
  else
    parts.clear(record)
  end
  record.version = record.version + 1
  header.store(record, true)
  return true
end
