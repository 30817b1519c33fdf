-- A limit's record as a whole, after admission: to be read by people, and to be replaced.
local KEPT = {'v', 'gen', 'offset', 'tv', 'paused', 'hold', 'virtual', 'tick', 'mean', 'cool', 'eras', 'last'}
local PEOPLE = {'layers', 'note', 'paused_by', 'reports', 'asked'}
local NO_TERMS = {windows = {}}

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
  for at = 1, #log.items, SIZE do
    local instant, units = struct.unpack(ENTRY, log.items, at)
    items[#items + 1] = instant
    items[#items + 1] = units
  end
  return {sum = log.sum, items = items}
end

function logs.packed(log)
  local entries = {}
  for at = 1, #log.items, 2 do
    entries[#entries + 1] = struct.pack(ENTRY, log.items[at], log.items[at + 1])
  end
  return {sum = log.sum, items = table.concat(entries)}
end

-- What a text of an older program says; its calls may be packed once more.
function whole.read_older(text)
  local sound, found = pcall(cmsgpack.unpack, text)
  if not sound or type(found) ~= 'table' or not found.eras then
    error('this key holds no record of a limit')
  end
  found.tails = {}
  for _, name in ipairs({'layers', 'reports', 'asked'}) do
    if type(found[name]) == 'table' then
      found[name] = cjson.encode(found[name])
    end
  end
  local terms = found.eras[1] and found.eras[1].terms
  for _, seat in pairs(found.seats) do
    seat.calls = seat.calls or cmsgpack.unpack(seat.packed)
    seat.due = seat['until']
    if seat.due <= found.last and #seat.calls > 0 then
      seat.due = FOREVER
      for _, call in ipairs(seat.calls) do
        seat.due = min(seat.due, call['until'])
      end
    end
    for _, run in ipairs(seat.runs) do
      local tail = found.tails[run.key] or {tag = found.virtual, runs = 0}
      tail.tag = max(tail.tag, run.tag + run.count * line.cost(run.units, terms))
      tail.runs = tail.runs + 1
      found.tails[run.key] = tail
    end
    seat.held, seat.ends, seat.packed = nil, nil, nil
  end
  return found
end

function whole.read(record)
  local found = {logs = {}, seats = {}, tails = {}}
  for _, name in ipairs(KEPT) do
    found[name] = record[name]
  end
  local said = redis.call('HMGET', HEADER, unpack(PEOPLE))
  for index, name in ipairs(PEOPLE) do
    found[name] = said[index] or nil
  end
  for name, sum in pairs(record.sums) do
    found.logs[name] = {sum = sum, items = redis.call('HGET', WINDOWS, name) or ''}
  end
  for _, field in ipairs(parts.fields_of(TAILS)) do
    local key = field:sub(2)
    local tail = parts.tail_of(key)
    found.tails[key] = {tag = tail.tag, runs = tail.runs}
  end
  local terms = record.eras[1] and record.eras[1].terms or NO_TERMS
  for _, sid in ipairs(parts.fields_of(SESSIONS)) do
    local seat = parts.seat_of(record, sid, terms)
    local calls = {}
    for _, id in ipairs(seat.open) do
      calls[#calls + 1] = parts.find_call(sid, id)
    end
    found.seats[sid] = {
      ['until'] = seat['until'], due = seat.due, n = seat.n, g = seat.g, next = seat.next, label = seat.label,
      calls = calls, runs = seat.runs, out = seat.out,
    }
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
  for name, log in pairs(found.logs) do
    logs_read[name] = {sum = log.sum, items = log.items}
  end
  for key, tail in pairs(found.tails) do
    parts.add_tail(record, key, tail.tag).runs = tail.runs
  end
  local terms = record.eras[1] and record.eras[1].terms or NO_TERMS
  for sid, each in pairs(found.seats) do
    local seat = parts.add_seat(record, sid)
    for _, name in ipairs({'until', 'due', 'n', 'g', 'next', 'label', 'runs', 'out'}) do
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
  record.v = record.v + 1
  header.store(record, true)
  return true
end
