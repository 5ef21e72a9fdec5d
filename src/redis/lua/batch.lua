--[[
The one script that is sent to a node: executes every command that a sidecar has gathered for it, in the order given. One
that fails (a damaged record, a key of another type) answers FAILED and does not stop the others.

KEYS  [1] the node's incarnation key; then one record key a command
ARGV  [1] the incarnation that this node joined with  [2] how far a token may lie ahead of this node's clock (ms)
      [3] the frames of the commands, one after another, in the order of their keys
      [4] only where the sidecar takes the node for full: no new claims (claim.lua)
Answers  [1] lines: this node's time (ms since 1970) and 1 where the incarnation stands, else 0; then one line a command: the
         name of its answer and what its file says of it, with spaces between; or FAILED
         then, in the order of their lines, the bytes that an answer has besides: an outcome, a record, what failed
Writes to a node whose incarnation does not stand are carried out, and its answers are not counted (`rejoin.ts`).

A frame, all fields of fixed width and in the order in which a record has them; what a command does not use is zeros:
    1        the command: C claim, N renew, U raise, D complete, R release, W withdraw, F forget, G read; S inspect, Q standing, A adopt
    2-17     token, 16 digits          18-33  accepted token, 16 digits (complete; of the claim that is compared: zeros)
   34-65     owner, 32 hex digits
   66-69     attempt, 4 digits         70-133 fingerprint, 64 hex digits
  134-149    lease (ms), 16 digits    150-165 key lifetime (ms), 16 digits
  166-173    bytes of what follows, 8 digits
  174-       an outcome (complete) or a packed record (adopt), opaque
One string of frames, because each argument of a call costs a node more than the bytes in it.

Redis runs this whole chunk at each call. So what is made at each call is little: the rules of all commands stand in one
function without upvalues, and the three commands that nearly every request needs are carried out here, with as few calls
and strings as they take. Their rules are those of claim.lua and complete.lua, which stand for every other case:
- the claim of a key that is free;
- the completion of a claim as it was granted. One with an accepted token is none: a claim has none, so the two never
  compare as equal. Nor is that of a claim that is kept, whose field is not zeros;
- the claim that finds the outcome of its own request, accepted here at the first attempt, below its token, and kept for
  longer than its promise. The promise is written in place, as record.lua writes it. Answer
    STORED  fence; bytes: the record as it was found
  which is COMPLETED, promised, in fewer strings: the sidecar reads the other words and the outcome from the record.
  Two fields are not looked at for damage: the owner, which the promise replaces, and when it was claimed, which no answer has.
]]
local sub, format, try, FRAMES = string.sub, string.format, redis.pcall, ARGV[3]
local TIME = try('TIME')
local NOW = TIME[1] * 1000 + math.floor(TIME[2] / 1000)
local NOW_DIGITS = format('%016d', NOW)
-- One wild clock must not poison a key: nothing of a token at or above this one is kept. Tokens are compared as strings
-- of equal length, because Lua prints numbers with 14 digits only; a longer string that begins with a token may stand for it.
local TOO_FAR_AHEAD = format('%016d', (NOW + ARGV[2] + 1) * 1024)
local reply = { '' }
local lines = { NOW_DIGITS .. (try('GET', KEYS[1]) == ARGV[1] and ' 1' or ' 0') }
local NO_END = '0000000000000000'
local other, terms, lease_until, expires
-- `tight`: a record was replaced at `maxmemory` (record.lua), and Redis refuses nothing of this call any more.
local full, tight = ARGV[4], nil

local at = 1
for i = 2, #KEYS do
  local key, kind = KEYS[i], sub(FRAMES, at, at)
  local size, found, line = 0, nil, nil
  if kind == 'C' or kind == 'D' then
    local own_terms = sub(FRAMES, at + 133, at + 164)
    if own_terms ~= terms then
      terms = own_terms
      lease_until = format('%016d', NOW + sub(terms, 1, 16))
      expires = format('%d', NOW + sub(terms, 17))
    end
  end
  if kind == 'C' then
    local head = sub(FRAMES, at + 1, at + 64)
    if head < TOO_FAR_AHEAD and not full then
      local request = sub(FRAMES, at + 65, at + 132)
      found = try('SET', key, '1C' .. head .. lease_until .. request .. NOW_DIGITS, 'NX', 'GET', 'PXAT', expires)
      if found == false then
        line = 'granted 1'
      elseif type(found) ~= 'string' then
        found = nil
      -- `head` has zeros where a record has its accepted token, so it is larger only where its token is.
      elseif #found >= 166 and sub(found, 67, 150) == NO_END .. request and head > sub(found, 3, 66)
        and (select(2, string.find(found, '^1D%d+')) or 0) >= 34
        and (tonumber(try('PTTL', key)) or -1) >= sub(terms, 1, 16) + ARGV[2]
        and try('SETRANGE', key, '2', sub(head, 1, 16) .. sub(found, 19, 34) .. sub(head, 33)) == #found then
        line = 'stored ' .. sub(head, 1, 16)
        reply[#reply + 1] = found
      end
    end
  elseif kind == 'D' then
    size = tonumber(sub(FRAMES, at + 165, at + 172))
    local packed = not tight and try('GET', key)
    if type(packed) == 'string' and #packed == 166 and sub(packed, 1, 2) == '1C'
      and sub(packed, 3, 66) == sub(FRAMES, at + 1, at + 64) then
      local token = sub(FRAMES, at + 1, at + 16)
      local set = try('SET', key, '1D' .. token .. token .. sub(FRAMES, at + 33, at + 64) .. NO_END
        .. sub(FRAMES, at + 65, at + 132) .. sub(packed, 151) .. sub(FRAMES, at + 173, at + 172 + size),
        'PXAT', expires)
      if set.ok then line = 'recorded' end
    end
  elseif kind == 'A' then
    size = tonumber(sub(FRAMES, at + 165, at + 172))
  end
  if not line then
    other = other or rules(NOW, NOW_DIGITS, TOO_FAR_AHEAD, FRAMES, full)
    local ok, answer, replaced = pcall(other, key, at, size, found)
    if not ok then answer = { 'failed', bytes = type(answer) == 'table' and answer.err or tostring(answer) } end
    if replaced == true then full, tight = true, true end
    if answer.bytes then reply[#reply + 1] = answer.bytes end
    line = table.concat(answer, ' ')
  end
  lines[i] = line
  at = at + 173 + size
end
reply[1] = table.concat(lines, '\n')
return reply
