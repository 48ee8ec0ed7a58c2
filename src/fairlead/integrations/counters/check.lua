-- One check of the classic rule. Times are whole microseconds, which a double holds exactly.
-- KEYS[1] the customer's record: "count time"
-- ARGV[1] the reset interval
-- ARGV[2] now, if it is not to be this server's clock
local interval = tonumber(ARGV[1])
local now = tonumber(ARGV[2])
if not now then
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
end
local count, at = 0, now
local record = redis.call('GET', KEYS[1])
if record then
  local space = string.find(record, ' ', 1, true)
  local updated = tonumber(string.sub(record, space + 1))
  if now - updated <= interval then
    count = string.sub(record, 1, space - 1) - 1
    if updated > now then at = updated end
  end
end
-- A record expires one second after its interval, when the count would be 0 anyway (at most ten years).
local expiry = math.min(math.floor(interval / 1000) + 1000, 315360000000)
redis.call('SET', KEYS[1], string.format('%.0f %.0f', count, at), 'PX', expiry)
return count
