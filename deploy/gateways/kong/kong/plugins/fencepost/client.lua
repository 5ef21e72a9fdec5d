-- One call to fencepost's gateway listener over a cosocket: HTTP/1.1, kept alive, bounded in time.
--
-- Owns the connection and the framing, not what a call means. Written on the cosocket instead of resty.http so
-- that all of the plugin can be run and tested where only nginx's Lua module is to be had. It reads what fencepost sends
-- (a Content-Length or no body) and takes everything else for a failure: whatever is not understood is no permission.

local client = {}

local IDLE_MS = 4000
local POOL_SIZE = 32
local BODY_BYTES_MAX = 1048576
local HEADER_LINES_MAX = 200
-- Neither has a body of its own (RFC 9112, section 6.3).
local BODILESS = { [204] = true, [304] = true }

local function parsed(url)
  local scheme, authority = url:match("^(https?)://([^/]+)/?$")
  if not scheme then return nil end
  local host, port = authority:match("^(.*):(%d+)$")
  if not host then host, port = authority, scheme == "https" and "443" or "80" end
  return { secure = scheme == "https", host = host, port = tonumber(port), authority = authority }
end

local function opened(to, options)
  local sock = ngx.socket.tcp()
  sock:settimeouts(options.timeout, options.timeout, options.timeout)
  local name = to.host:match("^%[(.+)%]$") or to.host
  local pool = to.authority .. (to.secure and "|tls|" .. tostring(options.tls_verify) or "")
  local ok, err = sock:connect(to.host, to.port, { pool = pool, pool_size = POOL_SIZE })
  if not ok then return nil, err end
  local reused = (sock:getreusedtimes() or 0) > 0
  if to.secure and not reused then
    -- Where a handshake is over at once and its certificate is refused, lua-resty-core fails instead of saying so
    -- (its issue 499, mended by its pull requests 500 and 533; Debian 12 has an older one).
    local called, done, failed = pcall(sock.sslhandshake, sock, nil, name, options.tls_verify)
    if not called or not done then
      sock:close()
      return nil, called and failed or done
    end
  end
  return sock, nil, reused
end

local function head_of(call, to)
  local lines = { call.method .. " " .. call.path .. " HTTP/1.1", "Host: " .. to.authority }
  for name, values in pairs(call.headers) do
    for _, value in ipairs(type(values) == "table" and values or { values }) do
      lines[#lines + 1] = name .. ": " .. tostring(value)
    end
  end
  if call.body then lines[#lines + 1] = "Content-Length: " .. #call.body end
  return table.concat(lines, "\r\n") .. "\r\n\r\n"
end

local function received(sock)
  local line, err = sock:receive("*l")
  if not line then return nil, err end
  local status = tonumber(line:match("^HTTP/1%.1 (%d%d%d)"))
  if not status or status < 200 then return nil, "not an answer of HTTP/1.1: " .. line:sub(1, 80) end
  local headers = {}
  for _ = 1, HEADER_LINES_MAX + 1 do
    line, err = sock:receive("*l")
    if not line then return nil, err end
    if line == "" then break end
    local name, value = line:match("^([^:%s]+):%s*(.-)%s*$")
    if not name then return nil, "a malformed header line" end
    name = name:lower()
    headers[name] = headers[name] and headers[name] .. ", " .. value or value
  end
  -- The loop ended at its limit, not at the empty line.
  if line ~= "" then return nil, "too many header lines" end
  if headers["transfer-encoding"] then return nil, "an answer without a Content-Length" end
  local body = ""
  local bytes = BODILESS[status] and 0 or tonumber(headers["content-length"])
  if not bytes or bytes > BODY_BYTES_MAX then return nil, "an answer of unknown or too large a size" end
  if bytes > 0 then
    body, err = sock:receive(bytes)
    if not body then return nil, err end
  end
  return { status = status, headers = headers, body = body }
end

local function once(to, call, options)
  local sock, err, reused = opened(to, options)
  if not sock then return nil, err, false end
  local sent, failed = sock:send(head_of(call, to) .. (call.body or ""))
  local answer
  if sent then answer, failed = received(sock) end
  if not answer then
    sock:close()
    -- A kept connection may have been closed by the other end in the meantime.
    return nil, failed, reused
  end
  if (answer.headers.connection or ""):lower() == "close" then
    sock:close()
  else
    sock:setkeepalive(IDLE_MS, POOL_SIZE)
  end
  return answer
end

-- @param call { method, path, headers, body }; options { url, timeout, tls_verify }
-- @return { status, headers (lower case), body }, or nil and what went wrong
function client.call(call, options)
  local to = parsed(options.url)
  if not to then return nil, "the url is not http://host:port or https://host:port" end
  local answer, err, worth_another = once(to, call, options)
  -- Calls may be repeated: the hop's id identifies a check, and ending a claim twice has no further effect.
  while not answer and worth_another and err ~= "timeout" do
    answer, err, worth_another = once(to, call, options)
  end
  return answer, err
end

return client
