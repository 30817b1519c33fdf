-- The header of a limit, after clock. It sums up the other parts, so that a step reads only what it has to do with.
--
-- KEYS[1]  header       hash: head (NUMBERS below, then cmsgpack), eras (cmsgpack), last (ms), and what only people read
-- KEYS[2]  sessions     hash: session -> cmsgpack (sessions.lua)
-- KEYS[3]  calls        hash: session\0id -> cmsgpack (sessions.lua)
-- KEYS[4]  ends         sorted set: session, by when it is due
-- KEYS[5]  line         sorted set: runs that may be served, by tag; a member begins with its tick (sessions.lua)
-- KEYS[6]  unconfirmed  sorted set: runs whose sessions have to confirm their last grants first
-- KEYS[7]  tails        hash: = and the key of callers -> cmsgpack of tag, runs
-- KEYS[8]  windows      hash: window -> its log (window_log.lua)
local HEADER, SESSIONS, CALLS, ENDS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local LINE, UNCONFIRMED, TAILS, WINDOWS = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
-- Every part has this member, a sorted set at its end: so its key is there even if nothing is in it, which a cluster that
-- moves keys asks for.
local PRESENT = '\0'
local SECOND = 1000
local JUMP = 2 * SECOND
local FOREVER = 2 ^ 45
local PAUSED = 'paused'
local RELEARNING = 'relearning'
local NUMBERS = '>dddddddddddddddddddddddddddd'
local NUMBERS_SIZE = 28 * 8

-- A script makes all of its functions again each time that it runs, and each local that a function refers to costs time then.
local header = {}

-- seats, alive, silent: how many sessions there are, how many of them are alive, and how many have to confirm something.
-- runs, waiting: how many runs of how many callers wait; in_line, parked: how many of the runs stand in which set.
-- used, cut_off: how many calls count. latest: when the last call that was ever granted is over. tails: how many.
-- sums: of each window.
function header.load()
  local found = redis.pcall('HMGET', HEADER, 'head', 'eras', 'last')
  if found.err then
    if not found.err:find('WRONGTYPE', 1, true) then
      error(found.err)
    end
    return nil, redis.call('GET', HEADER)
  end
  local head = found[1]
  if not head then
    if redis.call('EXISTS', HEADER) == 1 then
      error('this key holds no record of a limit')
    end
    return nil
  end
  local v, gen, offset, tv, paused, hold, virtual, tick, mean, latest, seats, alive, silent, runs, waiting, in_line,
    parked, used, cut_off, tails, cool_until, began, level, ramp, second, count, fails, eras_count =
    struct.unpack(NUMBERS, head)
  local kind, sums = cmsgpack.unpack(head:sub(NUMBERS_SIZE + 1))
  local eras = {}
  local packed = found[2]
  local offset_in_eras = 0
  for index = 1, eras_count do
    local era
    offset_in_eras, era = cmsgpack.unpack_one(packed, offset_in_eras)
    local windows = era[13]
    eras[index] = {
      ['until'] = era[1],
      terms = {
        in_flight = era[2], call = era[3], lease = era[4], beat = era[5], start = era[6], transit = era[7], stops = era[8],
        backoff = era[9], longest = era[10], breaker = era[11], down = era[12], windows = windows, share = era[14],
      },
    }
  end
  return {
    v = v, gen = gen, offset = offset, tv = tv, paused = paused, hold = hold, virtual = virtual, tick = tick, mean = mean,
    latest = latest, seats = seats, alive = alive, silent = silent, runs = runs, waiting = waiting, in_line = in_line,
    parked = parked, used = used, cut_off = cut_off, tails = tails, sums = sums, eras = eras, last = tonumber(found[3]),
    cool = {
      kind = kind, ['until'] = cool_until, began = began, level = level, ramp = ramp, second = second, count = count,
      fails = fails,
    },
  }
end

function header.store(record, with_eras)
  local cool = record.cool
  local head = struct.pack(NUMBERS, record.v, record.gen, record.offset, record.tv, record.paused, record.hold,
    record.virtual, record.tick, record.mean, record.latest, record.seats, record.alive, record.silent, record.runs,
    record.waiting, record.in_line, record.parked, record.used, record.cut_off, record.tails, cool['until'], cool.began,
    cool.level, cool.ramp, cool.second, cool.count, cool.fails, #record.eras)
    .. cmsgpack.pack(cool.kind, record.sums)
  local last = string.format('%.0f', record.last)
  if not with_eras then
    redis.call('HSET', HEADER, 'head', head, 'last', last)
    return
  end
  local packed = {}
  for index, era in ipairs(record.eras) do
    local terms = era.terms
    packed[index] = cmsgpack.pack({
      era['until'], terms.in_flight, terms.call, terms.lease, terms.beat, terms.start, terms.transit, terms.stops,
      terms.backoff, terms.longest, terms.breaker, terms.down, terms.windows, terms.share,
    })
  end
  redis.call('HSET', HEADER, 'head', head, 'last', last, 'eras', table.concat(packed))
end

-- forebay.rules.limit_state in Lua, as far as a heartbeat needs it.
function header.logical(record, raw, seen, elapsed)
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

function header.gate(record, terms, now)
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

function header.new_answer(record, seat, now, status)
  return {
    status = status, now = now, v = record.v, gen = record.gen, tv = record.tv, lost = 0,
    grants = status == 'late' and {} or seat.out,
    starts = {}, waits = {}, terms = {}, wakes = {}, others = 0, sessions = record.alive,
    used = 0, sums = {}, level = 0, cut_off = 0, offset = record.offset, shut = 0,
    began = record.cool.began, more = 0,
  }
end

function header.unknown(now)
  return header.new_answer(
    {v = 0, gen = 1, tv = 0, offset = 0, cool = {began = 0}, alive = 0}, {out = {}}, now, 'unknown')
end

function header.fill_in(answer, record, seat, ask, terms)
  local others = record.waiting
  for _, run in ipairs(seat.runs) do
    others = others - run.count
  end
  answer.others = others
  answer.used = record.used
  for index, bound in ipairs(terms.windows) do
    answer.sums[index] = record.sums[bound.unit .. '/' .. bound.per] or 0
  end
  answer.level = record.cool.level
  answer.cut_off = record.cut_off
  local _, shut_until = header.gate(record, terms, answer.now)
  answer.shut = max(0, shut_until - answer.now)
  if ask.tv ~= record.tv then
    answer.terms = {terms}
  end
end

-- Begins the session's lease again. A seat that is new continues where the session is.
function header.renew(seat, ask, terms, now)
  seat['until'] = now + terms.lease
  seat.due = seat['until']
  seat.next = max(seat.next, ask.next)
  seat.g = max(seat.g, ask.heard)
  seat.n = max(seat.n, ask.acked)
end

-- Whether a session that is alive says only that it still is.
function header.only_beats(seat, ask)
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

-- Of a session that remembers: whether this store knows less than it has told it.
function header.has_forgotten(record, seat, ask, terms, now)
  local last_n = seat and seat.n or 0
  local last_g = seat and seat.g or 0
  local sure = ask.sure ~= 0 and now < ask.seen + terms.lease
  return ask.version > record.v or (sure and (last_n < ask.acked or last_g < ask.heard))
end

-- A session's part: nothing where there is none by that name. What it holds and was given counts only in the generation
-- that it was written in.
function header.load_seat(record, sid)
  local packed = redis.call('HGET', SESSIONS, sid)
  if not packed then
    return false
  end
  local until_, due, n, g, next_id, label, gen, open, run_values, out_values = cmsgpack.unpack(packed)
  local runs, out = {}, {}
  for at = 1, #run_values, 7 do
    runs[#runs + 1] = {
      id = run_values[at], key = run_values[at + 1], count = run_values[at + 2], units = run_values[at + 3],
      label = run_values[at + 4], tag = run_values[at + 5], tick = run_values[at + 6],
    }
  end
  if gen ~= record.gen then
    open = {}
  else
    for at = 1, #out_values, 6 do
      out[#out + 1] = {
        g = out_values[at], run = out_values[at + 1], count = out_values[at + 2], first = out_values[at + 3],
        at = out_values[at + 4], late = out_values[at + 5] >= 0 and out_values[at + 5] or nil,
      }
    end
  end
  return {
    ['until'] = until_, due = due, n = n, g = g, next = next_id, label = label, open = open, runs = runs, out = out,
  }
end

function header.pack_seat(record, seat)
  local runs, out = {}, {}
  for _, run in ipairs(seat.runs) do
    local at = #runs
    runs[at + 1], runs[at + 2], runs[at + 3], runs[at + 4], runs[at + 5], runs[at + 6], runs[at + 7] =
      run.id, run.key, run.count, run.units, run.label, run.tag, run.tick
  end
  for _, grant in ipairs(seat.out) do
    local at = #out
    out[at + 1], out[at + 2], out[at + 3], out[at + 4], out[at + 5], out[at + 6] =
      grant.g, grant.run, grant.count, grant.first, grant.at, grant.late or -1
  end
  return cmsgpack.pack(
    seat['until'], seat.due, seat.n, seat.g, seat.next, seat.label, record.gen, seat.open, runs, out)
end

-- Of a session's request: a JSON list; and the answer: NUMBERS first, since names and text take longer.
function header.read_ask(text)
  local a = cjson.decode(text)
  return {
    sid = a[1], n = a[2], heard = a[3], next = a[4], label = a[5], seen = a[6], elapsed = a[7], version = a[8],
    acked = a[9], sure = a[10], tv = a[11], done = a[12], hints = a[13], starts = a[14], runs = a[15],
  }
end

function header.reply(a)
  local lists
  if #a.grants + #a.starts + #a.waits + #a.terms + #a.wakes + #a.sums == 0 then
    lists = '["' .. a.status .. '",[],[],[],[],[],[]]'
  else
    lists = cjson.encode({a.status, a.grants, a.starts, a.waits, a.terms, a.wakes, a.sums})
  end
  return struct.pack('>dddddddddddddd', a.now, a.v, a.gen, a.tv, a.lost, a.others, a.sessions, a.used, a.level, a.cut_off,
    a.offset, a.shut, a.began, a.more) .. lists
end
