--[[
A node's heartbeat: its own time, written into its data while it votes, and how many were written; with it the newest heartbeats of other
nodes. At most one heartbeat in so many milliseconds, however many sidecars ask for one. What it is for: src/core/nodes/continuity.ts,
and node-history.ts for the counts. Also where the memory is full (inspection.ts says so in the line before): one small key that is there already.

KEYS  [1] heartbeat (hash)  [2] incarnation
ARGV  [1] the incarnation under which the caller saw it vote  [2] least distance of two heartbeats (ms; empty: counters of others alone, no heartbeat)
      [3] the name of the node
      [4] 1 where every write reaches the disk before its answer, else 0  then name, heartbeat (ms; empty: not known) and counter
      (`nonce:count`; empty: not known) of each other node
Answers  the time of the heartbeat that stands, in ms, and its count; false where the incarnation does not stand on this process
]]
local HEARTBEAT, INCARNATION = KEYS[1], KEYS[2]
-- DUPLICATE_HEARTBEATS in src/core/nodes/hearsay.ts.
local BEHIND = 5
local incarnation, least, name, durable = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
if redis.call('GET', INCARNATION) ~= incarnation or string.find(incarnation, '1:' .. run .. ':', 1, true) ~= 1 then return false end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local function has(field, value) return redis.call('HGET', HEARTBEAT, field) == value end
local there = redis.call('HGET', HEARTBEAT, 'ms')
-- Backwards, too: where its clock was set back, a heartbeat of what is to come would hide what is lost until then.
local fresh = not least
  or there and math.abs(now - tonumber(there)) < least and has('run', run) and has('name', name) and has('durable', durable)
local fields = {}
local function note(field, value)
  fields[#fields + 1] = field
  fields[#fields + 1] = value
end
for i = 5, #ARGV, 3 do
  local field, ms, noted = 'of:' .. ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if not fresh and ms ~= '' and tonumber(ms) > tonumber(redis.call('HGET', HEARTBEAT, field) or '0') then note(field, ms) end
  local nonce, counter = string.match(noted, '^(.+):(%d+)$')
  if nonce then
    local known, known_counter = string.match(redis.call('HGET', HEARTBEAT, 'counter:' .. ARGV[i]) or '', '^(.+):(%d+)$')
    -- The count of an earlier rejoin says nothing about this one. Between two heartbeats only what is far behind is written.
    if known ~= nonce or tonumber(counter) >= tonumber(known_counter) + (fresh and BEHIND or 1) then note('counter:' .. ARGV[i], noted) end
  end
end
if fresh then
  if #fields > 0 then redis.call('HSET', HEARTBEAT, unpack(fields)) end
  return { there or '0', redis.call('HGET', HEARTBEAT, 'count') or '0' }
end
local digits = string.format('%.0f', now)
local count = string.format('%.0f', tonumber(redis.call('HGET', HEARTBEAT, 'count') or '0') + 1)
for _, value in ipairs({ 'ms', digits, 'run', run, 'name', name, 'durable', durable, 'count', count }) do fields[#fields + 1] = value end
redis.call('HSET', HEARTBEAT, unpack(fields))
return { digits, count }
