--[[
inspect: what this node remembers of a record, for another node that forgot.

KEYS  the record's key
Frame attempt 1: the whole record; 0: its header, and of an outcome the first bytes, which say when it ends
Answers
  ABSENT
  SHOWN  key lifetime left (ms; -1: none), size of the whole record (bytes); bytes: packed record or so much of it
         (record.lua)
]]
local SHOWN_BYTES = 64

local function inspect(key, whole)
  local record = read_header(key)
  if not record then return { ABSENT } end
  if record.state == 'R' then return { SHOWN, call('PTTL', key), HEADER, bytes = packed_release(record.fence) } end
  return { SHOWN, call('PTTL', key), call('STRLEN', key), bytes = call('GETRANGE', key, 0, whole and -1 or HEADER + SHOWN_BYTES - 1) }
end
