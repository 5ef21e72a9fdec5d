--[[
claim: asks for the lease of one record, and for this node's promise to accept nothing below the token any more.

KEYS  the record's key
Frame token, owner, attempt (1: batch.lua keeps it as it stands), lease, fingerprint, key lifetime
Answers
  GRANTED    attempt                                  the lease is the caller's; attempt > 1: an earlier one expired
  HELD       fence, remaining ms, fingerprint, attempt   another owner's lease is live, or the caller's own that is kept
  MISMATCH   fence, remaining ms, fingerprint         a claim, live or expired (0 ms), of another fingerprint
  STALE      fence                                    the token is not above what was promised
  SKEWED                                              the token lies further ahead of this node's clock than tolerated
  FULL                                                 the node takes no new claims (batch.lua), and this would be one
  COMPLETED  fence, promised 0|1, accepted token, attempt, fingerprint, copied 0|1; bytes: the outcome
]]
-- `found`: the packed record, where it was read already.
local function claim(key, token, owner, lease, fingerprint, ttl, found)
  if token >= TOO_FAR_AHEAD then return { SKEWED } end
  local record
  if found then record = parse_whole(found) else record = read_header(key) end
  if not record then
    if NO_NEW_CLAIMS then return { FULL } end
    grant(key, token, owner, lease, 1, fingerprint, ttl)
    return { GRANTED, 1 }
  end

  if record.state == 'D' then
    if token > record.fence then
      promise(key, record, token, owner, lease)
      return completed_answer(key, record, token, 1)
    end
    local promised = (token == record.fence and owner == record.owner) and 1 or 0
    return completed_answer(key, record, record.fence, promised)
  end

  if record.state == 'R' then
    if token <= record.fence then return { STALE, record.fence } end
    if NO_NEW_CLAIMS then return { FULL } end
    grant(key, token, owner, lease, 1, fingerprint, ttl)
    return { GRANTED, 1 }
  end

  local remaining = math.max(0, record.lease_until - NOW)
  if record.fingerprint ~= fingerprint then return { MISMATCH, record.fence, remaining, record.fingerprint } end
  if owner == record.owner and remaining > 0 and not record.kept then
    -- The same claimant again: a later round of its own, or a repeated message. Not a new attempt. A claim that is kept is
    -- worked under, perhaps by another call of the same session: it refuses its own claimant as everybody.
    if token < record.fence then return { STALE, record.fence } end
    write_claim(key, false, token, owner, lease, record.attempt, fingerprint, record.claimed_at, ttl)
    return { GRANTED, record.attempt }
  end
  if remaining > 0 then return { HELD, record.fence, remaining, record.fingerprint, record.attempt } end
  if token <= record.fence then return { STALE, record.fence } end
  local attempt = math.min(ATTEMPT_MAX, record.attempt + 1)
  grant(key, token, owner, lease, attempt, fingerprint, ttl)
  return { GRANTED, attempt }
end
