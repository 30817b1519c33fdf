-- A limit's record as it is, after whole. Changes nothing.
--
-- KEYS     the limit's parts, as header.lua has them
-- ARGV[1]  the clock's time in ms instead of the server's, or -1
-- ARGV[2]  ms that are added to the server's clock
-- ARGV[3]  the only session to read beside the header; all sessions where there is no such argument
--
-- Reply: the clock's time as text, and, if there is a record, the record (JSON) and its mark, for swap.
local record, text = header.load()
local now = string.format('%.0f', clock(tonumber(ARGV[1]), tonumber(ARGV[2])))
if not record and not text then
  return {now}
end
local found = text and whole.read_older(text) or ARGV[3] and whole.find(record, ARGV[3]) or whole.read(record)
for name, log in pairs(found.window_logs) do
  found.window_logs[name] = logs.listed(log)
end
return {now, cjson.encode(found), text and redis.sha1hex(text) or string.format('%.0f', record.version)}
