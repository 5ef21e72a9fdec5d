--[[
show: what this node remembers of a record, for another node that forgot.

KEYS  the record's key
ARGV  1: the whole record; 0: its header only
Answers
  ABSENT
  SHOWN  key lifetime left (ms; -1: none), packed record or its header (record.lua), size of the whole record (bytes)
]]
local function show(key, whole)
  if not read_header(key) then return { ABSENT } end
  return { SHOWN, redis.call('PTTL', key), redis.call('GETRANGE', key, 0, whole == '1' and -1 or HEADER - 1),
    redis.call('STRLEN', key) }
end
