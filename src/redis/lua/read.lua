--[[
read: the whole record, as it stands.

KEYS  the record's key
Answers
  ABSENT
  RECORD  key lifetime left (ms; -1: none); bytes: the packed string of record.lua
]]
local function read(key)
  local record = read_header(key)
  if not record then return { ABSENT } end
  return { RECORD, call('PTTL', key), bytes = record.state == 'R' and packed_release(record.fence) or call('GET', key) }
end
