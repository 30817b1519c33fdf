-- forebay.rules.forecast in Lua, line by line, after line.
local POLL = 5 * SECOND
local GRACE = 50
local EXACT_GRACE = 10
local IN_FLIGHT = 'in_flight'
local RAMP = 'ramp'
local TOO_LARGE = 'too_large'

local forecast = {}

function forecast.release_in(record, terms, ahead)
  local releases = record.in_flight_count + ahead + 1 - terms.in_flight
  if terms.in_flight <= 0 or releases <= 0 then
    return -1
  end
  local mean = record.mean_call_ms > 0 and record.mean_call_ms or terms.call_timeout_ms
  return floor(mean * releases / terms.in_flight)
end

local function units_released_in(record, terms, bound, ahead_units, units)
  local unit = bound.unit
  local need = units[unit] or 0
  local missing = (record.in_flight_sums[unit] or 0) + (ahead_units[unit] or 0) + need - bound.n
  if need <= 0 or bound.n <= 0 or missing <= 0 then
    return -1
  end
  local mean = record.mean_call_ms > 0 and record.mean_call_ms or terms.call_timeout_ms
  return floor(mean * missing / bound.n)
end

function forecast.foretold(record, terms, ahead, ahead_units, units, now)
  if parts.too_large(terms, units) then
    return FOREVER, {TOO_LARGE}
  end
  local by = {}
  local eta = 0
  local reason, shut_until = header.gate(record, terms, now)
  if shut_until > now then
    by[#by + 1] = reason
    eta = shut_until - now
  elseif cooldown.room(record, terms, now) <= 0 then
    by[#by + 1] = RAMP
    eta = cooldown.next_room_at(record, now) - now
  end
  local released_in = forecast.release_in(record, terms, ahead)
  if released_in >= 0 then
    by[#by + 1] = IN_FLIGHT
    eta = max(eta, released_in)
  end
  for _, bound in ipairs(terms.in_flight_units) do
    local taken_in = units_released_in(record, terms, bound, ahead_units, units)
    if taken_in >= 0 then
      by[#by + 1] = IN_FLIGHT .. ':' .. bound.unit
      eta = max(eta, taken_in)
    end
  end
  for _, bound in ipairs(terms.windows) do
    local need = (ahead_units[bound.unit] or 0) + (units[bound.unit] or 0)
    if need > 0 and bound.n > 0 then
      local log = parts.log_named(record, logs.name(bound))
      local free_in = logs.free_in(log, now, logs.width(bound, terms), bound.n, need)
      if free_in > 0 then
        by[#by + 1] = logs.name(bound)
        eta = max(eta, free_in)
      end
    end
  end
  return min(eta, FOREVER), by
end

local function next_end_at(sid, now)
  local soonest = now + POLL
  local found = redis.call('ZRANGE', ENDS, 0, 1, 'WITHSCORES')
  for index = 1, #found, 2 do
    if found[index] ~= sid then
      soonest = min(soonest, max(tonumber(found[index + 1]), now + 1))
    end
  end
  return soonest
end

local function lacks_units(record, terms, units)
  for _, bound in ipairs(terms.in_flight_units) do
    if (units[bound.unit] or 0) > max(0, bound.n - (record.in_flight_sums[bound.unit] or 0)) then
      return true
    end
  end
  return false
end

function forecast.ask_again_in(record, sid, terms, units, now)
  local again = POLL
  local _, shut_until = header.gate(record, terms, now)
  if shut_until > now then
    again = min(again, shut_until - now)
  elseif cooldown.room(record, terms, now) <= 0 then
    again = min(again, cooldown.next_room_at(record, now) - now)
  else
    local free_in = line.windows_free_in(record, terms, units, now)
    if free_in > 0 then
      again = min(again, free_in)
    end
    if (0 <= terms.in_flight and terms.in_flight <= record.in_flight_count) or lacks_units(record, terms, units) then
      again = min(again, next_end_at(sid, now) - now)
    end
    again = min(again, max(SECOND, next_place_due() - now))
  end
  return max(1, again)
end

-- Adds up what stands before a run, of those places that other sessions have.
local function add_up(places, sid, first, calls, runs, units)
  for _, place in ipairs(places) do
    if place.session_id ~= sid and place.caller_count > 0 and line.is_before(place, first) then
      runs = runs + 1
      calls = calls + place.caller_count
      for unit, count in pairs(place.units) do
        units[unit] = (units[unit] or 0) + count * place.caller_count
      end
    end
  end
  return calls, runs
end

local function ahead_of(sid, first, heads, parked, are_all)
  local units = {}
  local calls, runs = add_up(heads, sid, first, 0, 0, units)
  calls, runs = add_up(parked, sid, first, calls, runs, units)
  if not are_all and calls > 0 then
    local below = '(' .. string.format('%.0f', first.virtual_start)
    local rank = redis.call('ZCOUNT', LINE, '-inf', below) + redis.call('ZCOUNT', UNCONFIRMED, '-inf', below)
    if rank > runs then
      for unit, count in pairs(units) do
        units[unit] = floor(count * rank / runs)
      end
      calls = floor(calls * rank / runs)
    end
  end
  return calls, units
end

-- Of a session that has been stored; `parked` are the first places of those that had to confirm something before.
function forecast.waits(record, sid, seat, heads, parked, last, terms, now)
  local run
  for _, each in ipairs(seat.runs) do
    if not run or line.is_before(each, run) then
      run = each
    end
  end
  if not run then
    return {}
  end
  local are_all = not last and #heads < HEADS and #parked < HEADS
  local calls, units = ahead_of(sid, run, heads, parked, are_all)
  local eta, by = forecast.foretold(record, terms, calls, units, run.units, now)
  local again = forecast.ask_again_in(record, sid, terms, run.units, now)
  if calls > 0 then
    local grace = eta > forecast.release_in(record, terms, calls) and EXACT_GRACE or GRACE
    again = min(POLL, max(again, eta) + grace)
  end
  return {{ask_again_in_ms = again, eta_ms = eta, ahead_count = calls, blocked_by = by}}
end
