--[[
complete: records the outcome. Accepts from whoever holds this node's promise, also where the claim never arrived.

KEYS  the record's key
Frame token, owner, fingerprint, attempt, key lifetime; outcome
Answers
  RECORDED           this node has the outcome (also where it had it already, whatever it has promised since)
  FENCED     fence   a larger token was promised, or the claim was released
  COMPLETED  fence, promised 0, accepted token, attempt, fingerprint, copied 0|1; bytes: the outcome
             another outcome stands, also where the same token completed with other bytes before: one ballot has one value
]]
local function complete(key, token, owner, fingerprint, attempt, outcome, ttl)
  local record = read_header(key)
  local claimed_at = NOW_DIGITS
  if record then
    local accepted = record.state == 'D' and not record.copied and record.accepted == token
    if accepted and read_outcome(key) == outcome then return { RECORDED } end
    local ours = token == record.fence and record.state ~= 'R' and record.owner == owner and not accepted
    if token <= record.fence and not ours then
      if record.state == 'D' then return completed_answer(key, record, record.fence, 0) end
      return { FENCED, record.fence }
    end
    if record.state ~= 'R' then claimed_at = record.claimed_at end
  end
  write(key, 'D', token, token, owner, 0, attempt, fingerprint, claimed_at, outcome, ttl)
  return { RECORDED }
end
