--[[
The record as one packed string, and the parts that every command shares. Same rules as src/core/record/record-rules.ts.

Layout (byte offsets as GETRANGE counts them, all fields fixed width, so that the header is read without the outcome):
    0       version, '1'
    1       state: C claimed, R released, D completed, H completed as learnt from other nodes (adopt.lua)
    2-17    fence: largest token promised, 16 digits
   18-33    token at which the outcome was accepted, 16 digits; zeros without an outcome. Of a claim that is kept (renew.lua): 1,
            which is no token. Not a state of its own: all that holds for a claim holds for it
   34-65    owner, 32 hex digits; zeros where nobody
   66-81    lease end on this node's clock, milliseconds since 1970, 16 digits. Of an outcome: zeros; or, where a promise outlives
            it, when it is over. After that the record stands for a released one
   82-85    attempt, 4 digits
   86-149   fingerprint, 64 hex digits
  150-165   when it was claimed, on this node's clock, milliseconds since 1970, 16 digits
  166-      the outcome, opaque
Tokens are compared as strings of equal length: Lua's numbers print with 14 digits only.
]]
local HEADER = 166
local ATTEMPT_MAX = 9999
local NOBODY = string.rep('0', 32)
local KEPT = '0000000000000001'

local function digits(number, width)
  return string.format('%0' .. width .. '.0f', number)
end

-- The header of a record as a table; nil where there is none. Errors name what is wrong with it.
local function parse_header(header)
  if header == '' then return nil end
  if #header < HEADER then error('damaged record: ' .. #header .. ' bytes of header, ' .. HEADER .. ' expected') end
  local version = string.sub(header, 1, 1)
  if version ~= '1' then
    -- These very words: wire.ts knows them.
    if string.find(version, '^[2-9]') then error('a later fencepost wrote this record: version ' .. version .. ', and 1 is known') end
    error('damaged record: unknown version')
  end
  -- Answers are lines of words: no field may look like two.
  if string.find(header, '%s') then error('damaged record: header fields') end
  local record = {
    state = string.sub(header, 2, 2),
    fence = string.sub(header, 3, 18),
    accepted = string.sub(header, 19, 34),
    owner = string.sub(header, 35, 66),
    lease_until = tonumber(string.sub(header, 67, 82)),
    attempt = tonumber(string.sub(header, 83, 86)),
    fingerprint = string.sub(header, 87, 150),
    claimed_at = string.sub(header, 151, 166),
  }
  if record.state == 'H' then
    record.state = 'D'
    record.copied = true
  end
  if not (record.state == 'C' or record.state == 'R' or record.state == 'D') or not record.lease_until
    or not record.attempt or not string.match(record.fence, '^%d+$') or not string.match(record.accepted, '^%d+$') then
    error('damaged record: header fields')
  end
  if record.state == 'C' then
    record.kept = record.accepted ~= NO_TOKEN
    record.accepted = NO_TOKEN
  end
  return record
end

-- What is left of a record now: once the time of its outcome is over, a promise.
local function what_stands(record)
  if record and record.state == 'D' and record.lease_until > 0 and record.lease_until < NOW then
    record.state, record.copied, record.owner = 'R', nil, NOBODY
  end
  return record
end

local function read_header(key)
  return what_stands(parse_header(call('GETRANGE', key, 0, HEADER - 1)))
end

-- A record that was read whole already.
local function parse_whole(packed)
  local record = what_stands(parse_header(sub(packed, 1, HEADER)))
  if record then record.outcome = sub(packed, HEADER + 1) end
  return record
end

local function read_outcome(key)
  return call('GETRANGE', key, HEADER, -1)
end

-- A node at `maxmemory` refuses SET and SETRANGE, also where nothing grows: then nobody could be told that a claim is
-- over, and no lease be kept. So what is no larger than what stands is put in its place: DEL is allowed, and Redis lets a
-- script that has written go on. From there on it refuses nothing of this call any more, so `tight` does.
local tight = false
local NO_ROOM = { err = "OOM used memory > 'maxmemory', and this record would grow" }

local function is_no_room(answer)
  return type(answer) == 'table' and answer.err and sub(answer.err, 1, 4) == 'OOM '
end

local function replace(key, packed, ttl)
  if #packed > call('STRLEN', key) then error(NO_ROOM) end
  -- What SET would refuse must be known before anything is deleted.
  if ttl and tonumber(ttl) < 1 then error('not a command: its key lifetime is none') end
  tight = true
  call('DEL', key)
  if ttl then call('SET', key, packed, 'PX', ttl) else call('SET', key, packed) end
end

local function put(key, packed, ttl)
  if tight then return replace(key, packed, ttl) end
  local answer = try('SET', key, packed, 'PX', ttl)
  if is_no_room(answer) then return replace(key, packed, ttl) end
  if answer.err then error(answer) end
end

-- A field of another width would shift all that follow it: such a command is refused before it damages a record.
local function pack(state, fence, accepted, owner, lease_until, attempt, fingerprint, claimed_at, outcome)
  if #fence ~= 16 or #owner ~= 32 or #fingerprint ~= 64 or attempt < 0 or attempt > ATTEMPT_MAX then
    error('not a command: its token, owner, fingerprint or attempt does not fit the record')
  end
  return '1' .. state .. fence .. accepted .. owner .. digits(lease_until, 16) .. digits(attempt, 4)
    .. fingerprint .. claimed_at .. outcome
end

local function write(key, state, fence, accepted, owner, lease_until, attempt, fingerprint, claimed_at, outcome, ttl)
  put(key, pack(state, fence, accepted, owner, lease_until, attempt, fingerprint, claimed_at, outcome), ttl)
end

local function write_claim(key, kept, token, owner, lease, attempt, fingerprint, claimed_at, ttl)
  write(key, 'C', token, kept and KEPT or NO_TOKEN, owner, NOW + lease, attempt, fingerprint, claimed_at, '', ttl)
end

-- A grant of work that is yet to be done, and whose outcome will take room: never where there is none.
local function grant(key, token, owner, lease, attempt, fingerprint, ttl)
  if tight then error(NO_ROOM) end
  call('SET', key, pack('C', token, NO_TOKEN, owner, NOW + lease, attempt, fingerprint, NOW_DIGITS, ''), 'PX', ttl)
end

-- A promise lasts for the lease that is asked for with it, and for how far ahead its token may lie: whoever claims after
-- that has a larger one. Where the outcome ends before, the record says when. Else in place: an outcome may be large.
local function promise(key, record, token, owner, lease)
  local promised = token .. record.accepted .. owner
  local kept, left = lease + ARGV[2], call('PTTL', key)
  if left >= 0 and left < kept then
    local over_at = record.lease_until > 0 and record.lease_until or NOW + left
    local packed = call('GET', key)
    return put(key, sub(packed, 1, 2) .. promised .. digits(over_at, 16) .. sub(packed, 83), digits(kept, 1))
  end
  local answer = try('SETRANGE', key, 2, promised)
  if is_no_room(answer) then
    local packed = call('GET', key)
    return replace(key, sub(packed, 1, 2) .. promised .. sub(packed, 67), left >= 0 and math.max(1, left) or nil)
  end
  if type(answer) == 'table' and answer.err then error(answer) end
end

local function packed_release(token)
  return pack('R', token, NO_TOKEN, NOBODY, 0, 0, string.rep('0', 64), NOW_DIGITS, '')
end

local function write_released(key, token, ttl)
  put(key, packed_release(token), ttl)
end

local function completed_answer(key, record, fence, promised)
  return { COMPLETED, fence, promised, record.accepted, record.attempt, record.fingerprint, record.copied and 1 or 0,
    bytes = record.outcome or read_outcome(key) }
end
