-- Stands for the two type definitions of Kong's that the plugin's schema uses.
local function definition(of)
  return setmetatable(of, {
    __call = function(self, more)
      local copy = {}
      for key, value in pairs(self) do copy[key] = value end
      for key, value in pairs(more) do copy[key] = value end
      return copy
    end,
  })
end

return {
  protocols_http = definition { type = "set", elements = { type = "string", one_of = { "grpc", "grpcs", "http", "https" } } },
  url = definition { type = "string" },
}
