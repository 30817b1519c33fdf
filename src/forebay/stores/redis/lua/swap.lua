-- Replaces a limit's record if nobody was faster, after whole.
--
-- KEYS     the limit's parts, as header.lua has them
-- ARGV[1]  the mark of what was read, or nothing where there was none
-- ARGV[2]  the new record (JSON)
-- ARGV[3]  the clock's time in ms instead of the server's, or -1
-- ARGV[4]  ms that are added to the server's clock
--
-- Reply: 1 if it was replaced, else 0.
local record, text = header.load()
local mark = text and redis.sha1hex(text) or record and string.format('%.0f', record.version) or ''
local raw = clock(tonumber(ARGV[3]), tonumber(ARGV[4]))
if mark ~= ARGV[1] or (record and whole.has_lost(record, raw)) then
  return 0
end
local found = cjson.decode(ARGV[2])
for name, log in pairs(found.window_logs) do
  found.window_logs[name] = logs.packed(log)
end
-- Where only the header is gone, calls may still be under way that nobody knows of.
local leaves = mark == '' and redis.call('EXISTS', SESSIONS, CALLS, ENDS, LINE, UNCONFIRMED, TAILS, WINDOWS) > 0
found.generation = found.generation + (leaves and 1 or 0)
local stored = whole.store(found)
if leaves and stored.eras[1] then
  admission.hold_back(stored, stored.eras[1].terms, stored.last_step_at)
  header.store(stored, false)
end
return 1
