--[[
What every command reads: the names of answers, and the fields of a frame. It begins the function `rules(…)` of
scripts.ts, whose arguments are NOW (this node's time, ms since 1970), NOW_DIGITS (the same as 16 digits), TOO_FAR_AHEAD
and FRAMES (both of batch.lua).
Names are strings, because they are few and short, and a person can read them.
]]
local sub, call = string.sub, redis.call
local GRANTED, HELD, MISMATCH, STALE, SKEWED, COMPLETED = 'granted', 'held', 'mismatch', 'stale', 'skewed', 'completed'
local RENEWED, LOST, RECORDED, FENCED, RELEASED, NOT_OWNER = 'renewed', 'lost', 'recorded', 'fenced', 'released', 'not_owner'
local ABSENT, RECORD, SHOWN, ADOPTED = 'absent', 'record', 'shown', 'adopted'
local NO_TOKEN = '0000000000000000'
