--[[
complete: records the outcome. Accepts from whoever holds this node's promise, also where the claim never arrived.

With an accepted token, the outcome is what somebody else achieved: one that a majority accepted at that token, or one that is
adopted (then it is the token itself). The node takes it as accepted there in place of what it promised this token and owner, and
of nothing else: a promise that has expired together with its record is none.

KEYS  the record's key
Frame token, accepted token (zeros: the token itself), owner, fingerprint, attempt, key lifetime; outcome
Answers
  RECORDED           this node has the outcome (also where it had it already, whatever it has promised since)
  FENCED     fence   a larger token was promised, or the claim was released; told of another ballot: its own claim is not there
  COMPLETED  fence, promised 0, accepted token, attempt, fingerprint, copied 0|1; bytes: the outcome
             another outcome stands, also where the same token completed with other bytes before: one ballot has one value
]]
local function complete(key, token, chosen_at, owner, fingerprint, attempt, outcome, ttl)
  local told = chosen_at ~= NO_TOKEN
  if not told then chosen_at = token end
  local record = read_header(key)
  local claimed_at = NOW_DIGITS
  if record then
    local accepted = record.state == 'D' and not record.copied and record.accepted == chosen_at
    if accepted and read_outcome(key) == outcome then return { RECORDED } end
    local ours = token == record.fence and record.state ~= 'R' and record.owner == owner and not accepted
    local takes = token > record.fence or ours
    if told then takes = ours and (record.state == 'C' or record.accepted < chosen_at) end
    if not takes then
      if record.state == 'D' then return completed_answer(key, record, record.fence, 0) end
      return { FENCED, record.fence }
    end
    if record.state ~= 'R' then claimed_at = record.claimed_at end
  elseif told then
    return { FENCED, NO_TOKEN }
  end
  write(key, 'D', token, chosen_at, owner, 0, attempt, fingerprint, claimed_at, outcome, ttl)
  return { RECORDED }
end
