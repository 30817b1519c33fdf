-- forebay.rules.window_log in Lua, step by step. Instants are ms, numbers are whole.
-- A log is {sum, items}; items is a string of entries, instant and units, oldest first: most steps touch only its ends.
local MAX_ENTRIES = 512
local ENTRY = '>I6I5'
local SIZE = 11

local logs = {}

local names = {}

function logs.name(bound)
  local name = names[bound]
  if not name then
    name = bound.unit .. '/' .. bound.per_ms
    names[bound] = name
  end
  return name
end

function logs.width(bound, terms)
  return bound.per_ms + terms.start_within_ms + terms.transit_ms + 1
end

local function entry(items, at)
  return struct.unpack(ENTRY, items, at)
end

function logs.expire(log, now, wide)
  local items = log.entries
  local at = 1
  while at <= #items do
    local instant, units = entry(items, at)
    if instant + wide > now then
      break
    end
    log.sum = log.sum - units
    at = at + SIZE
  end
  if at > 1 then
    log.entries = items:sub(at)
  end
end

local function step_of(wide)
  return max(1, floor(wide / MAX_ENTRIES))
end

local function compact(log, step)
  local joined = {}
  local last_instant, last_units
  for at = 1, #log.entries, SIZE do
    local instant, units = entry(log.entries, at)
    if last_instant and floor(last_instant / step) == floor(instant / step) then
      last_units = last_units + units
    else
      if last_instant then
        joined[#joined + 1] = struct.pack(ENTRY, last_instant, last_units)
      end
      last_units = units
    end
    last_instant = instant
  end
  joined[#joined + 1] = struct.pack(ENTRY, last_instant, last_units)
  log.entries = table.concat(joined)
end

function logs.add(log, now, units, wide)
  if units <= 0 then
    return
  end
  log.sum = log.sum + units
  local step = step_of(wide)
  local last = #log.entries - SIZE + 1
  if #log.entries >= SIZE * MAX_ENTRIES and floor(entry(log.entries, last) / step) ~= floor(now / step) then
    compact(log, step)
    last = #log.entries - SIZE + 1
  end
  if last > 0 then
    local full = #log.entries >= SIZE * MAX_ENTRIES
    local instant, count = entry(log.entries, last)
    if instant == now or (full and floor(instant / step) == floor(now / step)) then
      log.entries = log.entries:sub(1, last - 1) .. struct.pack(ENTRY, now, count + units)
      return
    end
  end
  log.entries = log.entries .. struct.pack(ENTRY, now, units)
end

function logs.take_back(log, granted_at, units, wide)
  if units <= 0 then
    return
  end
  local kept = {}
  local left = units
  local latest = granted_at + step_of(wide)
  for at = 1, #log.entries, SIZE do
    local instant, count = entry(log.entries, at)
    if left > 0 and granted_at <= instant and instant < latest then
      local taken = min(left, count)
      left = left - taken
      count = count - taken
      log.sum = log.sum - taken
    end
    if count > 0 then
      kept[#kept + 1] = struct.pack(ENTRY, instant, count)
    end
  end
  log.entries = table.concat(kept)
end

function logs.used_at(log, instant, wide)
  local used = log.sum
  for at = 1, #log.entries, SIZE do
    local granted_at, units = entry(log.entries, at)
    if granted_at + wide > instant then
      break
    end
    used = used - units
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
  local at = 1
  local instant, count = entry(log.entries, at)
  while index > count do
    index = index - count
    at = at + SIZE
    instant, count = entry(log.entries, at)
  end
  return instant + wide - now + laps * wide
end
