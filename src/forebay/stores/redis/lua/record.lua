-- A limit's record as it is kept: cmsgpack, and in it the calls of each seat packed once more, since most exchanges
-- need to know of others' calls only how many they are (held) and when the first of them is over (ends).
local function unpacked(packed)
  local sound, record = pcall(cmsgpack.unpack, packed)
  if not sound or type(record) ~= 'table' or not record.eras then
    error('this key holds no record of a limit')
  end
  return record
end

local function calls_of(seat)
  if not seat.calls then
    seat.calls = cmsgpack.unpack(seat.packed)
  end
  return seat.calls
end

local function held(seat)
  return seat.calls and #seat.calls or seat.held
end

-- When the first of a seat's calls is over; only for a seat that has any.
local function first_end(seat)
  if not seat.calls then
    return seat.ends
  end
  local ends = seat.calls[1]['until']
  for _, call in ipairs(seat.calls) do
    ends = math.min(ends, call['until'])
  end
  return ends
end

local function packed_again(record)
  for _, seat in pairs(record.seats) do
    if seat.calls then
      seat.held = #seat.calls
      seat.ends = seat.held > 0 and first_end(seat) or 0
      seat.packed = cmsgpack.pack(seat.calls)
      seat.calls = nil
    end
  end
  return cmsgpack.pack(record)
end
