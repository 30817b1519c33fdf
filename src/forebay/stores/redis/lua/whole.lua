-- A limit's record as a whole, after parts: to be read by people, and to be replaced.
local KEPT = {'v', 'gen', 'offset', 'tv', 'paused', 'hold', 'virtual', 'tick', 'mean', 'cool', 'eras', 'last'}

-- What a text of an older program says; its calls may be packed once more.
local function read_older(text)
  local sound, whole = pcall(cmsgpack.unpack, text)
  if not sound or type(whole) ~= 'table' or not whole.eras then
    error('this key holds no record of a limit')
  end
  whole.tails = {}
  whole.reports = whole.reports and cjson.encode(whole.reports)
  whole.asked = whole.asked and cjson.encode(whole.asked)
  local terms = whole.eras[1] and whole.eras[1].terms
  for sid, seat in pairs(whole.seats) do
    seat.calls = seat.calls or cmsgpack.unpack(seat.packed)
    seat.due = seat['until']
    if seat.due <= whole.last and #seat.calls > 0 then
      seat.due = math.huge
      for _, call in ipairs(seat.calls) do
        seat.due = math.min(seat.due, call['until'])
      end
    end
    for _, run in ipairs(seat.runs) do
      local tail = whole.tails[run.key] or {tag = whole.virtual, runs = 0}
      tail.tag = math.max(tail.tag, run.tag + run.count * cost(run.units, terms))
      tail.runs = tail.runs + 1
      whole.tails[run.key] = tail
    end
    seat.held, seat.ends, seat.packed = nil, nil, nil
  end
  return whole
end

local function read_whole(record)
  local whole = {logs = {}, seats = {}, tails = {}}
  for _, name in ipairs(KEPT) do
    whole[name] = record[name]
  end
  local said = redis.call('HMGET', HEADER, unpack(PEOPLE))
  for index, name in ipairs(PEOPLE) do
    whole[name] = said[index] or nil
  end
  for name, sum in pairs(record.sums) do
    whole.logs[name] = {sum = sum, items = redis.call('HGET', WINDOWS, name) or ''}
  end
  for key, packed in pairs_of(redis.call('HGETALL', TAILS)) do
    local values = cmsgpack.unpack(packed)
    whole.tails[key] = {tag = values[1], runs = values[2]}
  end
  for sid in pairs_of(redis.call('HGETALL', SESSIONS)) do
    local seat = seat_of(sid, record.eras[1].terms)
    local calls = {}
    for index, id in ipairs(seat.open) do
      calls[index] = find_call(sid, id)
      if calls[index] and calls[index].key == '' then
        calls[index].key = nil
      end
    end
    whole.seats[sid] = {
      ['until'] = seat['until'], due = seat.due, n = seat.n, g = seat.g, next = seat.next, label = seat.label,
      calls = calls, runs = seat.runs, out = seat.out,
    }
  end
  return whole
end

-- Replaces all that there is of a limit; returns its header.
local function store_whole(whole)
  redis.call('DEL', HEADER, SESSIONS, CALLS, ENDS, LINE, UNCONFIRMED, TAILS, WINDOWS)
  seats, logs_read, tails_read = {}, {}, {}
  local record = new_counts({})
  for _, name in ipairs(KEPT) do
    record[name] = whole[name]
  end
  for _, name in ipairs(PEOPLE) do
    if whole[name] then
      redis.call('HSET', HEADER, name, whole[name])
    end
  end
  for name, log in pairs(whole.logs) do
    logs_read[name] = {sum = log.sum, items = log.items}
  end
  for key, tail in pairs(whole.tails) do
    add_tail(record, key, tail.tag).runs = tail.runs
  end
  local terms = record.eras[1] and record.eras[1].terms or {windows = {}}
  for sid, each in pairs(whole.seats) do
    local seat = add_seat(sid)
    for _, name in ipairs({'until', 'due', 'n', 'g', 'next', 'label', 'runs', 'out'}) do
      seat[name] = each[name]
    end
    for _, call in ipairs(each.calls) do
      add_call(record, sid, seat, call)
    end
    store_seat(record, sid, seat, terms)
  end
  store_tails()
  store_logs(record)
  store_header(record, true)
  return record
end

-- The header, after taking over what an older program has left, if anything.
local function take_over()
  local record, text = load_header()
  return text and store_whole(read_older(text)) or record
end
