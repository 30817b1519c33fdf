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
local NUMBERS = '>ddddddddddddddddddddddddddddddd'
local NUMBERS_SIZE = 31 * 8

-- A script makes all of its functions again each time that it runs, and each local that a function refers to costs time then.
local header = {}

-- The record, with counts of the other parts: of sessions, of those that are alive, and of those that have to confirm
-- something; of runs, of their callers, and of runs in each of the two sets; of calls, of those that were cut off; of tails.
-- in_flight_sums: the units of these calls, but not how many they are. latest_call_until: when the last call that was ever
-- granted is over. window_sums: of each window.
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
  local version, generation, clock_offset, terms_version, paused_until, held_back_until, virtual_time, arrivals, mean_call,
    latest, sessions, live, unconfirmed, runs, callers, in_line, parked, in_flight, cut_off, tails, cool_ends, began, level,
    ramp_began, ramp_second, ramp_grants, failures, eras_count, freshness, freshness_until, last_counted_at =
    struct.unpack(NUMBERS, head)
  local kind, sums, unit_sums = cmsgpack.unpack(head:sub(NUMBERS_SIZE + 1))
  local eras = {}
  local packed = found[2]
  local offset_in_eras = 0
  for index = 1, eras_count do
    local era
    offset_in_eras, era = cmsgpack.unpack_one(packed, offset_in_eras)
    local windows = era[13]
    eras[index] = {
      ends_at = era[1],
      terms = {
        in_flight = era[2], call_timeout_ms = era[3], lease_ms = era[4], heartbeat_ms = era[5], start_within_ms = era[6],
        transit_ms = era[7], stops_on_disconnect = era[8], cooldown_steps_ms = era[9], max_cooldown_ms = era[10],
        breaker_after = era[11], when_store_down = era[12], windows = windows, share_processes = era[14],
        in_flight_units = era[15],
      },
    }
  end
  return {
    version = version, generation = generation, clock_offset_ms = clock_offset, last_step_at = tonumber(found[3]),
    terms_version = terms_version, paused_until = paused_until, held_back_until = held_back_until,
    virtual_time = virtual_time, arrival_count = arrivals, mean_call_ms = mean_call, latest_call_until = latest,
    session_count = sessions, live_session_count = live, unconfirmed_session_count = unconfirmed, run_count = runs,
    caller_count = callers, line_run_count = in_line, parked_run_count = parked, in_flight_count = in_flight,
    freshness_ms = freshness, freshness_until = freshness_until, last_counted_at = last_counted_at,
    cut_off_count = cut_off, tail_count = tails, window_sums = sums, in_flight_sums = unit_sums, eras = eras,
    cooldown = {
      kind = kind, ends_at = cool_ends, began_at = began, level = level, ramp_began_at = ramp_began,
      ramp_second = ramp_second, ramp_grant_count = ramp_grants, failure_count = failures,
    },
  }
end

function header.store(record, with_eras)
  local cool = record.cooldown
  local head = struct.pack(NUMBERS, record.version, record.generation, record.clock_offset_ms, record.terms_version,
    record.paused_until, record.held_back_until, record.virtual_time, record.arrival_count, record.mean_call_ms,
    record.latest_call_until, record.session_count, record.live_session_count, record.unconfirmed_session_count,
    record.run_count, record.caller_count, record.line_run_count, record.parked_run_count, record.in_flight_count,
    record.cut_off_count, record.tail_count, cool.ends_at, cool.began_at, cool.level, cool.ramp_began_at, cool.ramp_second,
    cool.ramp_grant_count, cool.failure_count, #record.eras, record.freshness_ms, record.freshness_until,
    record.last_counted_at)
    .. cmsgpack.pack(cool.kind, record.window_sums, record.in_flight_sums)
  local last = string.format('%.0f', record.last_step_at)
  if not with_eras then
    redis.call('HSET', HEADER, 'head', head, 'last', last)
    return
  end
  local packed = {}
  for index, era in ipairs(record.eras) do
    local terms = era.terms
    packed[index] = cmsgpack.pack({
      era.ends_at, terms.in_flight, terms.call_timeout_ms, terms.lease_ms, terms.heartbeat_ms, terms.start_within_ms,
      terms.transit_ms, terms.stops_on_disconnect, terms.cooldown_steps_ms, terms.max_cooldown_ms, terms.breaker_after,
      terms.when_store_down, terms.windows, terms.share_processes, terms.in_flight_units,
    })
  end
  redis.call('HSET', HEADER, 'head', head, 'last', last, 'eras', table.concat(packed))
end

-- forebay.rules.limit_state in Lua, as far as a heartbeat needs it.
function header.logical(record, raw, seen, elapsed)
  local now = raw + record.clock_offset_ms
  local last = record.last_step_at
  local told = seen >= 0 and seen + elapsed or -1
  local true_now = now
  if now < last - JUMP then
    true_now = max(told, last)
  elseif last - JUMP <= told and told < now - JUMP then
    true_now = told
  end
  record.clock_offset_ms = record.clock_offset_ms + true_now - now
  now = max(true_now, last)
  record.last_step_at = now
  return now
end

function header.gate(record, terms, now)
  local cool = record.cooldown
  if record.paused_until == 0 or record.paused_until > now then
    return PAUSED, record.paused_until == 0 and FOREVER or record.paused_until
  end
  if terms.in_flight == 0 then
    return PAUSED, FOREVER
  end
  for _, bound in ipairs(terms.windows) do
    if bound.n == 0 then
      return PAUSED, FOREVER
    end
  end
  for _, bound in ipairs(terms.in_flight_units) do
    if bound.n == 0 then
      return PAUSED, FOREVER
    end
  end
  if cool.ends_at > now and cool.ends_at >= record.held_back_until then
    return cool.kind, cool.ends_at
  end
  if record.held_back_until > now then
    return RELEARNING, record.held_back_until
  end
  return '', 0
end

function header.new_answer(record, seat, now, status)
  return {
    status = status, now = now, version = record.version, generation = record.generation,
    terms_version = record.terms_version, session_lost = 0, grants = status == 'ok' and seat.unconfirmed or {},
    restamps = {}, waits = {}, terms = {}, woken_session_ids = {}, other_caller_count = 0,
    session_count = record.live_session_count, in_flight_count = 0, in_flight_sums = {}, window_sums = {}, cooldown_level = 0,
    cut_off_count = 0, clock_offset_ms = record.clock_offset_ms, shut_for_ms = 0,
    cooldown_began_at = record.cooldown.began_at, has_more = 0,
  }
end

function header.unknown(now)
  return header.new_answer({
    version = 0, generation = 1, terms_version = 0, clock_offset_ms = 0, cooldown = {began_at = 0}, live_session_count = 0,
  }, {unconfirmed = {}}, now, 'unknown')
end

function header.fill_in(answer, record, seat, ask, terms)
  local others = record.caller_count
  for _, run in ipairs(seat.runs) do
    others = others - run.caller_count
  end
  answer.other_caller_count = others
  answer.in_flight_count = record.in_flight_count
  for index, bound in ipairs(terms.in_flight_units) do
    answer.in_flight_sums[index] = record.in_flight_sums[bound.unit] or 0
  end
  for index, bound in ipairs(terms.windows) do
    answer.window_sums[index] = record.window_sums[bound.unit .. '/' .. bound.per_ms] or 0
  end
  answer.cooldown_level = record.cooldown.level
  answer.cut_off_count = record.cut_off_count
  local _, shut_until = header.gate(record, terms, answer.now)
  answer.shut_for_ms = max(0, shut_until - answer.now)
  if ask.terms_version ~= record.terms_version then
    answer.terms = {terms}
  end
end

-- Begins the session's lease again. A seat that is new continues where the session is.
function header.renew(seat, ask, terms, now)
  seat.ends_at = now + terms.lease_ms
  seat.due_at = seat.ends_at
  seat.next_call_id = max(seat.next_call_id, ask.next_call_id)
  seat.grant_number = max(seat.grant_number, ask.confirmed_grant_number)
  seat.request_number = max(seat.request_number, ask.answered_request_number)
end

-- Whether this is said of the slot of a kept place by somebody who does not hold it.
function header.is_foreign(seat, ask)
  return seat.place and ask.keep_ms == 0 and seat.place.holder ~= ask.holder
end

-- Whether a session is granted nothing until it has said something.
function header.is_silent(seat)
  local place = seat.place
  return #seat.unconfirmed > 0 or (place and place.is_awaited == 0 and place.holder == '')
end

-- Whether a session that is alive says only that it still is.
function header.only_beats(seat, ask)
  if header.is_foreign(seat, ask) then
    return false
  end
  if ask.request_number ~= 0 or #ask.ended_calls > 0 or #ask.refusals > 0 or seat.due_at ~= seat.ends_at then
    return false
  end
  for _, grant in ipairs(seat.unconfirmed) do
    if grant.number <= ask.confirmed_grant_number then
      return false
    end
  end
  return true
end

-- Of a session that remembers: whether this store knows less than it has told it.
function header.has_forgotten(record, seat, ask, terms, now)
  local last_request = seat and seat.request_number or 0
  local last_grant = seat and seat.grant_number or 0
  local sure = ask.is_sure ~= 0 and now < ask.seen_at + terms.lease_ms
  return ask.seen_version > record.version
    or (sure and (last_request < ask.answered_request_number or last_grant < ask.confirmed_grant_number))
end

-- A session's part: nothing where there is none by that name. What it holds and was given counts only in the generation
-- that it was written in.
function header.load_seat(record, sid)
  local packed = redis.call('HGET', SESSIONS, sid)
  if not packed then
    return false
  end
  local ends_at, due_at, request_number, grant_number, next_call_id, label, generation, open_calls, run_values, grant_values,
    place_values = cmsgpack.unpack(packed)
  local runs, unconfirmed = {}, {}
  for at = 1, #run_values, 7 do
    runs[#runs + 1] = {
      id = run_values[at], key = run_values[at + 1], caller_count = run_values[at + 2], units = run_values[at + 3],
      label = run_values[at + 4], virtual_start = run_values[at + 5], arrival_number = run_values[at + 6],
    }
  end
  if generation ~= record.generation then
    open_calls = {}
  else
    for at = 1, #grant_values, 6 do
      local max_age = grant_values[at + 5]
      unconfirmed[#unconfirmed + 1] = {
        number = grant_values[at], run_id = grant_values[at + 1], call_count = grant_values[at + 2],
        first_call_id = grant_values[at + 3], granted_at = grant_values[at + 4], max_age_ms = max_age >= 0 and max_age or nil,
      }
    end
  end
  local place
  if place_values then
    place = {
      name = place_values[1], told_at = place_values[2], is_awaited = place_values[3], missed_count = place_values[4],
      virtual_start = place_values[5], arrival_number = place_values[6], holder = place_values[7],
    }
  end
  return {
    ends_at = ends_at, due_at = due_at, request_number = request_number, grant_number = grant_number,
    next_call_id = next_call_id, label = label, open_calls = open_calls, runs = runs, unconfirmed = unconfirmed,
    place = place,
  }
end

function header.pack_seat(record, seat)
  local runs, grants, place = {}, {}, seat.place
  for _, run in ipairs(seat.runs) do
    local at = #runs
    runs[at + 1], runs[at + 2], runs[at + 3], runs[at + 4], runs[at + 5], runs[at + 6], runs[at + 7] =
      run.id, run.key, run.caller_count, run.units, run.label, run.virtual_start, run.arrival_number
  end
  for _, grant in ipairs(seat.unconfirmed) do
    local at = #grants
    grants[at + 1], grants[at + 2], grants[at + 3], grants[at + 4], grants[at + 5], grants[at + 6] =
      grant.number, grant.run_id, grant.call_count, grant.first_call_id, grant.granted_at, grant.max_age_ms or -1
  end
  return cmsgpack.pack(
    seat.ends_at, seat.due_at, seat.request_number, seat.grant_number, seat.next_call_id, seat.label, record.generation,
    seat.open_calls, runs, grants, place and {
      place.name, place.told_at, place.is_awaited, place.missed_count, place.virtual_start, place.arrival_number,
      place.holder,
    })
end

local ENDED_CALL = {'call_id', 'outcome', 'units'}
local REFUSAL = {'kind', 'granted_at', 'wait_ms', 'jitter_permille'}
local RUN = {'id', 'key', 'caller_count', 'units', 'label', 'front', 'in_hand_count'}
header.GRANT = {'number', 'run_id', 'call_count', 'first_call_id', 'granted_at', 'max_age_ms'}
local RESTAMP = {'call_id', 'granted_at', 'max_age_ms'}
local WAIT = {'ask_again_in_ms', 'eta_ms', 'ahead_count', 'blocked_by'}

-- Tables of lists, and lists of tables: names would take longer on the way.
local function named(lists, names)
  for index, list in ipairs(lists) do
    local found = {}
    for at, name in ipairs(names) do
      found[name] = list[at]
    end
    lists[index] = found
  end
  return lists
end

function header.listed(tables, names)
  local lists = {}
  for index, each in ipairs(tables) do
    local list = {}
    for at, name in ipairs(names) do
      list[at] = each[name] == nil and -1 or each[name]
    end
    lists[index] = list
  end
  return lists
end

-- Of a session's request: a JSON list; and the answer: NUMBERS first, since names and text take longer.
function header.read_ask(text)
  local a = cjson.decode(text)
  return {
    session_id = a[1], request_number = a[2], confirmed_grant_number = a[3], next_call_id = a[4], label = a[5],
    seen_at = a[6], elapsed_ms = a[7], seen_version = a[8], answered_request_number = a[9], is_sure = a[10],
    terms_version = a[11], ended_calls = named(a[12], ENDED_CALL), refusals = named(a[13], REFUSAL),
    restamp_call_ids = a[14], runs = named(a[15], RUN), grant_delay_ms = a[16], holder = a[17] or '', keep_ms = a[18] or 0,
    place_name = a[19] or '',
  }
end

function header.reply(a)
  local lists
  if #a.grants + #a.restamps + #a.waits + #a.terms + #a.woken_session_ids + #a.window_sums + #a.in_flight_sums == 0 then
    lists = '["' .. a.status .. '",[],[],[],[],[],[],[]]'
  else
    lists = cjson.encode({
      a.status, header.listed(a.grants, header.GRANT), header.listed(a.restamps, RESTAMP), header.listed(a.waits, WAIT),
      a.terms, a.woken_session_ids, a.window_sums, a.in_flight_sums,
    })
  end
  return struct.pack('>dddddddddddddd', a.now, a.version, a.generation, a.terms_version, a.session_lost,
    a.other_caller_count, a.session_count, a.in_flight_count, a.cooldown_level, a.cut_off_count, a.clock_offset_ms,
    a.shut_for_ms, a.cooldown_began_at, a.has_more) .. lists
end
