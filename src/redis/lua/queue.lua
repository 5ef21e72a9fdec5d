--[[
The queue of those who wait for one record (core/claims/wait-queue.ts), as this node keeps it: which processes stand in it and with
which numbers. It orders claims and grants nothing, so it has no incarnation and may be forgotten.

KEYS  [1] the queue: a string, `open to` and then for each process `;name:first:last:until (ms)`
ARGV  [1] process (hexadecimal)  [2] its first number  [3] its last  [4] how many draw one  [5] open to  [6] alive (ms)
      Without a number and without a draw the process leaves.
Answer
  highest number before, number of the first of the others (0: nobody), its process, open to, TIME in ms
]]
local ALIVE_MAX_MS = 60000
local TIME = redis.call('TIME')
local NOW = tonumber(TIME[1]) * 1000 + math.floor(tonumber(TIME[2]) / 1000)
local process, first, last = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local draws, open, alive = tonumber(ARGV[4]), tonumber(ARGV[5]), math.min(tonumber(ARGV[6]), ALIVE_MAX_MS)

local function whole(number) return string.format('%.0f', number) end

local queue = redis.call('GET', KEYS[1]) or '0'
local highest, ahead, who, latest, kept, alive_there = last, 0, '', 0, {}, false
for name, from, to, till in string.gmatch(queue, ';(%x+):(%d+):(%d+):(%d+)') do
  from, to, till = tonumber(from), tonumber(to), tonumber(till)
  local lives = till > NOW and till <= NOW + ALIVE_MAX_MS
  alive_there = alive_there or lives
  if lives and name ~= process then
    highest = math.max(highest, to)
    if ahead == 0 or from < ahead or (from == ahead and name < who) then ahead, who = from, name end
    latest = math.max(latest, till)
    kept[#kept + 1] = ';' .. name .. ':' .. whole(from) .. ':' .. whole(to) .. ':' .. whole(till)
  end
end
-- With the last one who stood there the queue has ended, and this is another one.
if alive_there then open = math.max(open, tonumber(string.match(queue, '^%d+'))) end
highest = math.max(highest, open)
if last > 0 or draws > 0 then
  if first == 0 then first = highest + 1 end
  if draws > 0 then last = highest + draws end
  latest = math.max(latest, NOW + alive)
  kept[#kept + 1] = ';' .. process .. ':' .. whole(first) .. ':' .. whole(last) .. ':' .. whole(NOW + alive)
end
if #kept == 0 then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], whole(open) .. table.concat(kept), 'PX', latest - NOW)
end
return { whole(highest), whole(ahead), who, whole(open), whole(NOW) }
