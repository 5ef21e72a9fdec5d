--[[
standing: goes before the adoptions of a call, which are for one rejoin: they are carried out only where the quarantine of its
nonce stands on this very process. A call that comes late, to a node that votes again, was gathered before what it has granted since.

KEYS  the quarantine
Frame owner: the nonce
Answers
  STANDING  how many such calls this quarantine has had: where a node shows fewer later, its data were set back
  GONE      the node votes, or waits under another nonce: the adoptions of this call change nothing

adopt: tells a node what other nodes remember of a record. Same rules as src/core/record/record-merge.ts: it only ever
raises, but for what the node took while it did not vote, against their promises.

KEYS  the record's key
Frame attempt 1 where a majority accepted this very outcome, else 0; key lifetime;
      packed record (record.lua) whose lease end is what remains of the lease (ms; 0: expired), or of an outcome (ms; 0: it
      lasts as long as its key)
Answers
  ADOPTED   the node knows at least as much now
  GONE      nothing was changed: see above
]]
local may_be_told = false

local function standing(key, nonce)
  local run = string.match(call('INFO', 'server'), 'run_id:(%x+)')
  may_be_told = call('HGET', key, 'nonce') == nonce and call('HGET', key, 'run_id') == run
  if not may_be_told then return { GONE } end
  local catch_ups = tonumber(call('HGET', key, 'catch_ups') or '0')
  -- At `maxmemory` it is refused, and not counted.
  if type(try('HSET', key, 'catch_ups', string.format('%d', catch_ups + 1))) == 'number' then catch_ups = catch_ups + 1 end
  return { STANDING, string.format('%d', catch_ups) }
end

local function merge_claims(a, b)
  if a.state == 'R' then return b end
  if b.state == 'R' then return a end
  local longer = b
  if a.lease_until > b.lease_until or (a.lease_until == b.lease_until and a.owner .. a.fingerprint > b.owner .. b.fingerprint) then
    longer = a
  end
  -- A claim that was given back counts what was there before it: see attemptBeside.
  local attempt = math.max(a.attempt, b.attempt)
  if a.owner == NOBODY and b.owner ~= NOBODY then attempt = math.max(b.attempt, a.attempt + 1) end
  if b.owner == NOBODY and a.owner ~= NOBODY then attempt = math.max(a.attempt, b.attempt + 1) end
  longer.attempt = math.min(ATTEMPT_MAX, attempt)
  longer.kept = a.kept or b.kept
  return longer
end

local function supersede(over, under)
  if under.state == 'R' then return over end
  if over.state == 'R' then
    under.fence, under.owner, under.lease_until, under.kept = over.fence, NOBODY, 0, false
    return under
  end
  if over.fingerprint ~= under.fingerprint then return over end
  local least = over.owner == NOBODY and under.attempt or under.attempt + 1
  over.attempt = math.min(ATTEMPT_MAX, math.max(over.attempt, least))
  return over
end

-- Of two records at least one of which is completed: fence and owner of the higher, outcome of the larger accepted token,
-- for as long as the longer memory of it.
local function merge_outcomes(a, b)
  local best = a
  if a.state ~= 'D' or (b.state == 'D' and b.accepted > a.accepted) then best = b end
  local other = best == a and b or a
  local fence, owner = best.fence, best.owner
  if other.fence > fence then
    fence, owner = other.fence, other.owner
  elseif other.fence == fence and other.state == 'D' and other.owner > owner then
    owner = other.owner
  end
  local lasts = best.lease_until
  if other.state == 'D' and other.accepted == best.accepted then lasts = math.max(lasts, other.lease_until) end
  best.fence, best.owner, best.lease_until = fence, owner, lasts
  return best
end

local function adopt(key, packed, chosen, their_ttl)
  if not may_be_told then return { GONE } end
  local theirs = parse_header(string.sub(packed, 1, HEADER))
  theirs.outcome = string.sub(packed, HEADER + 1)
  if theirs.state == 'D' and theirs.lease_until == 0 then theirs.lease_until = their_ttl end
  local their_token = theirs.accepted
  local mine, my_ttl = read_header(key), call('PTTL', key)
  local ttl = math.max(their_ttl, my_ttl)
  local result = theirs
  if mine then
    -- What remains of a lease or an outcome, as of theirs: see onNoClock.
    if mine.state == 'D' then
      mine.lease_until = math.max(1, mine.lease_until > 0 and mine.lease_until - NOW or my_ttl)
    else
      mine.lease_until = math.max(0, mine.lease_until - NOW)
    end
    if mine.state == 'D' and theirs.state ~= 'D' and mine.accepted < theirs.fence then
      -- It came late, to a node that had forgotten the promise above it, and none of the others has it: see adoptRecord.
      if mine.fence > theirs.fence then
        theirs.fence, theirs.owner, theirs.kept = mine.fence, NOBODY, false
      end
    elseif mine.state == 'D' or theirs.state == 'D' then
      result = merge_outcomes(mine, theirs)
      result.copied = result.fence ~= result.accepted and not (chosen and result.accepted == their_token)
    elseif mine.fence == theirs.fence then
      local stray = mine.state == 'C' and theirs.state == 'C' and mine.fingerprint ~= theirs.fingerprint
      if not stray then result = merge_claims(mine, theirs) end
    elseif mine.fence > theirs.fence then
      if mine.state == 'C' and theirs.state == 'C' and mine.fingerprint ~= theirs.fingerprint then
        -- Granted in quarantine, for another content, and counted by nobody: see adoptRecord.
        theirs.fence, theirs.owner, theirs.kept = mine.fence, NOBODY, false
        result = theirs
      else
        result = supersede(mine, theirs)
      end
    else
      result = supersede(theirs, mine)
    end
  end
  if result.state == 'R' then
    write_released(key, result.fence, ttl)
  elseif result.state == 'C' then
    local lease_until = result.lease_until > 0 and NOW + result.lease_until or 0
    write(key, 'C', result.fence, result.kept and KEPT or NO_TOKEN, result.owner, lease_until, result.attempt, result.fingerprint,
      result.claimed_at, '', ttl)
  else
    local over_at = result.lease_until < ttl and NOW + result.lease_until or 0
    write(key, result.copied and 'H' or 'D', result.fence, result.accepted, result.owner, over_at, result.attempt,
      result.fingerprint, result.claimed_at, result.outcome or read_outcome(key), ttl)
  end
  return { ADOPTED }
end
