--[[
The one script that is sent to a node: executes every command that a sidecar had for it in one turn of its event loop,
in the order given. One that fails (a damaged record, a key of another type) answers FAILED and does not stop the others.

KEYS  [1] the node's epoch key; then one record key a command
ARGV  [1] the epoch that this node was enrolled with  [2] how far a token may lie ahead of this node's clock (ms)
      then for each command: its name, followed by its own arguments (see its file)
Answers  seconds and microseconds of TIME; 1 where the epoch stands, else 0; then one answer a command:
      the name of the answer, followed by what its file says; or FAILED and the message
Writes to a node whose epoch does not stand are carried out, and its answers are not counted (enrolment).
]]
local COMMANDS = {
  claim = { claim, 5 },
  renew = { renew, 6 },
  complete = { complete, 6 },
  release = { release, 3 },
  read = { read, 0 },
  show = { show, 1 },
  adopt = { adopt, 3 },
}
local answers = { TIME[1], TIME[2], redis.call('GET', KEYS[1]) == ARGV[1] and 1 or 0 }
local at = 3
for i = 2, #KEYS do
  local command = COMMANDS[ARGV[at]]
  local count = command[2]
  local ok, answer = pcall(command[1], KEYS[i], unpack(ARGV, at + 1, at + count))
  if not ok then answer = { FAILED, type(answer) == 'table' and answer.err or tostring(answer) } end
  answers[#answers + 1] = answer
  at = at + 1 + count
end
return answers
