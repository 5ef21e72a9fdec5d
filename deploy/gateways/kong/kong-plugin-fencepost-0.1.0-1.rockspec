package = "kong-plugin-fencepost"
version = "0.1.0-1"
source = { url = "git+https://github.com/fencepost/fencepost.git" }
description = {
  summary = "Asks fencepost before a request goes to its Service, so that one logical request is carried out once.",
  homepage = "https://github.com/fencepost/fencepost",
  license = "Apache-2.0",
}
dependencies = { "lua >= 5.1" }
build = {
  type = "builtin",
  modules = {
    ["kong.plugins.fencepost.client"] = "kong/plugins/fencepost/client.lua",
    ["kong.plugins.fencepost.handler"] = "kong/plugins/fencepost/handler.lua",
    ["kong.plugins.fencepost.schema"] = "kong/plugins/fencepost/schema.lua",
  },
}
