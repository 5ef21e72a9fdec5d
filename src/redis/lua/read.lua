--[[
read: the whole record, unchanged.

KEYS  the record's key
Answers
  ABSENT
  RECORD  key lifetime left (ms; -1: none); bytes: the packed string of record.lua
]]
local function read(key)
  if not read_header(key) then return { ABSENT } end
  return { RECORD, call('PTTL', key), bytes = call('GET', key) }
end
