-- forebay.rules.window_log in Lua, line by line. Instants are ms, numbers are whole.
-- A log is {sum, items}; items is instant, units, instant, units, …, oldest first.
local floor, min, max = math.floor, math.min, math.max

local MAX_ENTRIES = 512

local logs = {}

function logs.name(bound)
  return bound.unit .. '/' .. bound.per
end

function logs.width(bound, terms)
  return bound.per + terms.start + terms.transit + 1
end

local function after(items, at)
  local rest = {}
  for i = at, #items do
    rest[i - at + 1] = items[i]
  end
  return rest
end

function logs.expire(log, now, wide)
  local items = log.items
  local at = 1
  while at <= #items and items[at] + wide <= now do
    log.sum = log.sum - items[at + 1]
    at = at + 2
  end
  if at > 1 then
    log.items = after(items, at)
  end
end

local function step_of(wide)
  return max(1, floor(wide / MAX_ENTRIES))
end

local function compact(log, step)
  local joined = {}
  local items = log.items
  for at = 1, #items, 2 do
    local last = #joined
    if last > 0 and floor(joined[last - 1] / step) == floor(items[at] / step) then
      joined[last - 1] = items[at]
      joined[last] = joined[last] + items[at + 1]
    else
      joined[last + 1] = items[at]
      joined[last + 2] = items[at + 1]
    end
  end
  log.items = joined
end

function logs.add(log, now, units, wide)
  if units <= 0 then
    return
  end
  log.sum = log.sum + units
  local step = step_of(wide)
  local last = #log.items
  if last >= 2 * MAX_ENTRIES and floor(log.items[last - 1] / step) ~= floor(now / step) then
    compact(log, step)
  end
  local items = log.items
  last = #items
  local full = last >= 2 * MAX_ENTRIES
  if last > 0 and (items[last - 1] == now or (full and floor(items[last - 1] / step) == floor(now / step))) then
    items[last - 1] = now
    items[last] = items[last] + units
  else
    items[last + 1] = now
    items[last + 2] = units
  end
end

function logs.take_back(log, granted_at, units, wide)
  local items = {}
  local left = units
  local latest = granted_at + step_of(wide)
  for at = 1, #log.items, 2 do
    local instant, count = log.items[at], log.items[at + 1]
    if left > 0 and granted_at <= instant and instant < latest then
      local taken = min(left, count)
      left = left - taken
      count = count - taken
      log.sum = log.sum - taken
    end
    if count > 0 then
      items[#items + 1] = instant
      items[#items + 1] = count
    end
  end
  log.items = items
end

function logs.used_at(log, instant, wide)
  local used = log.sum
  local items = log.items
  local at = 1
  while at <= #items and items[at] + wide <= instant do
    used = used - items[at + 1]
    at = at + 2
  end
  return used
end

function logs.free_in(log, now, wide, n, units)
  local index = log.sum + units - n
  if index <= 0 then
    return 0
  end
  local laps = 0
  if index > log.sum then
    laps = -floor((log.sum - index) / n)
    index = index - laps * n
  end
  if index <= 0 then
    return laps * wide
  end
  local items = log.items
  local at = 1
  while index > items[at + 1] do
    index = index - items[at + 1]
    at = at + 2
  end
  return items[at] + wide - now + laps * wide
end
