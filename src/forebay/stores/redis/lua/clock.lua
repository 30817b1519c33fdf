local floor, min, max = math.floor, math.min, math.max

-- The server's clock in whole ms. fixed: what it is to say instead, or -1; shift: what is added. Tests use both.
local function clock(fixed, shift)
  if fixed >= 0 then
    return fixed
  end
  local time = redis.call('TIME')
  return time[1] * 1000 + floor(time[2] / 1000) + shift
end
