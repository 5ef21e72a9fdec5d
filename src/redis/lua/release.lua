--[[
release: gives the lease back and keeps the fence, so that a delayed claim of the same token bounces.

withdraw: the same by a claimant that was not granted it, or gives up before anybody works under it. Another call of its session
may have found the claim on a majority and works under it: then it is kept (renew.lua), and stays.

forget: the same by an operator, under a token of its own: whatever stands below it is forgotten, an outcome too.

KEYS  the record's key
Frame token, owner, key lifetime
Answers
  RELEASED           nothing of this claim is left here; after a takeover the expired claim before it stands again
  NOT_OWNER  fence   another claim, another token, or an outcome stands; withdraw: or the claim is kept; nothing was changed
  SKEWED             forget: the token lies further ahead of this node's clock than tolerated
]]
local function release(key, token, owner, ttl, withdraws, forgets)
  local record = read_header(key)
  if not record or (forgets and token > record.fence) or (record.state == 'R' and token >= record.fence) then
    -- The claim may still be on its way, over a connection that died: raise the fence to meet it. A claim that would be
    -- refused as too far in the future must not raise it either, or nobody could claim the key until that future.
    if token < TOO_FAR_AHEAD then
      write_released(key, token, ttl)
    elseif forgets then
      return { SKEWED }
    end
    return { RELEASED }
  end
  if record.state ~= 'C' or record.fence ~= token or record.owner ~= owner then return { NOT_OWNER, record.fence } end
  if withdraws and record.kept then return { NOT_OWNER, record.fence } end
  if record.attempt == 1 then
    write_released(key, token, ttl)
  else
    write(key, 'C', token, NO_TOKEN, NOBODY, 0, record.attempt - 1, record.fingerprint, record.claimed_at, '', ttl)
  end
  return { RELEASED }
end
