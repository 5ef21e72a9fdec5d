--[[
renew: sets the lease again, also where the key had gone or the claim never arrived. The claim is kept from then on: what
still belongs to the claiming of it (a later round, raise, withdraw) changes nothing any more.

raise: the same as a part of claiming several records, which lifts each to the largest of their tokens. It keeps nothing.

KEYS  the record's key
Frame token, owner, lease, fingerprint, attempt, key lifetime
Answers
  RENEWED        the lease runs from now
  LOST   fence   a larger token was promised, another owner's lease is live, or the claim was released or completed;
                 raise: or the claim is kept at a smaller token
  SKEWED         the token is above what was promised, and lies further ahead of this node's clock than tolerated
]]
local function renew(key, token, owner, lease, fingerprint, attempt, ttl, raising)
  local record = read_header(key)
  -- As a claim: whoever lifts the fence that far ahead keeps the key from everybody until then. At the fence nothing is lifted.
  if token >= TOO_FAR_AHEAD and not (record and token <= record.fence) then return { SKEWED } end
  local claimed_at, kept = NOW_DIGITS, not raising
  if record then
    if token < record.fence then return { LOST, record.fence } end
    if record.state == 'D' then
      -- Our own outcome, taken by this node while a majority has not: the lease goes on until it has.
      if record.accepted == token and record.owner == owner then return { RENEWED } end
      return { LOST, record.fence }
    end
    if record.state == 'R' and token == record.fence then return { LOST, record.fence } end
    if record.state == 'C' then
      if record.owner == owner then
        if raising and record.kept then
          if token > record.fence then return { LOST, record.fence } end
          kept = true
        end
        claimed_at = record.claimed_at
      elseif record.lease_until > NOW or token == record.fence then
        return { LOST, record.fence }
      end
    end
  end
  write_claim(key, kept, token, owner, lease, attempt, fingerprint, claimed_at, ttl)
  return { RENEWED }
end
