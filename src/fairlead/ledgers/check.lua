-- One check of the classic rule. Times are whole microseconds, which a double holds exactly.
-- KEYS[1] the customer's record: "count time"
-- ARGV    the reset interval, how long a record is kept (milliseconds), now ('': this server's clock)
local now = tonumber(ARGV[3])
if not now then
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
end
local count, at = 0, now
local record = redis.call('GET', KEYS[1])
if record then
  local space = string.find(record, ' ', 1, true)
  local updated = tonumber(string.sub(record, space + 1))
  if now - updated <= tonumber(ARGV[1]) then
    count = string.sub(record, 1, space - 1) - 1
    if updated > now then at = updated end
  end
end
redis.call('SET', KEYS[1], string.format('%.0f %.0f', count, at), 'PX', ARGV[2])
return count
