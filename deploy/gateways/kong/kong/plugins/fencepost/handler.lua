-- fencepost for Kong: asks before a request goes to its Service, and tells how the application answered.
--
-- Owns the two calls and what an answer means to the client. Without a 200 to the check no request passes. The
-- Service needs `retries: 0` and a `read_timeout` below the lease (README.md): the lease of a check is not renewed.

local client = require "kong.plugins.fencepost.client"
local cjson = require "cjson.safe"

local CHECK = "/v1/gateway/check"
local COMPLETE = "/v1/gateway/complete"
local HEADERS_MAX = 1000
local RESERVATION = "fencepost-reservation-id"
-- What the application is told; the reservation also ends the claim.
local UPSTREAM = {
  "fencepost-fencing-token", "fencepost-lock-id", "fencepost-key", "fencepost-attempt", "fencepost-lease-expires",
  RESERVATION,
  -- The client's own with the state of the key, where FENCEPOST_TRACE_BAGGAGE is on.
  "baggage",
}
-- They speak of this connection, or of a body that may not be handed on.
local NOT_HANDED_ON = {
  ["connection"] = true, ["content-length"] = true, ["expect"] = true, ["keep-alive"] = true,
  ["proxy-connection"] = true, ["te"] = true, ["trailer"] = true, ["transfer-encoding"] = true, ["upgrade"] = true,
}
-- Of the application's answer: what decides whether it settles the request, and where the result is.
local REPORTED = { "retry-after", "location", "fencepost-outcome" }
-- Kong answers these itself where the application did not: it may still be at work, so the claim stays.
local WITHOUT_ANSWER = { [499] = true, [502] = true, [504] = true }

local Fencepost = {
  VERSION = "0.1.0",
  -- After authentication and access lists (950 and more) and rate limiting (910, 900): a request that they refuse must not hold a claim.
  PRIORITY = 890,
}

local function refusal(status, code, title, retry_after)
  local body = cjson.encode({ status = status, code = code, title = title, detail = "Nothing was carried out." })
  local headers = { ["Content-Type"] = "application/problem+json", ["Retry-After"] = retry_after }
  return kong.response.exit(status, body, headers)
end

local function starts_with(name, prefix) return name:sub(1, #prefix) == prefix end

local function check_headers(conf, body)
  local headers = {}
  local count = 0
  for name, values in pairs(kong.request.get_headers(HEADERS_MAX)) do
    name = name:lower()
    count = count + (type(values) == "table" and #values or 1)
    if not NOT_HANDED_ON[name] and not starts_with(name, "fencepost") and name ~= "x-envoy-auth-partial-body" then
      headers[name] = values
    end
    -- Headers that only fencepost may set, in every spelling: CGI reads _ as a dash, PHP a dot, too.
    if starts_with(name, "fencepost") then kong.service.request.clear_header(name) end
  end
  -- There may be more headers than Kong hands out, among them a key or a forged token.
  if count >= HEADERS_MAX then return nil end
  local query = kong.request.get_raw_query()
  headers["fencepost-original-method"] = kong.request.get_method()
  -- As Kong routes and forwards it: without dot segments, so that no spelling of a path leads around its route.
  headers["fencepost-original-uri"] = kong.request.get_path() .. (query ~= "" and "?" .. query or "")
  -- Empty where the client of HTTP/1.0 names none.
  headers["fencepost-original-host"] = kong.request.get_header("host") or ""
  -- Kong's own id of the request: a check that is repeated is the same check. Never the client's.
  headers["fencepost-hop-id"] = kong.request.get_id()
  headers["fencepost-gateway-token"] = conf.gateway_token
  -- The whole body, or the statement that it is missing; never a part.
  if body == nil then headers["x-envoy-auth-partial-body"] = "true" end
  -- The host of the call is fencepost's own.
  headers["host"] = nil
  return headers
end

-- @return the whole body, "" where there is none, nil where it is not to be handed on
local function body_to_hand_on(conf)
  local announced = tonumber(kong.request.get_header("content-length"))
  if announced and announced > conf.body_bytes_max then return nil end
  if not announced and not kong.request.get_header("transfer-encoding") and kong.request.get_http_version() < 2 then
    return ""
  end
  local body = kong.request.get_raw_body(conf.body_bytes_max)
  if not body or #body > conf.body_bytes_max then return nil end
  return body
end

function Fencepost:access(conf)
  -- All of it, also what is not handed on: the lease begins with the check, and a client that sends slowly must not use it up.
  ngx.req.read_body()
  local body = body_to_hand_on(conf)
  local headers = check_headers(conf, body)
  if not headers then
    return refusal(400, "malformed-request", "The request has too many header lines")
  end
  local whole = body ~= nil and body ~= "" and body or nil
  local answer, err = client.call({ method = whole and "POST" or "GET", path = CHECK, headers = headers, body = whole }, conf)
  if not answer then
    kong.log.err("fencepost was asked and did not answer: ", err)
    return refusal(503, "fencepost-unreachable", "The check could not be made", "1")
  end
  if answer.status == 200 then
    for _, name in ipairs(UPSTREAM) do
      local value = answer.headers[name]
      if value and value ~= "" then kong.service.request.set_header(name, value) end
    end
    local reservation = answer.headers[RESERVATION]
    if reservation and reservation ~= "" then kong.ctx.plugin.reservation = reservation end
    return
  end
  -- A client's bearer token; without a challenge it is the gateway's own token that is missing.
  local challenge = answer.headers["www-authenticate"]
  local known = answer.status == 400 or (answer.status == 401 and challenge) or answer.status == 409 or answer.status == 413 or answer.status == 422
    or answer.status == 429 or answer.status == 500 or answer.status == 502
  if not known then kong.log.warn("fencepost answered a check with ", answer.status) end
  return kong.response.exit(known and answer.status or 503, answer.body, {
    ["Content-Type"] = answer.headers["content-type"] or "application/problem+json",
    ["Retry-After"] = answer.headers["retry-after"] or (not known and "1" or nil),
    ["WWW-Authenticate"] = known and challenge or nil,
  })
end

local function report(conf, reservation, status, headers)
  local answer, err = client.call({
    method = "POST",
    path = COMPLETE,
    headers = { [RESERVATION] = reservation, ["fencepost-gateway-token"] = conf.gateway_token },
    body = cjson.encode({ status = status, headers = headers }),
  }, conf)
  -- A report that is lost leaves the claim to its lease; the client's answer stands.
  if not answer or answer.status ~= 204 then
    kong.log.warn("the end of a request could not be told to fencepost: ", err or answer.status)
  end
end

-- The report of an answer, or nil where there is none: the claim then stays until the lease ends.
local function reportable(status)
  if WITHOUT_ANSWER[status] or status < 200 then return nil end
  local headers
  for _, name in ipairs(REPORTED) do
    local value = kong.response.get_header(name)
    if value then
      headers = headers or {}
      headers[name] = value
    end
  end
  return { status = status, headers = headers }
end

-- Kong runs this phase for clients of HTTP/1; the client's answer waits for the report, so that a client that has the
-- answer and sends again is told that the request was completed.
function Fencepost:response(conf)
  local reservation = kong.ctx.plugin.reservation
  if not reservation then return end
  kong.ctx.plugin.reservation = nil
  local of = reportable(kong.response.get_status())
  kong.response.clear_header("fencepost-outcome")
  if of then report(conf, reservation, of.status, of.headers) end
end

-- Kong does not run the response phase for clients of HTTP/2 and for upgrades: then the report goes out after the answer.
function Fencepost:log(conf)
  local reservation = kong.ctx.plugin.reservation
  if not reservation or kong.response.get_source() ~= "service" then return end
  local of = reportable(kong.response.get_status())
  if not of then return end
  -- No cosocket in this phase.
  local ok, err = ngx.timer.at(0, function(premature)
    if not premature then report(conf, reservation, of.status, of.headers) end
  end)
  if not ok then kong.log.warn("the end of a request could not be told to fencepost: ", err) end
end

return Fencepost
