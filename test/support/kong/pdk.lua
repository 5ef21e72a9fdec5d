-- A thin stand-in for what the plugin uses of Kong's PDK, on nginx's Lua module, with the signatures and the limits of the
-- real one; and for how Kong runs a plugin: `access`, then the Service through a captured subrequest, then `response`; for
-- clients of HTTP/2 no `response`. It is not Kong.
--
-- Source: Kong, kong/pdk/{request,response,service.request,ctx}.lua and Kong.response in kong/init.lua (3.9).

local pdk = {}

local function body_of_file(path, max)
  local file = io.open(path, "rb")
  if not file then return nil, "the body's file can't be read" end
  local size = file:seek("end")
  if size > max then
    file:close()
    return nil, "request body file too big: " .. size .. " > " .. max
  end
  file:seek("set")
  local body = file:read("*a")
  file:close()
  return body
end

local request = {}
function request.get_method() return ngx.req.get_method() end
-- As it was sent; Kong's has neither dot segments nor needless percent-encoding.
function request.get_path() return ngx.var.request_uri:match("^[^?]*") end
function request.get_raw_query() return ngx.var.args or "" end
function request.get_header(name) return ngx.var["http_" .. name:lower():gsub("-", "_")] end
function request.get_headers(max)
  assert(max <= 1000, "max_headers must be <= 1000")
  return (ngx.req.get_headers(max))
end
function request.get_http_version() return ngx.req.http_version() end
function request.get_id() return ngx.var.request_id end
function request.get_raw_body(max)
  ngx.req.read_body()
  local body = ngx.req.get_body_data()
  if body then return body end
  local path = ngx.req.get_body_file()
  if not path then return "" end
  if not max or max <= 0 then return nil, "request body did not fit into client body buffer" end
  return body_of_file(path, max)
end

local service_request = {}
function service_request.set_header(name, value) ngx.req.set_header(name, value) end
function service_request.clear_header(name) ngx.req.clear_header(name) end

local response = {}
function response.exit(status, body, headers)
  ngx.ctx.exited = true
  ngx.status = status
  for name, value in pairs(headers or {}) do ngx.header[name] = value end
  ngx.print(body or "")
  return ngx.exit(status)
end
function response.get_status() return ngx.ctx.captured and ngx.ctx.captured.status or ngx.status end
function response.get_header(name)
  local captured = ngx.ctx.captured
  if not captured then return ngx.header[name] end
  for key, value in pairs(captured.header) do
    if key:lower() == name:lower() then return value end
  end
end
function response.clear_header(name)
  for key in pairs(ngx.ctx.captured.header) do
    if key:lower() == name:lower() then ngx.ctx.captured.header[key] = nil end
  end
end
function response.get_source()
  if ngx.ctx.exited then return "exit" end
  -- Where the Service gave no answer, the answer is made by nginx.
  return (ngx.var.upstream_header_time or "-") ~= "-" and "service" or "error"
end

local log = {}
for _, level in ipairs { "err", "warn" } do
  log[level] = function(...) ngx.log(ngx[level:upper()], ...) end
end

kong = {
  request = request,
  service = { request = service_request },
  response = response,
  log = log,
  ctx = {
    plugin = setmetatable({}, {
      __index = function(_, key) return (ngx.ctx.plugin or {})[key] end,
      __newindex = function(_, key, value)
        ngx.ctx.plugin = ngx.ctx.plugin or {}
        ngx.ctx.plugin[key] = value
      end,
    }),
  },
}

-- @return the defaults of the plugin's schema, under what the test gives
function pdk.configured(schema, given)
  local conf = {}
  for _, field in ipairs(schema.fields) do
    for _, one in ipairs(field.config and field.config.fields or {}) do
      local name, of = next(one)
      conf[name] = given[name] == nil and of.default or given[name]
      assert(not of.required or conf[name] ~= nil, name .. " is required")
      assert(conf[name] == nil or type(conf[name]) == (of.type == "integer" and "number" or of.type), name)
    end
  end
  for name in pairs(given) do assert(conf[name] ~= nil, name .. " is not in the schema") end
  return conf
end

-- The content phase of an HTTP/1 request, as Kong.response runs it.
function pdk.proxied(handler, conf)
  ngx.req.read_body()
  local captured = ngx.location.capture("/service", {
    method = ngx["HTTP_" .. ngx.req.get_method()],
    always_forward_body = true,
    share_all_vars = true,
  })
  if captured.truncated then return ngx.exit(502) end
  ngx.ctx.captured = captured
  handler:response(conf)
  ngx.status = captured.status
  for name, value in pairs(captured.header) do ngx.header[name] = value end
  ngx.print(captured.body)
end

return pdk
