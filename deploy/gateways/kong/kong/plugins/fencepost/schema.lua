local typedefs = require "kong.db.schema.typedefs"

return {
  name = "fencepost",
  fields = {
    { protocols = typedefs.protocols_http },
    { config = {
        type = "record",
        fields = {
          -- The gateway listener of fencepost (FENCEPOST_GATEWAY_LISTEN): http://host:port or https://host:port.
          { url = typedefs.url { required = true, default = "http://127.0.0.1:8082" } },
          -- What FENCEPOST_API_TOKEN_FILE holds; needed beyond localhost.
          { gateway_token = { type = "string", required = false, referenceable = true, encrypted = true } },
          -- Milliseconds for each step of a call (connecting, sending, each read). A check that takes longer is a refusal.
          { timeout = { type = "integer", required = true, default = 500, between = { 1, 60000 } } },
          { tls_verify = { type = "boolean", required = true, default = true } },
          -- Bodies up to this size are handed on, so that their content is compared, and can be the key. 0: never.
          { body_bytes_max = { type = "integer", required = true, default = 65536, between = { 0, 8388608 } } },
        },
    } },
  },
}
