-- The check and the completion, for HAProxy's Lua. Owns only the two calls; what an answer means to the client is
-- written in haproxy.cfg. Without a 200 from fencepost no request passes.

local CHECK = "/v1/gateway/check"
local COMPLETE = "/v1/gateway/complete"
local RELEASE = "/v1/gateway/release"
local TIMEOUT_MS = 500
-- Half of tune.bufsize: a longer body may not be whole yet, and its lease would run while the rest is still to come.
local BODY_BYTES_MAX = 65536
local TOO_LARGE = '{"status":413,"code":"body-too-large","title":"The body is too large","detail":"A protected request may have a body of 65536 bytes here. Nothing was carried out."}'
local UNREACHABLE = '{"status":503,"code":"fencepost-unreachable","title":"The check could not be made","detail":"Nothing was carried out."}'
-- What the application is told; the reservation also ends the claim.
local UPSTREAM = {
  "fencepost-fencing-token", "fencepost-lock-id", "fencepost-key", "fencepost-attempt",
  "fencepost-lease-expires", "fencepost-reservation-id",
  -- The client's own with the state of the key, where FENCEPOST_TRACE_BAGGAGE is on.
  "baggage",
}
local VERDICTS = { store = true, release = true, hold = true }

local function first(headers, name)
  return headers and headers[name] and headers[name][0]
end

local function tell(txn, call, reservation, report)
  local client = core.httpclient()
  client:post({
    url = txn:get_var("proc.fencepost_url") .. call,
    headers = { ["fencepost-reservation-id"] = { reservation } },
    body = report,
    timeout = TIMEOUT_MS,
  })
end

local function is_whole(txn)
  local arrived = txn.f:req_body_len()
  return arrived <= BODY_BYTES_MAX and arrived >= txn.f:req_body_size()
end

local function check(txn)
  local url = txn:get_var("proc.fencepost_url") .. CHECK
  local headers = {}
  for name, values in pairs(txn.http:req_get_headers()) do
    -- The body is not handed on, and these speak of it or of this connection.
    if name ~= "content-length" and name ~= "transfer-encoding" and name ~= "connection" and name ~= "expect"
      and name ~= "upgrade" then
      local lines = {}
      for _, value in pairs(values) do table.insert(lines, value) end
      headers[name] = lines
    end
  end
  headers["fencepost-original-method"] = { txn.sf:method() }
  headers["fencepost-original-uri"] = { txn.sf:pathq() }
  headers["fencepost-original-host"] = { txn.sf:req_hdr("host") }
  headers["fencepost-hop-id"] = { txn:get_var("txn.fencepost_hop") }

  local client = core.httpclient()
  local answer = client:get({ url = url, headers = headers, timeout = TIMEOUT_MS })
  local status = answer and answer.status or 0
  txn:set_var("txn.fencepost_body", answer and answer.body and answer.body ~= "" and answer.body or UNREACHABLE)
  -- A refusal that HAProxy has no line for is still no permission.
  txn:set_var("txn.fencepost_status", status)
  local retry = answer and first(answer.headers, "retry-after")
  if retry then txn:set_var("txn.fencepost_retry", retry) end
  -- A client's bearer token; without a challenge it is the gateway's own token that is missing.
  local challenge = answer and first(answer.headers, "www-authenticate")
  if challenge then txn:set_var("txn.fencepost_challenge", challenge) end
  if status ~= 200 then return end
  local reservation = first(answer.headers, "fencepost-reservation-id")
  if reservation == "" then reservation = nil end
  if reservation and not is_whole(txn) then
    tell(txn, RELEASE, reservation, "")
    txn:set_var("txn.fencepost_status", 413)
    txn:set_var("txn.fencepost_body", TOO_LARGE)
    return
  end
  for _, name in ipairs(UPSTREAM) do
    local value = first(answer.headers, name)
    if value and value ~= "" then txn.http:req_set_header(name, value) end
  end
  if reservation then txn:set_var("txn.fencepost_reservation", reservation) end
end

local function complete(txn)
  local told = {}
  local retry = txn.sf:res_hdr("retry-after")
  if retry and retry ~= "" then table.insert(told, '"retry-after":"1"') end
  -- Whether something happened only the application knows, whatever its status; nobody else is to read it.
  local verdict = (txn.sf:res_hdr("fencepost-outcome") or ""):lower()
  if VERDICTS[verdict] then table.insert(told, '"fencepost-outcome":"' .. verdict .. '"') end
  txn.http:res_del_header("fencepost-outcome")
  local report = '{"status":' .. tostring(txn.sf:status()) .. ',"headers":{' .. table.concat(told, ",") .. "}}"
  -- A report that is lost leaves the claim to its lease; the client's answer does not wait for more than this.
  tell(txn, COMPLETE, txn:get_var("txn.fencepost_reservation"), report)
end

core.register_action("fencepost_check", { "http-req" }, check, 0)
core.register_action("fencepost_complete", { "http-res" }, complete, 0)
