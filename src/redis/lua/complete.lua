--[[
complete: records the outcome. Accepts from whoever holds this node's promise, also where the claim never arrived.

KEYS  the record's key
ARGV  token (16 digits), owner (32 hex), fingerprint (64 hex), attempt, outcome (bytes), key lifetime (ms)
Answers
  RECORDED           this node has the outcome (also where it had it already, whatever it has promised since)
  FENCED     fence   a larger token was promised, or the claim was released
  COMPLETED  fence, promised 0, accepted token, attempt, fingerprint, outcome, copied 0|1   another outcome
             stands, also where the same token completed with other bytes before: one ballot has one value
]]
local function complete(key, token, owner, fingerprint, attempt, outcome, ttl)
  local record = read_header(key)
  local claimed_at = digits(NOW, 16)
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
  write(key, 'D', token, token, owner, 0, tonumber(attempt), fingerprint, claimed_at, outcome, ttl)
  return { RECORDED }
end
