--[[
A node's pulse: its own time, written into its data while it votes; with it the newest pulses of other nodes. At most one write in
so many milliseconds, however many sidecars ask for one. What it is for: src/core/nodes/continuity.ts. Also where the memory is full
(pulse.ts says so in the line before): one small key that is there already.

KEYS  [1] pulse (hash)  [2] epoch
ARGV  [1] the epoch under which the caller saw it vote  [2] least distance of two pulses (ms)  [3] the name of the node
      [4] 1 where every write reaches the disk before its answer, else 0  then name and pulse (ms) of each other node
Answers  the time of the pulse that stands, in ms; false where the epoch does not stand on this process
]]
local PULSE, EPOCH = KEYS[1], KEYS[2]
local epoch, least, name, durable = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
if redis.call('GET', EPOCH) ~= epoch or string.find(epoch, '1:' .. run .. ':', 1, true) ~= 1 then return false end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local function has(field, value) return redis.call('HGET', PULSE, field) == value end
local there = redis.call('HGET', PULSE, 'ms')
-- Backwards, too: where its clock was set back, a pulse of what is to come would hide what is lost until then.
if there and math.abs(now - tonumber(there)) < least and has('run', run) and has('name', name) and has('durable', durable) then
  return there
end
local digits = string.format('%.0f', now)
local fields = { 'ms', digits, 'run', run, 'name', name, 'durable', durable }
for i = 5, #ARGV, 2 do
  local field = 'of:' .. ARGV[i]
  if tonumber(ARGV[i + 1]) > tonumber(redis.call('HGET', PULSE, field) or '0') then
    fields[#fields + 1] = field
    fields[#fields + 1] = ARGV[i + 1]
  end
end
redis.call('HSET', PULSE, unpack(fields))
return digits
