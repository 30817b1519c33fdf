-- forebay.rules.cooldown in Lua, line by line, as far as an exchange needs it.
local QUOTA = 'quota'
local COOLDOWN = 'cooldown'
local BREAKER = 'breaker'
local CALLS_UNIT = 'calls'
local RAMP_BITS = 20
local MANY = 2 ^ 40

local cooldown = {}

local function backoff_step(terms, level)
  return terms.cooldown_steps_ms[min(level, #terms.cooldown_steps_ms)]
end

local function begin(cool, kind, now, wait)
  if now + wait >= cool.ends_at or cool.kind ~= QUOTA then
    cool.kind = kind
  end
  cool.ends_at = max(cool.ends_at, now + wait)
  cool.began_at = now
  cool.ramp_began_at = -1
  cool.failure_count = 0
end

function cooldown.throttle(record, terms, refusal, now)
  local cool = record.cooldown
  if refusal.kind == QUOTA then
    begin(cool, QUOTA, now, refusal.wait_ms >= 0 and refusal.wait_ms or terms.max_cooldown_ms)
    return
  end
  local said = min(refusal.wait_ms, terms.max_cooldown_ms)
  if refusal.granted_at > cool.began_at then
    cool.level = cool.level + 1
    local wait = said >= 0 and said or backoff_step(terms, cool.level)
    begin(cool, COOLDOWN, now, min(wait + floor(wait * refusal.jitter_permille / 1000), terms.max_cooldown_ms))
  elseif said >= 0 and now + said > cool.ends_at then
    if cool.ends_at <= now then
      cool.kind = COOLDOWN
    end
    cool.ends_at = now + said
    cool.ramp_began_at = -1
  end
end

function cooldown.ended(record, terms, outcome, granted_at, now)
  local cool = record.cooldown
  if granted_at <= cool.began_at then
    return
  end
  if outcome == 'ok' then
    cool.failure_count = 0
    cool.level = 0
  elseif outcome == 'failed' then
    cool.failure_count = cool.failure_count + 1
    if 0 < terms.breaker_after and terms.breaker_after <= cool.failure_count then
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
  local cool = record.cooldown
  if cool.ramp_began_at == 0 then
    return MANY
  end
  if cool.ramp_began_at < 0 then
    return 1
  end
  local second = floor((now - cool.ramp_began_at) / SECOND)
  if second >= RAMP_BITS or 2 ^ second >= full_ramp(terms) then
    cool.ramp_began_at = 0
    return MANY
  end
  return 2 ^ second - (cool.ramp_second == second and cool.ramp_grant_count or 0)
end

function cooldown.granted(record, now)
  local cool = record.cooldown
  if cool.ramp_began_at == 0 then
    return
  end
  if cool.ramp_began_at < 0 then
    cool.ramp_began_at = now
    cool.ramp_second = 0
    cool.ramp_grant_count = 0
  end
  local second = floor((now - cool.ramp_began_at) / SECOND)
  if second ~= cool.ramp_second then
    cool.ramp_second = second
    cool.ramp_grant_count = 0
  end
  cool.ramp_grant_count = cool.ramp_grant_count + 1
end

function cooldown.next_room_at(record, now)
  local cool = record.cooldown
  return cool.ramp_began_at + (floor((now - cool.ramp_began_at) / SECOND) + 1) * SECOND
end
