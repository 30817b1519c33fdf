-- Replaces a limit's record if nobody was faster, after clock, window_log, cooldown, parts, admission and whole.
--
-- KEYS     the limit's parts, as parts.lua has them
-- ARGV[1]  the mark of what was read, or nothing where there was none
-- ARGV[2]  the new record (JSON)
--
-- Reply: 1 if it was replaced, else 0.
local record, text = load_header()
local mark = text and redis.sha1hex(text) or record and string.format('%.0f', record.v) or ''
if mark ~= ARGV[1] then
  return 0
end
local whole = cjson.decode(ARGV[2])
for name, log in pairs(whole.logs) do
  whole.logs[name] = logs.packed(log)
end
store_whole(whole)
return 1
