-- forebay.rules.cooldown in Lua, line by line, as far as an exchange needs it.
local QUOTA = 'quota'
local COOLDOWN = 'cooldown'
local BREAKER = 'breaker'
local CALLS_UNIT = 'calls'
local RAMP_BITS = 20
local MANY = 2 ^ 40

local cooldown = {}

local function backoff_step(terms, level)
  return terms.backoff[min(level, #terms.backoff)]
end

local function begin(cool, kind, now, wait)
  if now + wait >= cool['until'] or cool.kind ~= QUOTA then
    cool.kind = kind
  end
  cool['until'] = max(cool['until'], now + wait)
  cool.began = now
  cool.ramp = -1
  cool.fails = 0
end

function cooldown.throttle(record, terms, hint, now)
  local cool = record.cool
  if hint.kind == QUOTA then
    begin(cool, QUOTA, now, hint.wait >= 0 and hint.wait or terms.longest)
    return
  end
  local said = min(hint.wait, terms.longest)
  if hint.at > cool.began then
    cool.level = cool.level + 1
    local wait = said >= 0 and said or backoff_step(terms, cool.level)
    begin(cool, COOLDOWN, now, min(wait + floor(wait * hint.jitter / 1000), terms.longest))
  elseif said >= 0 and now + said > cool['until'] then
    if cool['until'] <= now then
      cool.kind = COOLDOWN
    end
    cool['until'] = now + said
    cool.ramp = -1
  end
end

function cooldown.ended(record, terms, outcome, granted_at, now)
  local cool = record.cool
  if granted_at <= cool.began then
    return
  end
  if outcome == 'ok' then
    cool.fails = 0
    cool.level = 0
  elseif outcome == 'failed' then
    cool.fails = cool.fails + 1
    if 0 < terms.breaker and terms.breaker <= cool.fails then
      cool.level = cool.level + 1
      begin(cool, BREAKER, now, backoff_step(terms, cool.level))
    end
  end
end

local function full_ramp(terms)
  local full = terms.in_flight >= 0 and terms.in_flight or MANY
  for _, bound in ipairs(terms.windows) do
    if bound.unit == CALLS_UNIT then
      full = min(full, bound.n)
    end
  end
  return full
end

function cooldown.room(record, terms, now)
  local cool = record.cool
  if cool.ramp == 0 then
    return MANY
  end
  if cool.ramp < 0 then
    return 1
  end
  local second = floor((now - cool.ramp) / SECOND)
  if second >= RAMP_BITS or 2 ^ second >= full_ramp(terms) then
    cool.ramp = 0
    return MANY
  end
  return 2 ^ second - (cool.second == second and cool.count or 0)
end

function cooldown.granted(record, now)
  local cool = record.cool
  if cool.ramp == 0 then
    return
  end
  if cool.ramp < 0 then
    cool.ramp = now
    cool.second = 0
    cool.count = 0
  end
  local second = floor((now - cool.ramp) / SECOND)
  if second ~= cool.second then
    cool.second = second
    cool.count = 0
  end
  cool.count = cool.count + 1
end

function cooldown.next_room_at(record, now)
  local cool = record.cool
  return cool.ramp + (floor((now - cool.ramp) / SECOND) + 1) * SECOND
end
