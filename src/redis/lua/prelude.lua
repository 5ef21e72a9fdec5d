--[[
What every command reads: this node's time, the limit on tokens, and the names of answers.
Names are strings, because they are few, short and readable in MONITOR.
]]
local TIME = redis.call('TIME')
local NOW = tonumber(TIME[1]) * 1000 + math.floor(tonumber(TIME[2]) / 1000)
local MAX_TOKEN_AHEAD = tonumber(ARGV[2])
local GRANTED, HELD, MISMATCH, STALE, SKEWED, COMPLETED = 'granted', 'held', 'mismatch', 'stale', 'skewed', 'completed'
local RENEWED, LOST, RECORDED, FENCED, RELEASED, NOT_OWNER = 'renewed', 'lost', 'recorded', 'fenced', 'released', 'not_owner'
local ABSENT, RECORD, FAILED = 'absent', 'record', 'failed'
local SHOWN, ADOPTED = 'shown', 'adopted'

-- One wild clock must not poison a key: nothing of a token that lies so far in this node's future is kept.
local function is_too_far_ahead(token)
  return math.floor(tonumber(token) / 1024) > NOW + MAX_TOKEN_AHEAD
end
