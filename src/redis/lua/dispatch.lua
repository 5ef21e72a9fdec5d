--[[
Which rule a frame asks for. It ends the function `rules(…)`: carries out the frame that begins at `at`, and has `size`
bytes after its fixed fields, on the record `key`. `found`: that record, packed, where it was read already.
]]
local function carry_out(key, at, size, found)
  local kind = sub(FRAMES, at, at)
  if kind == 'G' then return read(key) end
  local attempt = tonumber(sub(FRAMES, at + 65, at + 68))
  if kind == 'S' then return inspect(key, attempt == 1) end
  if kind == 'Q' then return standing(key, sub(FRAMES, at + 33, at + 64)) end
  -- Plain digits again: Redis takes no number with zeros in front.
  local ttl = string.format('%.0f', tonumber(sub(FRAMES, at + 149, at + 164)))
  local rest = sub(FRAMES, at + 173, at + 172 + size)
  if kind == 'A' then return adopt(key, rest, attempt == 1, tonumber(ttl)) end
  local token, owner, fingerprint = sub(FRAMES, at + 1, at + 16), sub(FRAMES, at + 33, at + 64), sub(FRAMES, at + 69, at + 132)
  if kind == 'R' or kind == 'W' or kind == 'F' then return release(key, token, owner, ttl, kind == 'W', kind == 'F') end
  if kind == 'D' then
    return complete(key, token, sub(FRAMES, at + 17, at + 32), owner, fingerprint, attempt, rest, ttl)
  end
  local lease = tonumber(sub(FRAMES, at + 133, at + 148))
  if kind == 'N' or kind == 'U' then return renew(key, token, owner, lease, fingerprint, attempt, ttl, kind == 'U') end
  if kind == 'C' then return claim(key, token, owner, lease, fingerprint, ttl, found) end
  error('unknown command ' .. kind)
end

return function(key, at, size, found)
  local answer = carry_out(key, at, size, found)
  return answer, tight
end
