--[[
show: what this node remembers of a record, for another node that forgot.

KEYS  the record's key
Frame attempt 1: the whole record; 0: its header only
Answers
  ABSENT
  SHOWN  key lifetime left (ms; -1: none), size of the whole record (bytes); bytes: packed record or its header
         (record.lua)
]]
local function show(key, whole)
  if not read_header(key) then return { ABSENT } end
  return { SHOWN, call('PTTL', key), call('STRLEN', key), bytes = call('GETRANGE', key, 0, whole and -1 or HEADER - 1) }
end
