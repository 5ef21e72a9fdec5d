--[[
Writes one entry of the audit log on this node, where it was not written before. In one piece: an entry whose mark stood without
it would be one that nobody writes any more.

KEYS  [1] the stream  [2] the mark of the entry
ARGV  [1] most entries of the stream  [2] lifetime of the mark (ms); then fields and values of the entry
Answers
  1 written; 0 it was written before
]]
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
-- First, so that where the node refuses it no mark is left.
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', unpack(ARGV, 3))
redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
return 1
