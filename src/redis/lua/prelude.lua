--[[
What every command reads: the names of answers, and the fields of a frame. It begins the function `rules(…)` of
scripts.ts, whose arguments are NOW (this node's time, ms since 1970), NOW_DIGITS (the same as 16 digits), TOO_FAR_AHEAD,
FRAMES and NO_NEW_CLAIMS (all of batch.lua).
Names are strings, because they are few and short, and a person can read them.
]]
local sub, call, try = string.sub, redis.call, redis.pcall
local GRANTED, HELD, MISMATCH, STALE, SKEWED, COMPLETED = 'granted', 'held', 'mismatch', 'stale', 'skewed', 'completed'
local RENEWED, LOST, RECORDED, FENCED, RELEASED, NOT_OWNER = 'renewed', 'lost', 'recorded', 'fenced', 'released', 'not_owner'
local FULL, ABSENT, RECORD, SHOWN, ADOPTED, STANDING, GONE = 'full', 'absent', 'record', 'shown', 'adopted', 'standing', 'gone'
local NO_TOKEN = '0000000000000000'
